package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const list = `
[phrases]
\bis borne with\b => "is tolerated"
\bnobody\b => "no user"
[identifiers]
^giveWay => rollBack
[exceptions]
allowed.md => the Unix user nobody
`

func TestCheckFile(t *testing.T) {
	r, err := parseRules(list)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path, content string
		want          []string
	}{
		"phrase in a document":                   {"a.md", "one\nIt is borne with.\n", []string{`a.md:2: "is borne with": write "is tolerated"`}},
		"phrase in other case":                   {"a.md", "Nobody.", []string{`a.md:1: "Nobody": write "no user"`}},
		"phrase across lines of a comment":       {"a.go", "package a\n\n// It is\n// borne with.\n", []string{`a.go:3: "is borne with": write "is tolerated"`}},
		"phrase across lines of a script":        {"a", "#!/bin/sh\n# It is\n# borne with.\n", []string{`a:2: "is borne with": write "is tolerated"`}},
		"phrase in a comment at the end of line": {"a.go", "package a\n\nvar x = 1 // nobody\n", []string{`a.go:3: "nobody": write "no user"`}},
		"phrase in a message":                    {"a.go", "package a\n\nvar x = \"nobody is here\"\n", []string{`a.go:3: "nobody": write "no user"`}},
		"word that is a value":                   {"a.go", "package a\n\nvar x = \"nobody\"\n", nil},
		"part of a word":                         {"a.md", "nobodys", nil},
		"function":                               {"a.go", "package a\n\nfunc giveWayNow() {}\n", []string{`a.go:3: "giveWayNow": write rollBack`}},
		"parameter, variable and struct field": {"a.go", "package a\n\nfunc f(giveWay int) { giveWay2 := 1 }\n\ntype t struct{ giveWay3 int }\n",
			[]string{`a.go:3: "giveWay": write rollBack`, `a.go:3: "giveWay2": write rollBack`, `a.go:5: "giveWay3": write rollBack`}},
		"identifier that is only used": {"a.go", "package a\n\nvar x = other.giveWay\n", nil},
		"exception":                    {"allowed.md", "It runs as the Unix\nuser nobody, not as nobody.", []string{`allowed.md:2: "nobody": write "no user"`}},
		"exception of another file":    {"a.md", "the Unix user nobody", []string{`a.md:1: "nobody": write "no user"`}},
		"table of the changelog":       {"CHANGELOG.md", "\n| nobody |\nnobody\n", []string{`CHANGELOG.md:3: "nobody": write "no user"`}},
		"binary file":                  {"a.png", "nobody\x00", nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := r.checkFile(test.path, []byte(test.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseRules_RefusesInvalidList(t *testing.T) {
	for name, list := range map[string]string{
		"no replacement":  "[phrases]\nnobody\n",
		"bad expression":  "[phrases]\n( => x\n",
		"no section":      "nobody => x\n",
		"unknown section": "[phrase]\nnobody => x\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseRules(list); err == nil {
				t.Error("got no error")
			}
		})
	}
}

// TestCheck_Repository proves that the list can be read and finds what it must, and
// that exempt files are exempt, in a repository of its own.
func TestCheck_Repository(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"a.go":                        "package a\n\n// F is borne with.\nfunc giveWay() {}\n",
		"README.md":                   "It is good for 30 minutes.",
		"site/texts/en.json":          `{"hello": "Nobody is here."}`,
		"api.json":                    `"nobody"`,
		"a/testdata/x.txt":            "nobody",
		"a.pb.go":                     "package a // nobody",
		"docs/glossary.md":            "nobody",
		"ignored.md":                  "nobody",
		".gitignore":                  "ignored.md",
		"internal/tools/prose/a.text": "nobody",
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	found, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, strings.Split(f.String(), ": ")[0])
	}
	slices.Sort(got)
	if want := []string{"README.md:1", "a.go:3", "a.go:3", "a.go:4", "site/texts/en.json:1"}; !slices.Equal(got, want) {
		t.Errorf("got findings at %q, want %q", got, want)
	}
}
