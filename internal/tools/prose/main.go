// Command prose checks the documentation: README.md, CHANGELOG.md, SECURITY.md and the
// pages in docs and bench. It prints file:line, the number of words and the beginning of
// each sentence of more than 35 words. A page in docs says at its top for whom it is and
// what they can do after it, is linked in the map docs/README.md, and has 2,500 words at
// most unless it is a reference.
//
// Blocks of code are not checked. Code within a sentence is one word, and the address of
// a link is none. Items of lists, cells of tables and headings are sentences of their
// own.
//
//	prose [FOLDER]
//
// FOLDER is the root of a work tree, the working directory by default. The exit status
// is 1 if there are findings, 2 if a file cannot be read.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/cms-personal/personal/internal/tools/lint"
)

// maxWords is how many words a sentence has at most, maxPage a page that is no reference.
const (
	maxWords = 35
	maxPage  = 2500
)

// references are the pages that readers search instead of reading them.
var references = []string{"docs/api.md", "docs/configuration.md"}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	lint.Main("prose", root, check)
}

// check returns the findings in the pages that Git tracks, or would track, below root.
func check(root string) (findings []string, err error) {
	pages, err := lint.Files(root, "README.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md", "docs/*.md")
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		for _, s := range longSentences(pages[path]) {
			findings = append(findings, fmt.Sprintf("%s:%d: a sentence of %d words, split it into sentences of %d at most: %s …",
				path, s.line, len(s.words), maxWords, strings.Join(s.words[:6], " ")))
		}
	}
	return append(findings, shape(pages)...), nil
}

// shape returns the findings about each page in docs as a whole, by its path.
func shape(pages map[string]string) (findings []string) {
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		if filepath.Dir(path) != "docs" {
			continue
		}
		page := pages[path]
		_, text, _ := strings.Cut(strings.TrimSpace(page), "\n\n")
		first, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
		first = strings.Join(strings.Fields(first), " ")
		if !strings.HasPrefix(first, "For ") || !strings.Contains(first, "After this page") {
			findings = append(findings, path+": the first paragraph does not say for whom the page is and what they can do: For … After this page …")
		}
		if !strings.Contains(pages["docs/README.md"], "]("+filepath.Base(path)+")") && path != "docs/README.md" {
			findings = append(findings, path+": docs/README.md, the map, does not link to the page")
		}
		if n := len(strings.Fields(page)); n > maxPage && !slices.Contains(references, path) {
			findings = append(findings, fmt.Sprintf("%s: %d words, split the page into pages of %d at most", path, n, maxPage))
		}
	}
	return findings
}

type sentence struct {
	line  int
	words []string
}

// blockStart matches the first line of a heading, an item, a row of a table or a comment.
var blockStart = regexp.MustCompile(`^(#+ |[-*] |[0-9]+\. |\||<!--)`)

// longSentences returns the sentences of a page that are too long.
func longSentences(page string) (long []sentence) {
	var block []string
	first, fence := 0, ""
	flush := func() {
		long = append(long, longInBlock(strings.Join(block, "\n"), first)...)
		block = nil
	}
	for i, line := range strings.Split(page, "\n") {
		line = strings.TrimSpace(line)
		if fence != "" {
			if strings.HasPrefix(line, fence) {
				fence = ""
			}
			continue
		}
		if strings.HasPrefix(line, "```") {
			fence, line = line[:len(line)-len(strings.TrimLeft(line, "`"))], ""
		}
		if line == "" || blockStart.MatchString(line) {
			flush()
		}
		if line == "" {
			continue
		}
		if len(block) == 0 {
			first = i + 1
		}
		block = append(block, line)
	}
	flush()
	return long
}

var (
	code        = regexp.MustCompile("`+[^`]*`+")
	linkAddress = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')*_\]]*$`)
)

// longInBlock returns the sentences that are too long in a block that begins in the given
// line. A sentence ends before a word that is not in lower case.
func longInBlock(block string, line int) (long []sentence) {
	short := func(replacement string) func(string) string {
		return func(s string) string { return replacement + strings.Repeat("\n", strings.Count(s, "\n")) }
	}
	block = linkAddress.ReplaceAllStringFunc(code.ReplaceAllStringFunc(block, short("CODE")), short("]"))
	if strings.HasPrefix(block, "|") {
		block = strings.ReplaceAll(block, "|", " | ")
	}
	s, ended := sentence{}, false
	end := func() {
		if len(s.words) > maxWords {
			long = append(long, s)
		}
		s, ended = sentence{}, false
	}
	for text := range strings.SplitSeq(block, "\n") {
		for word := range strings.FieldsSeq(text) {
			if word == "|" || ended && !unicode.IsLower([]rune(word)[0]) {
				end()
			}
			if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				if len(s.words) == 0 {
					s.line = line
				}
				s.words = append(s.words, word)
			}
			ended = sentenceEnd.MatchString(word)
		}
		line++
	}
	end()
	return long
}
