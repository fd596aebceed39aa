// Command lines checks that no line of Go code has more than 140 characters, a tab counting
// as one. It prints file:line and the length of each longer line.
//
// Allowed are generated files, raw strings, rows of tables (a line that begins with an
// element of a composite literal), comments at the end of code, and lines without a place to
// break: after a comma, && or ||, or the brace of a function, that is not in a text.
//
//	lines [-w] [FOLDER]
//
// FOLDER is the root of a work tree, the working directory by default. With -w it breaks the
// lines that it would print; run gofmt and it again until it prints nothing. The exit status
// is 1 if a line is too long, 2 if a file cannot be read.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	maxLine  = 140 // characters of a line
	minStart = 60  // of the part before a break, with its indentation
)

func main() {
	write := flag.Bool("w", false, "break the lines")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	findings, err := check(root, *write)
	for _, f := range findings {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(2)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// check returns the findings in the Go files that Git tracks, or would track, below root.
func check(root string, write bool) (findings []string, err error) {
	list := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.go")
	list.Stderr = os.Stderr
	paths, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	for path := range strings.SplitSeq(strings.TrimRight(string(paths), "\x00"), "\x00") {
		source, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		breaks, err := findBreaks(path, source)
		if err != nil {
			return nil, err
		}
		for _, b := range breaks {
			findings = append(findings, fmt.Sprintf("%s:%d: a line of %d characters, break it: %d at most", path, b.line, b.length, maxLine))
		}
		if write && len(breaks) > 0 {
			if err := os.WriteFile(filepath.Join(root, path), apply(source, breaks), 0o644); err != nil {
				return nil, err
			}
		}
	}
	return findings, nil
}

// lineBreak is where a line that is too long can be broken.
type lineBreak struct {
	line, length int
	offset       int // in the file: the space that becomes the end of the line
}

// place is a possible lineBreak.
type place struct {
	offset, column int
	depth          int // twice the number of brackets around it, and 1 for &&
}

// findBreaks returns one break for each line that is too long, in their order.
func findBreaks(path string, source []byte) ([]lineBreak, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	file := files.File(tree.Pos())
	rows := map[int]int{}       // the offset of the first element of a composite literal in a line
	functions := map[int]bool{} // the offsets of the braces of function literals on one line
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, element := range n.Elts {
				line, offset := file.Line(element.Pos()), file.Offset(element.Pos())
				if first, found := rows[line]; !found || offset < first {
					rows[line] = offset
				}
			}
		case *ast.FuncLit:
			if file.Line(n.Body.Lbrace) == file.Line(n.Body.Rbrace) && len(n.Body.List) > 0 {
				functions[file.Offset(n.Body.Lbrace)] = true
			}
		}
		return true
	})
	places := placesOf(source, functions)
	var breaks []lineBreak
	offset := 0
	for i, text := range bytes.Split(source, []byte("\n")) {
		line, start := i+1, offset
		offset += len(text) + 1
		length := utf8.RuneCount(text)
		if length <= maxLine {
			continue
		}
		if first, row := rows[line]; row && len(bytes.TrimSpace(source[start:first])) == 0 {
			continue
		}
		if best, found := choose(places[line]); found {
			breaks = append(breaks, lineBreak{line, length, best.offset})
		}
	}
	return breaks, nil
}

// placesOf returns the places to break of each line. In functions, whose braces are at these
// offsets, it is the brace.
func placesOf(source []byte, functions map[int]bool) map[int][]place {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var tokens scanner.Scanner
	tokens.Init(file, source, nil, 0)
	places := map[int][]place{}
	depth := 0
	add := func(pos token.Pos, length, depth int) {
		offset := file.Offset(pos) + length
		if offset < len(source) && source[offset] == ' ' {
			line := file.Line(pos)
			start := file.Offset(file.LineStart(line))
			places[line] = append(places[line], place{offset, utf8.RuneCount(source[start:offset]), depth})
		}
	}
	for {
		pos, kind, _ := tokens.Scan()
		switch kind {
		case token.EOF:
			return places
		case token.LBRACE:
			if functions[file.Offset(pos)] {
				add(pos, 1, 2*depth)
			}
			depth++
		case token.LPAREN, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth--
		case token.ASSIGN, token.DEFINE: // never on its left side, nor in its header
			delete(places, file.Line(pos))
		case token.COMMA, token.LOR:
			add(pos, len(kind.String()), 2*depth)
		case token.LAND:
			add(pos, len(kind.String()), 2*depth+1) // it binds more strongly
		}
	}
}

// choose returns the last of the outermost places that leaves a line which is not too long,
// and whose start is not too short.
func choose(places []place) (best place, found bool) {
	for _, p := range places {
		if p.column < minStart || p.column > maxLine {
			continue
		}
		if !found || p.depth <= best.depth {
			best, found = p, true
		}
	}
	return best, found
}

// apply breaks the lines.
func apply(source []byte, breaks []lineBreak) []byte {
	out := bytes.Clone(source)
	for _, b := range breaks {
		out[b.offset] = '\n'
	}
	return out
}
