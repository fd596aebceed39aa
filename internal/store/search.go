package store

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/cms-personal/personal/internal/accounts"
)

// likened are characters in whose place people type others that Unicode does not take for forms of them: letters without
// their stroke or their dot, yeh and kaf as in Arabic or in Persian, apostrophes, the minus sign.
var likened = map[rune]rune{
	'ı': 'i', 'ł': 'l', 'ø': 'o', 'đ': 'd', 'ي': 'ی', 'ى': 'ی', 'ك': 'ک',
	'‘': '\'', '’': '\'', 'ʼ': '\'', 'ʻ': '\'', 'ʹ': '\'', '′': '\'', '−': '-',
}

// folded returns the form of a text in which searches compare: people spell a name with other
// case, width, accents, white space, quotes and dashes than its user, and copies of it have
// invisible characters.
func folded(text string) string {
	text = strings.ReplaceAll(text, "´", "'") // else a space with an accent
	text = norm.NFKD.String(cases.Fold().String(norm.NFKD.String(text)))
	space := false
	text = strings.Map(func(r rune) rune {
		before := space
		space = unicode.IsSpace(r)
		switch {
		case space && before:
			return -1
		case space:
			return ' '
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Mn, r) && unicode.Is(unicode.Inherited, r): // no vowel of an Indic script
			return -1
		case unicode.Is(unicode.Pd, r):
			return '-'
		case likened[r] != 0:
			return likened[r]
		}
		return r
	}, text)
	return norm.NFC.String(strings.TrimSpace(text))
}

// searched returns what a search for an account compares, in folded form. No searched text contains the
// separator, so that none matches across two parts. A domain is there as it is typed, too.
func searched(a accounts.Account) string {
	const separator = "\x1f"
	parts := make([]string, 1, 4)
	parts[0] = a.LoginKey
	for _, key := range []string{a.Email.Key, a.Unverified.Key} {
		if key != "" && key != a.LoginKey {
			parts = append(parts, key)
		}
		if local, domain, _ := strings.Cut(key, "@"); strings.Contains(domain, "xn--") {
			typed, _ := idna.ToUnicode(domain)
			parts = append(parts, local+"@"+typed)
		}
	}
	if a.Name != nil {
		parts = append(parts, *a.Name)
	}
	return folded(strings.Join(parts, separator))
}

// containing returns an SQL LIKE pattern for folded values that contain a text.
func containing(text string) string {
	return "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(folded(text)) + "%"
}
