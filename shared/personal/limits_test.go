package personal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A limit has one place: no other package declares a constant or variable of that name.
func TestLimits_AreDeclaredOnce(t *testing.T) {
	limits := map[string]bool{}
	for _, name := range declared(t, os.DirFS("."), "limits.go") {
		limits[strings.ToLower(name)] = true
	}
	if len(limits) == 0 {
		t.Fatal("found no limits")
	}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"), path == "shared/personal/limits.go":
			return nil
		}
		for _, name := range declared(t, root, path) {
			if limits[strings.ToLower(name)] {
				t.Errorf("%s declares %s: use that of package personal", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// declared returns the names of the constants and variables of a file, but for those in functions.
func declared(t *testing.T, root fs.FS, path string) (names []string) {
	source, err := fs.ReadFile(root, path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		group, _ := d.(*ast.GenDecl)
		if group == nil {
			continue
		}
		for _, spec := range group.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range v.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
