package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "../../.."

// TestEmbedded_ListsEveryMinifiedFile finds files of others by their names.
func TestEmbedded_ListsEveryMinifiedFile(t *testing.T) {
	var listed []string
	for _, program := range []string{"host-sample", "personal"} {
		all, err := embedded(program, repository)
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: got %d components, error %v", program, len(all), err)
		}
		for _, c := range all {
			for _, file := range c.Components {
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

func TestRun_ListsModulesOfTheProgram(t *testing.T) {
	program, err := os.Executable() // a program built by Go
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := run(program, file, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got document
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.SpecVersion != "1.5" || len(got.Components) == 0 || got.Components[0].Name != "std" || got.Components[0].Version == "" {
		t.Errorf("got %s, want the standard library with its version", data)
	}
	if c := got.Metadata.Component; c.Version != "1.2.3" || !strings.HasPrefix(c.PURL, "pkg:golang/github.com/cms-personal/personal@1.2.3#") {
		t.Errorf("got %+v, want the given version and the package in the purl", c)
	}
	if err := run(file, file, "1.2.3"); err == nil {
		t.Error("a text file: got no error")
	}
}
