package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// words returns n words, of which the first begins a sentence.
func words(n int) string { return "One" + strings.Repeat(" word", n-1) }

func TestLongSentences(t *testing.T) {
	tooLong, longest := words(maxWords+1), words(maxWords)
	for name, test := range map[string]struct {
		page string
		want []string // LINE WORDS
	}{
		"the longest":                   {longest + ".\n", nil},
		"too long":                      {"# Title\n\n" + tooLong + ".\n", []string{"3 36"}},
		"a second sentence":             {longest + ".\n" + tooLong + ". " + longest, []string{"2 36"}},
		"over several lines":            {"Short. " + strings.ReplaceAll(tooLong, " ", "\n"), []string{"1 36"}},
		"other ends":                    {longest + "!\n" + longest + "? " + longest + ".) " + longest + ".** " + longest, nil},
		"no end before lower case":      {longest + ". " + "word\n", []string{"1 36"}},
		"a sentence that begins so":     {longest + ". `code` is here.\n", nil},
		"paragraphs":                    {longest + "\n\n" + longest, nil},
		"items":                         {longest + "\n- " + longest + "\n* " + longest + "\n1. " + longest, nil},
		"an item over several lines":    {"- " + longest + "\n  word\n", []string{"1 36"}},
		"cells":                         {"| " + longest + " | " + longest + " |\n|---|---|\n| `a | b` | " + tooLong + "|\n", []string{"3 36"}},
		"code is one word":              {words(maxWords-1) + " `" + tooLong + "\nand more`.\n", nil},
		"a line after code":             {"`a\nb`. " + tooLong, []string{"2 36"}},
		"the address of a link":         {words(maxWords-1) + " [word](an address\nof words).", nil},
		"signs are no words":            {longest + " – … →", nil},
		"blocks of code":                {"```sh\n" + tooLong + "\n```\n````markdown\n```\n" + tooLong + "\n````\n", nil},
		"after a block of code":         {"```\n```\n" + tooLong, []string{"3 36"}},
		"a comment and what comes next": {"<!-- " + longest + " -->\n```sh\n```\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range longSentences(test.page) {
				got = append(got, fmt.Sprint(s.line, len(s.words)))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCheck_Repository checks which files of a repository are read.
func TestCheck_Repository(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"README.md", "CHANGELOG.md", "SECURITY.md", "docs/a.md", "docs/examples/b.md",
		"docs/ignored.md", "docs/c.go", "bench/README.md", "OTHER.md",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(words(maxWords+1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, ".gitignore"), []byte("ignored.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", root).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	findings, err := check(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		path, rest, _ := strings.Cut(f, ":")
		got = append(got, path)
		if want := "1: a sentence of 36 words, split it into sentences of 35 at most: One word word word word word …"; rest != want {
			t.Errorf("got %q, want %q", rest, want)
		}
	}
	slices.Sort(got)
	if want := []string{"CHANGELOG.md", "README.md", "SECURITY.md", "docs/a.md", "docs/examples/b.md"}; !slices.Equal(got, want) {
		t.Errorf("got findings in %q, want %q", got, want)
	}
}
