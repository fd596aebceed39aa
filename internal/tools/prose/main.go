// Command prose checks that the repository is written in plain technical English: it
// fails where a text or an identifier matches an entry of phrases.txt, and prints
// file:line, what it found and what to write instead.
//
// Phrases are looked for in Go comments, in Go string literals of several words, and
// in all other text files that Git tracks. A phrase may be broken across lines.
// Identifiers are looked for where Go code declares them. Not checked are generated
// code, files of third parties, test data, migrations, and files whose purpose is to
// name old terms: phrases.txt, the glossary, and the tables in CHANGELOG.md.
//
//	prose [FOLDER]
//
// FOLDER is the root of a work tree, the working directory by default. The exit status
// is 1 if anything was found, 2 if a file cannot be read.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed phrases.txt
var phrases string

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	findings, err := check(root)
	for _, f := range findings {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings; the list is internal/tools/prose/phrases.txt\n", len(findings))
		os.Exit(1)
	}
}

// check returns the findings in the files that Git tracks, or would track, below root.
func check(root string) ([]finding, error) {
	rules, err := parseRules(phrases)
	if err != nil {
		return nil, err
	}
	list := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Stderr = os.Stderr
	paths, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	var findings []finding
	for path := range strings.SplitSeq(strings.TrimRight(string(paths), "\x00"), "\x00") {
		if exempt.MatchString(path) && !interfaceTexts.MatchString(path) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := rules.checkFile(path, content)
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return findings, nil
}

var exempt = regexp.MustCompile(`(^|/)(testdata|licences|migrations|common)/|(^|/)LICENSE|\.min\.(js|css)$|\.pb\.go$|\.json$|\.sum$` +
	`|^internal/tools/prose/|^docs/glossary\.md$`)

// Texts of the user interface are JSON and are checked all the same.
var interfaceTexts = regexp.MustCompile(`(^|/)texts/[^/]*\.json$`)

type finding struct {
	path    string
	line    int
	text    string // as found
	instead string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: write %s", f.path, f.line, f.text, f.instead)
}

// rule is one entry of the list.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

type rules struct {
	phrases, identifiers []rule
	exceptions           []exception
}

// exception allows a text in one file.
type exception struct{ path, text string }

// parseRules reads the list; its head describes the format.
func parseRules(list string) (*rules, error) {
	r := &rules{}
	section := ""
	for number, line := range slices.Collect(strings.Lines(list)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line
			continue
		}
		left, right, ok := strings.Cut(line, " => ")
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		if !ok || left == "" || right == "" {
			return nil, fmt.Errorf("phrases.txt:%d: no ' => ' between two texts", number+1)
		}
		if section == "[exceptions]" {
			r.exceptions = append(r.exceptions, exception{path: left, text: right})
			continue
		}
		flags := ""
		if section == "[phrases]" {
			flags = `(?i)`
		}
		pattern, err := regexp.Compile(flags + left)
		if err != nil {
			return nil, fmt.Errorf("phrases.txt:%d: %w", number+1, err)
		}
		switch section {
		case "[phrases]":
			r.phrases = append(r.phrases, rule{pattern, right})
		case "[identifiers]":
			r.identifiers = append(r.identifiers, rule{pattern, right})
		default:
			return nil, fmt.Errorf("phrases.txt:%d: section %q is unknown", number+1, section)
		}
	}
	return r, nil
}

func (r *rules) checkFile(path string, content []byte) ([]finding, error) {
	var found []finding
	switch {
	case bytes.IndexByte(content, 0) >= 0: // a picture, say
	case strings.HasSuffix(path, ".go"):
		var err error
		if found, err = r.checkGo(path, content); err != nil {
			return nil, err
		}
	default:
		found = r.checkText(path, 1, string(content))
	}
	slices.SortFunc(found, func(a, b finding) int { return cmp.Or(a.line-b.line, cmp.Compare(a.text, b.text)) })
	return slices.Compact(found), nil
}

func (r *rules) checkGo(path string, content []byte) ([]finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	text := func(n ast.Node) string {
		return string(content[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	var found []finding
	for _, group := range file.Comments {
		found = append(found, r.checkText(path, line(group.Pos()), text(group))...)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(value, " ") {
				found = append(found, r.checkText(path, line(literal.Pos()), text(literal))...)
			}
		}
		for _, name := range declared(n) {
			for _, rule := range r.identifiers {
				if rule.pattern.MatchString(name.Name) {
					found = append(found, finding{path, line(name.Pos()), name.Name, rule.instead})
					break
				}
			}
		}
		return true
	})
	return found, nil
}

// declared returns the identifiers that a node declares.
func declared(n ast.Node) []*ast.Ident {
	var names []*ast.Ident
	add := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if name, ok := e.(*ast.Ident); ok {
				names = append(names, name)
			}
		}
	}
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			add(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			add(n.Key, n.Value)
		}
	}
	return names
}

// Between the words of a phrase may be a line break with what begins the next line of
// a comment, a quotation or a list.
var gap = regexp.MustCompile(`[ \t\r]*\n[ \t]*(//+|#+|\*|>|--)?[ \t]*|[ \t]+`)

// checkText looks for phrases in a text that begins in the given line of a file.
func (r *rules) checkText(path string, first int, text string) []finding {
	if path == "CHANGELOG.md" {
		text = tableRow.ReplaceAllString(text, "")
	}
	// The same text with single spaces, and for each of its bytes the line it is from.
	var flat strings.Builder
	var lines []int
	line, end := first, 0
	add := func(s string) {
		for range len(s) {
			lines = append(lines, line)
		}
		flat.WriteString(s)
	}
	for _, g := range gap.FindAllStringIndex(text, -1) {
		add(text[end:g[0]])
		add(" ")
		line += strings.Count(text[g[0]:g[1]], "\n")
		end = g[1]
	}
	add(text[end:])

	var found []finding
	for _, rule := range r.phrases {
		for _, at := range rule.pattern.FindAllStringIndex(flat.String(), -1) {
			if !r.excepted(path, flat.String(), at) {
				found = append(found, finding{path, lines[at[0]], strings.TrimSpace(flat.String()[at[0]:at[1]]), rule.instead})
			}
		}
	}
	return found
}

var tableRow = regexp.MustCompile(`(?m)^\|.*$`)

// excepted reports whether what was found is a part of a text that is allowed.
func (r *rules) excepted(path, text string, at []int) bool {
	for _, e := range r.exceptions {
		for offset := 0; e.path == path; {
			i := strings.Index(text[offset:], e.text)
			if i < 0 {
				break
			}
			if offset+i <= at[0] && at[1] <= offset+i+len(e.text) {
				return true
			}
			offset += i + 1
		}
	}
	return false
}
