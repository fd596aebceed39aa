package password

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

const (
	mostWords   = 100
	leastOfWord = 3  // characters: shorter ones stand within too many others
	mostOfWord  = 64 // characters
	// leastBeside is how many characters of a password must be left besides the
	// site's words: as many as the shortest password of any site has.
	leastBeside = 8
)

// ValidateWords says which of a site's words can't be one: there may be 100, of
// 3 to 64 characters of which passwords may consist. See [Policy.Words].
func ValidateWords(words []string) error {
	if len(words) > mostWords {
		return fmt.Errorf("words: %d are too many, %d may be there", len(words), mostWords)
	}
	for _, word := range words {
		folded, ok := foldedWord(word)
		if n := utf8.RuneCountInString(folded); !ok || n < leastOfWord || n > mostOfWord {
			return fmt.Errorf("words: %q must have %d to %d characters, none of them a control character", word, leastOfWord, mostOfWord)
		}
	}
	return nil
}

// isMainlyOf reports whether a prepared password holds some of the words and too
// little besides. Case does not matter.
func isMainlyOf(password string, words []string) bool {
	var pairs []string
	for _, word := range longestFirst(words) {
		pairs = append(pairs, word, "")
	}
	whole := cases.Fold().String(password)
	beside := strings.NewReplacer(pairs...).Replace(whole)
	return beside != whole && utf8.RuneCountInString(beside) < leastBeside
}

// longestFirst returns the words folded. A longer one comes before one that is a
// part of it, so that it is found whole.
func longestFirst(words []string) (sorted []string) {
	for _, word := range words {
		if folded, ok := foldedWord(word); ok {
			sorted = append(sorted, folded)
		}
	}
	slices.SortFunc(sorted, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return sorted
}

// foldedWord prepares a word as passwords are, without regard to case.
func foldedWord(word string) (string, bool) {
	prepared, ok := prepare(word)
	return cases.Fold().String(prepared), ok
}
