package personalhttp

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/personal"
)

// maxAcceptLanguage bounds the Accept-Language header, in bytes. A longer one, which
// no browser sends, is ignored.
const maxAcceptLanguage = 1 << 10

// languages is a set of languages to choose from.
type languages struct {
	keys    []string // as given
	tags    []language.Tag
	matcher language.Matcher
}

// newLanguages leaves out keys that are not language tags.
func newLanguages(keys ...string) languages {
	var l languages
	for _, key := range keys {
		if tag, err := language.Parse(key); err == nil && tag != language.Und {
			l.keys, l.tags = append(l.keys, key), append(l.tags, tag)
		}
	}
	l.matcher = language.NewMatcher(l.tags)
	return l
}

// best returns the key of the best language for a caller who prefers these languages,
// best first, or false. CLDR lists languages that speakers of another understand, such
// as Russian for Kazakh. Such a substitute is used only if the set has none of the
// languages that the caller named.
func (l languages) best(preferred ...language.Tag) (key string, ok bool) {
	for _, tag := range preferred {
		_, i, confidence := l.matcher.Match(tag)
		switch {
		case confidence == language.No:
		case confidence == language.Exact || sameLanguage(tag, l.tags[i]):
			return l.keys[i], true
		case !ok:
			key, ok = l.keys[i], true
		}
	}
	return key, ok
}

func sameLanguage(a, b language.Tag) bool {
	baseA, _ := a.Base()
	baseB, _ := b.Base()
	return baseA == baseB
}

// locales chooses the languages of responses.
type locales struct {
	texts     map[string]texts // by locale
	supported languages        // the keys of texts
	builtIn   languages        // those of the built-in messages, in which all mails exist
	fallback  string           // the supported locale for callers who prefer none of them
	host      language.Tag     // the host's default, for labels, which may have more languages
	labelSets labelSets

	// Parsing Accept-Language costs more than all else that a page of the host needs
	// from this package, and few values are common. A header's hash selects its slot;
	// headers with the same slot replace each other.
	seed    maphash.Seed
	choices [256]atomic.Pointer[choice]
}

// choice is what [locales.choose] returns for a value of Accept-Language.
type choice struct{ header, locale, languages string }

// newLocales returns the languages of the built-in messages, and of the site's own, which may
// be nil.
func newLocales(fallback string, own fs.FS) (*locales, error) {
	host, err := language.Parse(fallback)
	if err != nil {
		return nil, fmt.Errorf("default locale %q is not a BCP 47 tag: %w", fallback, err)
	}
	texts, err := readTexts(own)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	l := &locales{
		texts:     texts,
		supported: newLanguages(slices.Sorted(maps.Keys(texts))...),
		builtIn:   newLanguages("en", "ru"),
		host:      host,
		labelSets: labelSets{sets: map[string]languages{}},
		seed:      maphash.MakeSeed(),
	}
	var ok bool
	if l.fallback, ok = l.supported.best(host); !ok {
		return nil, fmt.Errorf("default locale %q: messages exist in %s only", fallback, strings.Join(l.supported.keys, ", "))
	}
	return l, nil
}

// Locales returns the languages that have messages, as BCP 47 tags; the first one is that of
// callers who prefer none of them. The others are in alphabetical order.
func (h *Handler) Locales() []string {
	l := h.locales
	rest := slices.DeleteFunc(slices.Clone(l.supported.keys), func(key string) bool { return key == l.fallback })
	return append([]string{l.fallback}, rest...)
}

// choose returns the locale of messages for the caller, and the languages that they prefer to
// the built-in one of mails, "" for none: a site may have messages in a language without mails.
func (l *locales) choose(r *http.Request) (locale, languages string) {
	header := acceptLanguage(r)
	if header == "" {
		return l.fallback, ""
	}
	place := &l.choices[maphash.String(l.seed, header)%uint64(len(l.choices))]
	if known := place.Load(); known != nil && known.header == header {
		return known.locale, known.languages
	}
	preferred := acceptedLanguages(r)
	locale, ok := l.supported.best(preferred...)
	if !ok {
		locale = l.fallback
	}
	readable, ok := l.builtIn.best(preferred...)
	if !ok {
		readable = l.fallback
	}
	languages = preferredTo(readable, preferred)
	place.Store(&choice{strings.Clone(header), locale, languages})
	return locale, languages
}

// maxLanguages is the length of the list that [preferredTo] returns, in bytes.
const maxLanguages = 64

// preferredTo returns the languages before the locale, best first, and then the locale:
// the site can have mails in languages without messages. It returns "" if the locale is
// the best language.
func preferredTo(locale string, preferred []language.Tag) string {
	own := language.Make(locale)
	list := ""
	for _, tag := range preferred {
		if sameLanguage(tag, own) {
			break
		}
		base, _, _ := tag.Raw()
		wildcard := base == (language.Base{}) || base.String() == "mul" // mul: a *
		if wildcard || len(list)+len(tag.String())+len(",")+len(locale) > maxLanguages {
			continue
		}
		list += tag.String() + ","
	}
	if list == "" {
		return ""
	}
	return list + locale
}

// texts returns the messages in the language of the request's call. A host can put a
// locale without messages into the call: then they are in the default language.
func (h *Handler) texts(r *http.Request) texts {
	if t, ok := h.locales.texts[personal.CallFrom(r.Context()).Locale]; ok {
		return t
	}
	return h.locales.texts[h.locales.fallback]
}

// acceptedLanguages returns the caller's languages, best first, or none if the header
// is malformed.
func acceptedLanguages(r *http.Request) []language.Tag {
	tags, _, err := language.ParseAcceptLanguage(acceptLanguage(r))
	if err != nil {
		return nil
	}
	return tags
}

// labelSets are the sets of languages in which labels exist, by their keys. They are
// kept, because making a matcher takes longer than all else that a response needs.
// Labels come from the host, so there are few sets; when there are maxLabelSets, all are
// dropped.
type labelSets struct {
	mu   sync.Mutex
	sets map[string]languages
}

const maxLabelSets = 100

// of returns the set of the keys, which are sorted.
func (s *labelSets) of(keys []string) languages {
	id := strings.Join(keys, ",")
	s.mu.Lock()
	defer s.mu.Unlock()
	set, ok := s.sets[id]
	if !ok {
		if len(s.sets) >= maxLabelSets {
			clear(s.sets)
		}
		set = newLanguages(keys...)
		s.sets[id] = set
	}
	return set
}

// acceptLanguage returns the header, or "" if it is too long.
func acceptLanguage(r *http.Request) string {
	header := strings.Join(r.Header.Values("Accept-Language"), ",")
	if len(header) > maxAcceptLanguage {
		return ""
	}
	return header
}

// labels chooses the language of the host's own texts for one caller. Labels and
// messages may exist in different languages, so each label is matched with the
// caller's whole Accept-Language.
type labels struct {
	locales   *locales
	request   *http.Request
	parsed    bool
	preferred []language.Tag // the caller's, best first; set once parsed
}

// labels returns the labels for a caller. Most requests choose none, so the header is
// not parsed yet.
func (l *locales) labels(r *http.Request) *labels { return &labels{locales: l, request: r} }

// Labels returns a function that chooses a label's text for the caller, as the API
// does: in the caller's best language, else in the host's default language, else in
// any. It returns the fallback for a label without texts.
func (h *Handler) Labels(r *http.Request) func(label personal.LocalText, fallback string) string {
	return h.locales.labels(r).choose
}

// choose implements [Handler.Labels]. The choice of any language is the same each
// time.
func (l *labels) choose(label personal.LocalText, fallback string) string {
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(label)), func(key string) bool { return label[key] == "" })
	if len(keys) == 0 {
		return fallback
	}
	if !l.parsed {
		l.preferred, l.parsed = acceptedLanguages(l.request), true
	}
	set := l.locales.labelSets.of(keys)
	key, ok := set.best(l.preferred...)
	if !ok {
		key, ok = set.best(l.locales.host)
	}
	if !ok {
		key = keys[0]
	}
	return label[key]
}
