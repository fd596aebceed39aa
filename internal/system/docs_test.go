package system

import (
	"encoding/json"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const repository = "../.."

// pages returns the pages of the documentation by their paths in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/examples/*.md", "docs/examples/*/*.md", "deploy/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	texts := map[string]string{}
	for _, path := range paths {
		if filepath.Base(path) == "CHANGELOG.md" {
			continue // it names what older versions had
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = readFile(t, path)
	}
	return texts
}

var codeBlock = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")

// prose returns a page without its code blocks.
func prose(page string) string { return codeBlock.ReplaceAllString(page, "") }

func TestREADME_HasAtMost150Lines(t *testing.T) {
	if n := strings.Count(readFile(t, repository+"/README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, want at most 150: move text into docs", n)
	}
}

// TestExamples_PagesQuoteThem compares Go code on pages with the examples, which
// .ci/examples builds, or their own tests run.
func TestExamples_PagesQuoteThem(t *testing.T) {
	paths, err := filepath.Glob(repository + "/docs/examples/*/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files in docs/examples, error %v", len(paths), err)
	}
	var code strings.Builder
	for _, path := range paths {
		code.WriteString(readFile(t, path))
	}
	var quoted []string
	for _, page := range []string{"docs/admission.md", "docs/examples/README.md"} {
		for _, block := range codeBlock.FindAllStringSubmatch(readFile(t, repository+"/"+page), -1) {
			if block[1] == "go" {
				quoted = append(quoted, block[2])
			}
		}
	}
	if len(quoted) < 3 {
		t.Errorf("got %d blocks of code on the pages, want those of the mount and of the admission", len(quoted))
	}
	for _, block := range quoted {
		if !strings.Contains(code.String(), block) {
			t.Errorf("no example contains the code on a page:\n%s", block)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocs_LinksResolve follows links within the repository to files and headings.
func TestDocs_LinksResolve(t *testing.T) {
	texts := pages(t)
	headings := map[string]map[string]bool{}
	for name, page := range texts {
		headings[name] = anchors(page)
	}
	for name, page := range texts {
		for _, found := range link.FindAllStringSubmatch(prose(page), -1) {
			target := found[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := name
			if path != "" {
				file = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
				continue
			}
			if anchor != "" && !headings[file][anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the anchors that GitHub makes of a page's headings.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(prose(page), -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])] = true
	}
	return found
}

var (
	namedPage  = regexp.MustCompile(`docs/[a-z-]+\.md`)
	linkOfPage = regexp.MustCompile(`\.Doc\("([a-z-]+\.md)#?([^"]*)"\)`) // of the admin pages
)

// TestDocs_PagesThatTheCodeNamesExist follows what code, settings and scripts say about the
// documentation: names of pages, and links of the admin pages to headings.
func TestDocs_PagesThatTheCodeNamesExist(t *testing.T) {
	texts := pages(t)
	links := 0
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") {
			return err
		}
		switch ext := filepath.Ext(path); {
		case ext == ".go", ext == ".toml", ext == ".service", ext == ".proto", ext == "" && filepath.Base(filepath.Dir(path)) == ".ci":
		default:
			return nil
		}
		text := readFile(t, path)
		for _, page := range namedPage.FindAllString(text, -1) {
			if _, ok := texts[page]; !ok {
				t.Errorf("%s names %s, which does not exist", path, page)
			}
		}
		for _, found := range linkOfPage.FindAllStringSubmatch(text, -1) {
			page, ok := texts["docs/"+found[1]]
			if !ok || found[2] != "" && !anchors(page)[found[2]] {
				t.Errorf("%s links to %s#%s, which does not exist", path, found[1], found[2])
			}
			links++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 4 {
		t.Errorf("got %d links of the admin pages, want at least 4", links)
	}
}

// TestContainerfile_ImagesArePinned checks that each image is named by its digest or
// empty: a tag can be moved.
func TestContainerfile_ImagesArePinned(t *testing.T) {
	text := readFile(t, repository+"/deploy/Containerfile")
	images := regexp.MustCompile(`(?m)^(?:FROM|ARG GO_IMAGE=)\s*(\S+)`).FindAllStringSubmatch(text, -1)
	pinned := regexp.MustCompile(`^(?:\S+@sha256:[0-9a-f]{64}|scratch|\$\{GO_IMAGE\})$`)
	for _, image := range images {
		if !pinned.MatchString(image[1]) {
			t.Errorf("got the image %s, want it with a digest", image[1])
		}
	}
	if len(images) != 3 {
		t.Errorf("got the images %q, want 3", images)
	}
}

var citedPath = regexp.MustCompile("`((?:shared|internal|plugin|host-sample|proto|docs|bench|deploy|\\.ci)/[^`\\s]*)`")

// TestDocs_CitedFilesExist checks files and folders of the repository that are
// named in code style; a path may be a pattern with *.
func TestDocs_CitedFilesExist(t *testing.T) {
	for name, page := range pages(t) {
		for _, found := range citedPath.FindAllStringSubmatch(prose(page), -1) {
			matches, err := filepath.Glob(filepath.Join(repository, found[1]))
			if err != nil || len(matches) == 0 {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
}

var (
	citedTest    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// declaredTests returns the names of the tests of the repository, whatever their build
// tags.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range declaredTest.FindAllStringSubmatch(readFile(t, path), -1) {
			declared[found[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return declared
}

// TestDocs_CitedTestsExist checks the names of tests that pages give as evidence.
func TestDocs_CitedTestsExist(t *testing.T) {
	declared := declaredTests(t)
	for name, page := range pages(t) {
		for _, test := range citedTest.FindAllString(prose(page), -1) {
			if !declared[test] && test != "TestSubject_Condition" {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
}

// TestDocs_GoExamplesCompile compiles every Go block that is a whole file, and links none. An
// overlay makes each a package of this module without writing to it.
func TestDocs_GoExamplesCompile(t *testing.T) {
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	compile := []string{"list", "-export", "-overlay", filepath.Join(dir, "overlay.json")}
	for name, page := range pages(t) {
		for _, block := range codeBlock.FindAllStringSubmatch(page, -1) {
			if block[1] != "go" || !strings.HasPrefix(block[2], "package ") {
				continue
			}
			example := fmt.Sprintf("docs/example%d", len(overlay.Replace))
			source := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
			if err := os.WriteFile(source, []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			if formatted, err := format.Source([]byte(block[2])); err != nil || string(formatted) != block[2] {
				t.Errorf("an example in %s is not formatted by gofmt, error %v", name, err)
			}
			t.Logf("%s is from %s", example, name)
			overlay.Replace[filepath.Join(root, example, "main.go")] = source
			compile = append(compile, "./"+example)
		}
	}
	if len(overlay.Replace) < 2 {
		t.Fatalf("found %d examples, want at least 2", len(overlay.Replace))
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", compile...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go list -export: %v\n%s", err, out)
	}
}
