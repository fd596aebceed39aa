package personalhttp

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/text/language"
)

// maxAcceptLanguage bounds, in bytes, the Accept-Language that is looked at.
// Longer ones, which no browser sends, count as none.
const maxAcceptLanguage = 1 << 10

// locales chooses the language of messages.
type locales struct {
	texts     map[string]texts // by locale
	supported []string
	offer     offer        // of supported, by index
	standard  string       // one of supported: where the caller asks for none of them
	host      language.Tag // the host's default as given; its labels may know more languages
}

func newLocales(standard string) (*locales, error) {
	host, err := language.Parse(standard)
	if err != nil {
		return nil, fmt.Errorf("default locale %q is no BCP 47 tag: %w", standard, err)
	}
	l := &locales{
		texts:     map[string]texts{"en": english(), "ru": russian()},
		supported: []string{"en", "ru"},
		offer:     newOffer(language.English, language.Russian),
		host:      host,
	}
	i, ok := l.offer.best(host)
	if !ok {
		return nil, fmt.Errorf("default locale %q: there are messages in %s only", standard, strings.Join(l.supported, ", "))
	}
	l.standard = l.supported[i]
	return l, nil
}

// choose returns the supported locale that the caller likes best, else the
// host's default.
func (l *locales) choose(r *http.Request) string {
	if i, ok := l.offer.best(acceptedLanguages(r)...); ok {
		return l.supported[i]
	}
	return l.standard
}

// textsIn returns the messages of a locale, those of the default if the host
// put a locale of its own into the call.
func (l *locales) textsIn(locale string) texts {
	if t, ok := l.texts[locale]; ok {
		return t
	}
	return l.texts[l.standard]
}

// acceptedLanguages returns the caller's languages, best first; none if the
// header cannot be read.
func acceptedLanguages(r *http.Request) []language.Tag {
	header := strings.Join(r.Header.Values("Accept-Language"), ",")
	if len(header) > maxAcceptLanguage {
		return nil
	}
	tags, _, err := language.ParseAcceptLanguage(header)
	if err != nil {
		return nil
	}
	return tags
}
