// Command sbom completes the bill of materials that cyclonedx-gomod wrote for a built
// program: it adds the files of others that are embedded in the program, which
// embedded.json lists, names the modules of this repository, and removes what differs between two runs. Run it in its own
// folder, as make sbom does:
//
//	go run -C internal/tools/sbom . personal IN.json OUT.json
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

const repository = "../../.."

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM IN OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, in, out string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if bom.Metadata == nil || bom.Metadata.Component == nil || bom.Metadata.Tools == nil || bom.Components == nil || bom.Dependencies == nil {
		return fmt.Errorf("%s is not a bill of materials of cyclonedx-gomod", in)
	}
	rename(&bom)
	others, err := embedded(program)
	if err != nil {
		return err
	}
	if err := add(&bom, others); err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	bom.Metadata.Timestamp = ""
	if tools := bom.Metadata.Tools.Tools; tools != nil {
		for i := range *tools {
			(*tools)[i].Hashes = nil // of the binary, which contains paths of this machine
		}
	}
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(&bom,
		bom.SpecVersion); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// rename gives the modules of this repository, which a program takes from folders beside its own
// module, their path and the version of the program.
func rename(bom *cyclonedx.BOM) {
	main := bom.Metadata.Component
	names := map[string]string{} // by the old reference
	for i := range *bom.Components {
		c := &(*bom.Components)[i]
		if !strings.HasPrefix(c.Name, ".") {
			continue
		}
		before := c.Name + "@" + c.Version
		c.Name, c.Version = path.Join(main.Name, c.Name), main.Version
		after := strings.NewReplacer(before, c.Name+"@"+c.Version)
		names[c.BOMRef] = after.Replace(c.BOMRef)
		c.BOMRef, c.PackageURL = names[c.BOMRef], after.Replace(c.PackageURL)
	}
	for i := range *bom.Dependencies {
		d := &(*bom.Dependencies)[i]
		d.Ref = cmp.Or(names[d.Ref], d.Ref)
		if d.Dependencies == nil {
			continue
		}
		for j, ref := range *d.Dependencies {
			(*d.Dependencies)[j] = cmp.Or(names[ref], ref)
		}
	}
}

// add adds components on which the program depends and which depend on nothing.
func add(bom *cyclonedx.BOM, others []cyclonedx.Component) error {
	*bom.Components = append(*bom.Components, others...)
	for i, d := range *bom.Dependencies {
		if d.Ref != bom.Metadata.Component.BOMRef || d.Dependencies == nil {
			continue
		}
		for _, c := range others {
			*d.Dependencies = append(*d.Dependencies, c.BOMRef)
			*bom.Dependencies = append(*bom.Dependencies, cyclonedx.Dependency{Ref: c.BOMRef})
		}
		(*bom.Dependencies)[i] = d
		return nil
	}
	return errors.New("the program has no dependencies")
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

// embedded returns what is embedded in a program.
func embedded(program string) ([]cyclonedx.Component, error) {
	var list []other
	if err := json.Unmarshal(embeddedList, &list); err != nil {
		return nil, fmt.Errorf("embedded.json: %w", err)
	}
	var all []cyclonedx.Component
	for _, o := range list {
		if o.Program != program {
			continue
		}
		var files []cyclonedx.Component
		for i, name := range o.Files {
			data, err := os.ReadFile(filepath.Join(repository, name))
			if err == nil && i == 0 && (o.Mark == "" || !bytes.Contains(data, []byte(o.Mark))) {
				err = fmt.Errorf("%s does not contain the mark %q: correct its version in internal/tools/sbom/embedded.json", name, o.Mark)
			}
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256(data)
			files = append(files, cyclonedx.Component{
				Type: cyclonedx.ComponentTypeFile, Name: name,
				Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
			})
		}
		all = append(all, cyclonedx.Component{
			BOMRef: o.PURL, Type: cyclonedx.ComponentTypeLibrary, Name: o.Name, Version: o.Version, PackageURL: o.PURL, Scope: cyclonedx.ScopeRequired,
			Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: o.License}}},
			Components: &files,
		})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("embedded.json lists nothing for the program %q", program)
	}
	return all, nil
}
