package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// source is a package, with those below its folder.
type source struct {
	files     map[string]*ast.File // by their path below the folder
	functions map[string][]*function
}

// function is a function or a method, and its file.
type function struct {
	file string
	decl *ast.FuncDecl
}

// parse reads a package but its tests.
func parse(folder string) (*source, error) {
	s := &source{files: map[string]*ast.File{}, functions: map[string][]*function{}}
	return s, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		s.files[name] = file
		for _, d := range file.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok {
				s.functions[decl.Name.Name] = append(s.functions[decl.Name.Name], &function{name, decl})
			}
		}
		return err
	})
}

// method returns the method of a type; nil if there is none.
func (s *source) method(of, name string) *function {
	for _, f := range s.functions[name] {
		if f.receiver() == of {
			return f
		}
	}
	return nil
}

// receiver returns the type of a method; "" for a function.
func (f *function) receiver() string {
	if f.decl.Recv == nil {
		return ""
	}
	receiver := f.decl.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	t, _ := receiver.(*ast.Ident)
	if t == nil {
		return ""
	}
	return t.Name
}

// reach returns a function and those that it leads to, by calls or by the jobs that it stores: through its own file
// and through as many files further. It does not follow what nearly all operations do.
func (s *source) reach(from *function, further int, jobs map[string][]*function) []*function {
	seen, all := map[*function]bool{from: true}, []*function{from}
	for here := all; further >= 0; further-- {
		var next []*function
		for ; len(here) > 0; here = here[1:] {
			for m := range mentions(here[0].decl) {
				for _, f := range slices.Concat(s.called(m), jobs[m.name]) {
					switch {
					case seen[f] || usual[m.name] || usual[f.file]:
						continue
					case f.file == here[0].file:
						here = append(here, f)
					case further > 0:
						next = append(next, f)
					default:
						continue
					}
					seen[f] = true
					all = append(all, f)
				}
			}
		}
		here = next
	}
	return all
}

// usual are the functions and files that nearly all operations lead to.
var usual = map[string]bool{"identify": true, "KnownAddressLifetime": true, "KindNotice": true, "mail.go": true, "mailbudgets.go": true}

// called returns the functions that a mention may call.
func (s *source) called(m mention) []*function {
	switch m.of {
	case "", "s":
		return s.functions[m.name]
	case "settings":
		if f := s.method("Settings", m.name); f != nil {
			return []*function{f}
		}
	}
	return nil
}

// services are the names of fields that hold a service of operations.
var services = []string{"service", "Service", "administration", "Administration", "admin"}

// callers returns the files that call an operation of a service, which may have further names, those that call it
// most often first.
func (s *source) callers(operation string, further ...string) []string {
	calls := map[string]int{}
	for file, parsed := range s.files {
		for m := range mentions(parsed) {
			if m.name == operation && (slices.Contains(services, m.of) || slices.Contains(further, m.of)) {
				calls[file]++
			}
		}
	}
	return slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(calls[b]-calls[a], strings.Compare(a, b))
	})
}

// types yields the fields of a struct.
func (s *source) types(name string) iter.Seq[*ast.Field] {
	return func(yield func(*ast.Field) bool) {
		for _, file := range s.files {
			for _, d := range file.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range g.Specs {
					t, ok := spec.(*ast.TypeSpec)
					if !ok || t.Name.Name != name {
						continue
					}
					if fields, ok := t.Type.(*ast.StructType); ok {
						for _, f := range fields.Fields.List {
							if !yield(f) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// mention is a name in the source, and the one before its dot; "" if there is none.
type mention struct{ of, name string }

func mentions(n ast.Node) iter.Seq[mention] {
	return func(yield func(mention) bool) {
		stopped := false
		ast.Inspect(n, func(n ast.Node) bool {
			if stopped {
				return false
			}
			switch n := n.(type) {
			case *ast.SelectorExpr:
				m := mention{name: n.Sel.Name}
				switch x := n.X.(type) {
				case *ast.Ident:
					m.of = x.Name
				case *ast.SelectorExpr:
					m.of = x.Sel.Name
				}
				stopped = !yield(m)
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok {
					stopped = !yield(mention{name: f.Name})
				}
				for _, argument := range n.Args { // the kind of a job
					if kind, ok := argument.(*ast.Ident); ok && !stopped && strings.HasPrefix(kind.Name, "Kind") {
						stopped = !yield(mention{name: kind.Name})
					}
				}
			}
			return !stopped
		})
	}
}

func tag(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("toml")
}

// snake returns a Go name as the names of mails and parameters are written.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
