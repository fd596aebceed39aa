// Command realtime finds tests that a busy machine can fail. It prints file:line of
//
//   - a comparison of a duration with a constant of less than 30 s;
//   - a deadline of less than 30 s: a constant in a call of context.WithTimeout or WithTimeoutCause, in
//     the field Timeout of an http.Client, or that is added to time.Now() in a call of
//     context.WithDeadline, WithDeadlineCause, or a method SetDeadline, SetReadDeadline or
//     SetWriteDeadline;
//   - a constant of a second or more, and less than 30 s, in a call of time.After, time.AfterFunc or
//     time.NewTimer.
//
// A min with such a constant counts as one. Others that are computed at run time do not: it finds
// "took > min(limit, 2*time.Second)", and not "took > limit+2*time.Second". It looks into functions
// only.
//
// A function that calls synctest.Test is skipped as a whole, also what it does outside the bubble. A
// comment in the line, "// real time: WHY", says why a busy machine does not change the result.
// Functions whose names are in the section "Real time" of docs/developing.md run alone, so their files
// have the build tag soak or extended.
//
// It checks the work tree in the working directory. The exit status is 1 if there are findings, 2 if
// a file cannot be read.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/tools/lint"
)

func main() {
	lint.Main("realtime", ".", check)
}

var (
	section = regexp.MustCompile(`(?s)\n### Real time\n(.*?)(\n##|$)`)
	inRow   = regexp.MustCompile(`(?m)^\| (.*?) \|`)
	quoted  = regexp.MustCompile("`([A-Za-z0-9_]+)`")
	tests   = regexp.MustCompile(`_test\.go$|(test|testkit)/[^/]*\.go$`)
	alone   = regexp.MustCompile(`(?m)^//go:build (soak|extended)$`)
	excused = regexp.MustCompile(`// real time: .`)
)

// check returns the findings in the Go files that Git tracks, or would track, below root.
func check(root string) (findings []string, err error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/developing.md"))
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{} // true: something in it needs real time
	for _, row := range inRow.FindAllSubmatch(section.Find(page), -1) {
		for _, name := range quoted.FindAllSubmatch(row[1], -1) {
			listed[string(name[1])] = false
		}
	}
	sources, err := lint.Files(root, "*.go")
	if err != nil {
		return nil, err
	}
	fset, packages := token.NewFileSet(), map[string][]*ast.File{}
	for path, source := range sources {
		file, err := parser.ParseFile(fset, path, source, 0)
		if err != nil {
			return nil, err
		}
		name := filepath.Dir(path) + " " + file.Name.Name
		packages[name] = append(packages[name], file)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output() // with -trimpath this program does not know it
	if err != nil {
		return nil, fmt.Errorf("find the standard library: %w", err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(goroot))
	std := importer.ForCompiler(fset, "source", nil)
	if _, err := std.Import("time"); err != nil {
		return nil, err
	}
	for _, files := range packages {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		config := types.Config{Importer: onlyTime{std}, Error: func(error) {}} // about the other imports
		_, _ = config.Check("p", fset, files, info)
		for _, file := range files {
			path := fset.File(file.Pos()).Name()
			if !tests.MatchString(path) {
				continue
			}
			lines := strings.Split(sources[path], "\n")
			for _, f := range inFile(file, info) {
				line, what := fset.Position(f.at).Line, f.what
				if excused.MatchString(lines[line-1]) {
					continue
				}
				if _, ok := listed[f.function]; ok {
					listed[f.function] = true
					if alone.MatchString(sources[path]) {
						continue
					}
					what = f.function + " does not run alone: the file needs the build tag soak or extended"
				}
				findings = append(findings, fmt.Sprintf("%s:%d: %s", path, line, what))
			}
		}
	}
	for name, used := range listed {
		if !used {
			findings = append(findings, "docs/developing.md: nothing in "+name+" needs real time")
		}
	}
	slices.Sort(findings)
	return findings, nil
}

// onlyTime imports nothing but the time package: to its types, values of other imports are unknown.
type onlyTime struct{ types.Importer }

func (o onlyTime) Import(path string) (*types.Package, error) {
	if path != "time" {
		return nil, errors.New("not imported")
	}
	return o.Importer.Import(path)
}

type finding struct {
	function, what string
	at             token.Pos
}

// argument is where a call has a duration after which something ends.
type argument struct {
	index   int
	atLeast time.Duration // shorter ones are pauses
	fromNow bool          // it is added to time.Now()
}

var (
	limits = map[string]argument{
		"context.WithTimeout":       {1, 1, false},
		"context.WithTimeoutCause":  {1, 1, false},
		"context.WithDeadline":      {1, 1, true},
		"context.WithDeadlineCause": {1, 1, true},
		"time.After":                {0, time.Second, false},
		"time.AfterFunc":            {0, time.Second, false},
		"time.NewTimer":             {0, time.Second, false},
	}
	setters = []string{"SetDeadline", "SetReadDeadline", "SetWriteDeadline"}
)

func inFile(file *ast.File, info *types.Info) (found []finding) {
	// short reports whether an expression is a constant duration of less than 30 s, or the minimum of one and others.
	var short func(e ast.Expr, atLeast time.Duration) bool
	short = func(e ast.Expr, atLeast time.Duration) bool {
		v := info.Types[e]
		if call, ok := e.(*ast.CallExpr); ok && v.Value == nil && types.ExprString(call.Fun) == "min" {
			return slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return short(e, atLeast) })
		}
		if v.Value == nil || v.Type.String() != "time.Duration" {
			return false
		}
		d, _ := constant.Int64Val(constant.ToInt(v.Value))
		return time.Duration(d) >= atLeast && time.Duration(d) < 30*time.Second
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var own []finding
		bubble := false
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				ordered := slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op)
				if ordered && info.Types[n].Value == nil && (short(n.X, 1) || short(n.Y, 1)) {
					own = append(own, finding{f.Name.Name, "compares real time with less than 30 s", n.Pos()})
				}
			case *ast.CallExpr:
				name := types.ExprString(n.Fun)
				bubble = bubble || name == "synctest.Test"
				limit := limits[name]
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(setters, f.Sel.Name) {
					name, limit = f.Sel.Name, argument{0, 1, true}
				}
				if limit.atLeast == 0 || len(n.Args) <= limit.index {
					break
				}
				e := n.Args[limit.index]
				if limit.fromNow {
					sum, ok := e.(*ast.CallExpr)
					if !ok || types.ExprString(sum.Fun) != "time.Now().Add" || len(sum.Args) != 1 {
						break
					}
					e = sum.Args[0]
				}
				if short(e, limit.atLeast) {
					own = append(own, finding{f.Name.Name, name + " ends in less than 30 s", n.Pos()})
				}
			case *ast.CompositeLit:
				if types.ExprString(n.Type) != "http.Client" {
					break
				}
				for _, e := range n.Elts {
					if e, ok := e.(*ast.KeyValueExpr); ok && types.ExprString(e.Key) == "Timeout" && short(e.Value, 1) {
						own = append(own, finding{f.Name.Name, "http.Client ends calls in less than 30 s", e.Pos()})
					}
				}
			}
			return true
		})
		if !bubble {
			found = append(found, own...)
		}
	}
	return found
}
