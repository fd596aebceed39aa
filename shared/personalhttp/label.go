package personalhttp

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/personal"
)

// labels chooses the language of the host's own texts for one caller. A label
// may be in languages that messages are not in, and lack those they are in, so
// each is matched with the caller's whole Accept-Language.
type labels struct {
	wanted   []language.Tag // the caller's, best first
	host     language.Tag   // the host's default
	choosers map[string]chooser
}

// chooser matches one set of languages; labels mostly share theirs.
type chooser struct {
	keys  []string
	offer offer // of keys, by index
}

func (l *locales) labels(r *http.Request) *labels {
	return &labels{wanted: acceptedLanguages(r), host: l.host, choosers: map[string]chooser{}}
}

// choose returns the text in the caller's best language that it has, else in
// the host's default, else in any, but always the same, language, else name.
func (l *labels) choose(text personal.LocalText, name string) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(text)), func(key string) bool { return text[key] == "" })
	if len(keys) == 0 {
		return name
	}
	c := l.chooser(keys)
	if i, ok := c.offer.best(l.wanted...); ok {
		return text[c.keys[i]]
	}
	if i, ok := c.offer.best(l.host); ok {
		return text[c.keys[i]]
	}
	return text[keys[0]]
}

func (l *labels) chooser(keys []string) chooser {
	id := strings.Join(keys, ",")
	c, ok := l.choosers[id]
	if !ok {
		c = newChooser(keys)
		l.choosers[id] = c
	}
	return c
}

// newChooser leaves out keys that are no language.
func newChooser(keys []string) chooser {
	c := chooser{}
	var tags []language.Tag
	for _, key := range keys {
		if tag, err := language.Parse(key); err == nil && tag != language.Und {
			c.keys, tags = append(c.keys, key), append(tags, tag)
		}
	}
	c.offer = newOffer(tags...)
	return c
}
