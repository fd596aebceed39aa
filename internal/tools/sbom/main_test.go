package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestEmbedded_ListsEveryMinifiedFile finds files of others by their names.
func TestEmbedded_ListsEveryMinifiedFile(t *testing.T) {
	var listed []string
	for _, program := range []string{"host-sample", "personal"} {
		all, err := embedded(program)
		if err != nil {
			t.Fatalf("%s: got error %v", program, err)
		}
		for _, c := range all {
			for _, file := range *c.Components {
				listed = append(listed, file.Name)
			}
		}
	}
	for _, folder := range []string{"host-sample", "internal", "plugin", "shared"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(repository, path)
			if strings.Contains(d.Name(), ".min.") && !strings.Contains(path, "/e2e/") && !slices.Contains(listed, filepath.ToSlash(name)) {
				t.Errorf("%s is not listed in embedded.json", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What cyclonedx-gomod writes, shortened.
const written = `{
  "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
  "metadata": {
    "timestamp": "2026-01-02T03:04:05Z",
    "tools": [{"vendor": "CycloneDX", "name": "cyclonedx-gomod", "version": "v1.7.0", "hashes": [{"alg": "MD5", "content": "70c633c61f25919fddb71654e8c9163a"}]}],
    "component": {"bom-ref": "main", "type": "application", "name": "example.com/repository/main", "version": "v1.2.3"}
  },
  "components": [
    {"bom-ref": "pkg:golang/..@(devel)?type=module", "type": "library", "name": "..", "version": "(devel)", "purl": "pkg:golang/..@(devel)?type=module&goos=linux"},
    {"bom-ref": "std", "type": "library", "name": "std", "version": "go1.26.8", "purl": "pkg:golang/std@go1.26.8?type=module&goos=linux"}
  ],
  "dependencies": [{"ref": "pkg:golang/..@(devel)?type=module"}, {"ref": "std"}, {"ref": "main", "dependsOn": ["pkg:golang/..@(devel)?type=module", "std"]}]
}`

func TestRun_AddsEmbeddedFiles(t *testing.T) {
	got, text := complete(t, written)
	names := []string{}
	for _, c := range *got.Components {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"example.com/repository", "std", "htmx.org", "uplot"}) {
		t.Errorf("got the components %q, want the module beside that of the program, std, and those of embedded.json", names)
	}
	depends := map[string][]string{}
	for _, d := range *got.Dependencies {
		depends[d.Ref] = nil
		if d.Dependencies != nil {
			depends[d.Ref] = *d.Dependencies
		}
	}
	for _, c := range *got.Components {
		if _, ok := depends[c.BOMRef]; !ok || !slices.Contains(depends["main"], c.BOMRef) {
			t.Errorf("got the dependencies %v, want %s in them, and the program to depend on it", depends, c.BOMRef)
		}
	}
	if c := (*got.Components)[0]; c.PackageURL != "pkg:golang/example.com/repository@v1.2.3?type=module&goos=linux" {
		t.Errorf("got the module %+v, want the version of the program", c)
	}
	if m := got.Metadata.Component; m.Version != "v1.2.3" || got.SpecVersion != cyclonedx.SpecVersion1_5 ||
		!bytes.Contains(text, []byte("?type=module&goos=linux")) {
		t.Errorf("got %s, want the rest unchanged", text)
	}
}

func TestRun_IsReproducible(t *testing.T) {
	_, first := complete(t, written)
	_, second := complete(t, strings.NewReplacer("2026-01-02", "2026-02-03", "70c633", "123456").Replace(written))
	if !bytes.Equal(first, second) {
		t.Errorf("got %s\nand %s, want the same for another time and another binary of the tool", first, second)
	}
}

func TestRun_RefusesWhatIsNoBillOfMaterials(t *testing.T) {
	folder := t.TempDir()
	in, out := filepath.Join(folder, "in.json"), filepath.Join(folder, "out.json")
	for _, text := range []string{"", "{}", strings.Replace(written, `"ref": "main"`, `"ref": "another"`, 1)} {
		if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run("host-sample", in, out); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
	if err := os.WriteFile(in, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("unknown", in, out); err == nil {
		t.Error("an unknown program: got no error")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("got a file despite the errors")
	}
}

// complete returns what run makes of a document for the program host-sample.
func complete(t *testing.T, document string) (cyclonedx.BOM, []byte) {
	t.Helper()
	folder := t.TempDir()
	in, out := filepath.Join(folder, "in.json"), filepath.Join(folder, "out.json")
	if err := os.WriteFile(in, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run("host-sample", in, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return bom, text
}
