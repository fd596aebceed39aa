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
		"docs/ignored.md", "docs/c.go", "bench/README.md", "OTHER.md", "docs/README.md",
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
		switch rest {
		case "1: a sentence of 36 words, split it into sentences of 35 at most: One word word word word word …":
			got = append(got, path)
		case " docs/README.md, the map, does not link to the page":
			got = append(got, path+" unlinked")
		case " the first paragraph does not say for whom the page is and what they can do: For … After this page …":
			got = append(got, path+" for whom")
		default:
			t.Errorf("got %q", rest)
		}
	}
	slices.Sort(got)
	want := []string{
		"CHANGELOG.md", "README.md", "SECURITY.md", "bench/README.md", "docs/README.md", "docs/README.md for whom",
		"docs/a.md", "docs/a.md for whom", "docs/a.md unlinked", "docs/examples/b.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got findings in %q, want %q", got, want)
	}
}

func TestShape(t *testing.T) {
	const page, index = "# A\n\nFor readers. After\nthis page you know.\n",
		"# Map\n\nFor all. After this page you know.\n\n[A](a.md) [B](api.md)\n"
	for name, test := range map[string]struct {
		path, page string
		want       string
	}{
		"as it must be":        {"docs/a.md", page, ""},
		"no map entry":         {"docs/b.md", page, "docs/b.md: docs/README.md, the map"},
		"no readers":           {"docs/a.md", "# A\n\nAfter this page you know.\n", "docs/a.md: the first paragraph"},
		"no result":            {"docs/a.md", "# A\n\nFor readers.\n\nAfter this page you know.\n", "docs/a.md: the first paragraph"},
		"too long":             {"docs/a.md", page + strings.Repeat(words(35)+".\n", 72), "docs/a.md: 2529 words"},
		"a long reference":     {"docs/api.md", page + strings.Repeat(words(35)+".\n", 72), ""},
		"a page of an example": {"docs/examples/b.md", words(35), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(shape(map[string]string{"docs/README.md": index, test.path: test.page}), "\n")
			if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
