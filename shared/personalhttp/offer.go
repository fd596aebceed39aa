package personalhttp

import "golang.org/x/text/language"

// offer is a set of languages to choose from.
type offer struct {
	tags    []language.Tag
	matcher language.Matcher
}

func newOffer(tags ...language.Tag) offer {
	return offer{tags: tags, matcher: language.NewMatcher(tags)}
}

// best returns the index of the language for somebody who wants these, best
// first. A language that CLDR holds to be understood instead of the one wanted,
// such as Russian for Kazakh, comes behind all that were wanted by name: who
// also asked for English did not ask for that.
func (o offer) best(wanted ...language.Tag) (int, bool) {
	instead := -1
	for _, tag := range wanted {
		_, i, confidence := o.matcher.Match(tag)
		switch {
		case confidence == language.No:
		case confidence == language.Exact || sameLanguage(tag, o.tags[i]):
			return i, true
		case instead < 0:
			instead = i
		}
	}
	return max(instead, 0), instead >= 0
}

func sameLanguage(a, b language.Tag) bool {
	one, _ := a.Base()
	other, _ := b.Base()
	return one == other
}
