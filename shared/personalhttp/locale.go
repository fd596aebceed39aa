package personalhttp

import (
	"fmt"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
)

// The bounds of an Accept-Language header: it counts for its first tags, and not at all if they
// are longer than any that a browser sends. What a tag costs depends on the site's languages.
const (
	maxLanguageTags   = 10
	maxAcceptLanguage = 1 << 10 // bytes
)

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

// same returns the key for a tag that is of the same language, or false.
func (l languages) same(tag language.Tag) (key string, ok bool) {
	key, ok = l.best(tag)
	return key, ok && sameLanguage(tag, language.Make(key))
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
	mailed    languages        // those in which each version of the plugin has all mails
	fallback  string           // the supported locale for callers who prefer none of them
	host      language.Tag     // the host's default, for labels, which may have more languages
	labelSets labelSets

	// Parsing Accept-Language costs more than all else that a page of the host needs
	// from this package, and few values are common. A header's hash selects its slot;
	// headers with the same slot replace each other.
	seed    maphash.Seed
	choices [256]atomic.Pointer[choice]
	none    choice // without a header
}

// choice is what a value of Accept-Language means.
type choice struct {
	header    string
	locale    string         // of messages
	languages string         // that the caller prefers to the built-in one of mails; "" for none: a site may have messages in a language without mails
	preferred []language.Tag // the caller's, best first; none if the header is malformed
}

// newLocales returns the languages of the options: those that they name, that of [Options.DefaultLocale], and those of the
// site's own messages. It also returns the keys of the texts that each language lacks.
func newLocales(o Options) (_ *locales, missing map[string][]string, err error) {
	host, err := language.Parse(o.DefaultLocale)
	if err != nil {
		return nil, nil, fmt.Errorf("default locale %q is not a BCP 47 tag: %w", o.DefaultLocale, err)
	}
	needed := o.Locales
	for _, locale := range needed {
		if tag, err := language.Parse(locale); err != nil || tag == language.Und || tag.String() != locale {
			return nil, nil, fmt.Errorf("locales: %q is not a BCP 47 tag such as de or pt-BR", locale)
		}
	}
	if len(needed) == 0 {
		needed = []string{"en", "ru"}
		if builtIn, ok := newLanguages(personal.Languages()...).same(host); ok && !slices.Contains(needed, builtIn) {
			needed = append(needed, builtIn)
		}
	}
	texts, missing, err := readTexts(needed, o.DefaultLocale, o.Messages)
	if err != nil {
		return nil, nil, fmt.Errorf("messages: %w", err)
	}
	for _, locale := range needed {
		if len(missing[locale]) == len(texts[locale]) {
			return nil, nil, fmt.Errorf("locales: there are no messages in %q, but in %s, and in the languages of your own messages", locale,
				strings.Join(personal.Languages(), ", "))
		}
	}
	l := &locales{
		texts:     texts,
		supported: newLanguages(slices.Sorted(maps.Keys(texts))...),
		mailed:    newLanguages("en", "ru"),
		host:      host,
		labelSets: labelSets{sets: map[string]languages{}},
		seed:      maphash.MakeSeed(),
	}
	var ok bool
	if l.fallback, ok = l.supported.best(host); !ok {
		return nil, nil, fmt.Errorf("default locale %q: messages exist in %s only", o.DefaultLocale, strings.Join(l.supported.keys, ", "))
	}
	if l.fallback != o.DefaultLocale { // whose texts stand for missing ones
		if l.texts, missing, err = readTexts(needed, l.fallback, o.Messages); err != nil {
			return nil, nil, fmt.Errorf("messages: %w", err)
		}
	}
	l.none.locale = l.fallback
	return l, missing, nil
}

// In returns the handler with messages in other languages than those of the API, for pages such as those of
// administrators. They are some of [personal.Languages] and of [Options.Messages], the default one first.
func (h *Handler) In(locales ...string) (*Handler, error) {
	o := h.options
	o.Locales, o.DefaultLocale = locales, ""
	chosen, _, err := newLocales(o.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("personalhttp: %w", err)
	}
	maps.DeleteFunc(chosen.texts, func(locale string, _ texts) bool { return !slices.Contains(locales, locale) })
	chosen.supported, chosen.host = newLanguages(locales...), h.locales.host
	other := *h
	other.locales = chosen
	return &other, nil
}

// Locales returns the languages that have messages, as BCP 47 tags; the first one is that of
// callers who prefer none of them. The others are in alphabetical order.
func (h *Handler) Locales() []string {
	l := h.locales
	rest := slices.DeleteFunc(slices.Clone(l.supported.keys), func(key string) bool { return key == l.fallback })
	return append([]string{l.fallback}, rest...)
}

// Locale returns the language of [Handler.Locales] that fits the caller of a request best.
func (h *Handler) Locale(r *http.Request) string { return h.locales.choose(r).locale }

// choose returns what the caller's Accept-Language means. It is parsed once in a request: the
// second time it is known.
func (l *locales) choose(r *http.Request) *choice {
	header := acceptLanguage(r)
	if header == "" {
		return &l.none
	}
	place := &l.choices[maphash.String(l.seed, header)%uint64(len(l.choices))]
	if known := place.Load(); known != nil && known.header == header {
		return known
	}
	preferred, _, err := language.ParseAcceptLanguage(header)
	if err != nil { // of one tag; the others count
		preferred, _, _ = language.ParseAcceptLanguage(localtext.ValidLanguages(header, len(header)))
	}
	locale, ok := l.supported.best(preferred...)
	if !ok {
		locale = l.fallback
	}
	readable, ok := l.mailed.best(preferred...)
	if !ok {
		readable = l.fallback
	}
	made := &choice{strings.Clone(header), locale, preferredTo(readable, preferred), preferred}
	place.Store(made)
	return made
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

// labelSets are the sets of languages in which labels exist, by their keys. They are
// kept, because making a matcher takes longer than all else that a response needs.
// Labels come from the host, so there are few sets; when there are maxLabelSets, all are
// dropped.
type labelSets struct {
	mu   sync.Mutex
	sets map[string]languages
}

const maxLabelSets = 100

// of returns the set of the keys, which are sorted, and joined are the id.
func (s *labelSets) of(id string, keys []string) languages {
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

// acceptLanguage returns the first tags of the header, or "" if they are too long.
func acceptLanguage(r *http.Request) string {
	lines := r.Header.Values("Accept-Language")
	header := strings.Join(lines[:min(len(lines), maxLanguageTags)], ",")
	for end, tags := 0, 0; end < len(header); end++ {
		if header[end] != ',' {
			continue
		}
		if tags++; tags == maxLanguageTags {
			header = header[:end]
		}
	}
	if len(header) > maxAcceptLanguage {
		return ""
	}
	return header
}

// labels chooses the language of the host's own texts for one caller. Labels and
// messages may exist in different languages, so each label is matched with the
// caller's Accept-Language, but once for all that exist in the same languages.
type labels struct {
	locales *locales
	request *http.Request
	chosen  map[string]string // language by the languages of a label; nil: none was chosen yet
}

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
	id := strings.Join(keys, ",")
	key, ok := l.chosen[id]
	if ok {
		return label[key]
	}
	set := l.locales.labelSets.of(id, keys)
	if key, ok = set.best(l.locales.choose(l.request).preferred...); !ok {
		key, ok = set.best(l.locales.host)
	}
	if !ok {
		key = keys[0]
	}
	if l.chosen == nil {
		l.chosen = map[string]string{}
	}
	l.chosen[id] = key
	return label[key]
}
