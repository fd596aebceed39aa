// Command sbom writes the software bill of materials of a built program, in the JSON
// format of CycloneDX 1.5: the Go modules that are linked into it, as the program
// itself names them, the standard library, and the files of others that are embedded in
// it, which embedded.json lists. Run it in the root of the repository:
//
//	go run ./internal/tools/sbom bin/personal dist/sbom-personal.json 1.2.3
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/cms-personal/personal/shared/durable"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM FILE VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, file, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	all, err := components(info)
	if err != nil {
		return err
	}
	name := filepath.Base(program)
	others, err := embedded(name, ".")
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(document{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1,
		Metadata:   metadata{Component: component{Type: "application", Name: name, Version: version, PURL: purl(info.Main.Path, version) + strings.Replace(strings.TrimPrefix(info.Path, info.Main.Path), "/", "#", 1)}},
		Components: append(all, others...),
	}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(file, append(text, '\n'))
}

type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string      `json:"type"`
	Name       string      `json:"name"`
	Version    string      `json:"version,omitempty"`
	Hashes     []hash      `json:"hashes,omitempty"`
	Licenses   []license   `json:"licenses,omitempty"`
	PURL       string      `json:"purl,omitempty"`
	Components []component `json:"components,omitempty"` // the files that it consists of
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

func sha256Of(sum []byte) []hash { return []hash{{"SHA-256", hex.EncodeToString(sum)}} }

func purl(module, version string) string {
	if version == "" || version == "(devel)" {
		return "pkg:golang/" + module
	}
	return "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B") // as the purl specification asks
}

// components returns the standard library and the linked modules. The hash of a module
// is the one in go.sum.
func components(info *debug.BuildInfo) ([]component, error) {
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	all := []component{{Type: "library", Name: "std", Version: goVersion, PURL: purl("std", goVersion)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("module %s has the sum %q, want h1: and a digest", m.Path, m.Sum)
		}
		all = append(all, component{Type: "library", Name: m.Path, Version: m.Version, Hashes: sha256Of(sum), PURL: purl(m.Path, m.Version)})
	}
	return all, nil
}

//go:embed embedded.json
var embeddedList []byte

// other is a work of others of which files are embedded in a program.
type other struct {
	Program string   `json:"program"`
	Name    string   `json:"name"`
	Version string   `json:"version"`
	License string   `json:"license"`
	PURL    string   `json:"purl"`
	Files   []string `json:"files"`
	Mark    string   `json:"mark"` // a text in the first file that shows the version
}

// embedded returns what is embedded in a program; root is the root of the repository.
func embedded(program, root string) ([]component, error) {
	var list []other
	if err := json.Unmarshal(embeddedList, &list); err != nil {
		return nil, fmt.Errorf("embedded.json: %w", err)
	}
	var all []component
	for _, o := range list {
		if o.Program != program {
			continue
		}
		c := component{Type: "library", Name: o.Name, Version: o.Version, PURL: o.PURL, Licenses: make([]license, 1)}
		c.Licenses[0].License.ID = o.License
		for i, name := range o.Files {
			data, err := os.ReadFile(filepath.Join(root, name))
			if err == nil && i == 0 && !bytes.Contains(data, []byte(o.Mark)) {
				err = fmt.Errorf("%s does not contain %q: correct its version in internal/tools/sbom/embedded.json", name, cmp.Or(o.Mark, "a mark"))
			}
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(data)
			c.Components = append(c.Components, component{Type: "file", Name: name, Hashes: sha256Of(sum[:])})
		}
		all = append(all, c)
	}
	return all, nil
}
