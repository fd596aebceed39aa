package personalhttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// counted counts what a matcher has to do.
type counted struct {
	language.Matcher
	matches *int
}

func (c counted) Match(t ...language.Tag) (language.Tag, int, language.Confidence) {
	*c.matches++
	return c.Matcher.Match(t...)
}

// distinctTags is the value of an Accept-Language of n tags that no site has a language for.
func distinctTags(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("ja-x-a%d", i)
	}
	return strings.Join(tags, ",")
}

func newHandler(t testing.TB) *Handler {
	h, err := New(&personaltest.Service{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// withLanguages serves a request that names languages, and chooses labels for it.
func (h *Handler) withLanguages(header http.Header, labels int) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = header
	h.WithCall(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		choose := h.Labels(r)
		for range labels {
			choose(personal.LocalText{"de": "x", "fr": "y"}, "")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func TestLocales_WorkOfARequestIsBounded(t *testing.T) {
	for condition, header := range map[string]http.Header{
		"one line":   {"Accept-Language": {distinctTags(100)}},
		"many lines": {"Accept-Language": strings.Split(distinctTags(100), ",")},
	} {
		h, matches := newHandler(t), 0
		h.locales.supported.matcher = counted{h.locales.supported.matcher, &matches}
		h.locales.mailed.matcher = counted{h.locales.mailed.matcher, &matches}
		labels := newLanguages("de", "fr")
		labels.matcher = counted{labels.matcher, &matches}
		h.locales.labelSets.sets["de,fr"] = labels
		h.withLanguages(header, 300)
		if want := 3*maxLanguageTags + 1; matches > want { // and the host's default
			t.Errorf("%s: got %d matches of a tag with a set of languages, want %d", condition, matches, want)
		}
	}
}

func TestLocales_TheFirstTagsCount(t *testing.T) {
	h := newHandler(t)
	for header, want := range map[string]string{
		distinctTags(9) + ",ru":                  "ru",
		distinctTags(10) + ",ru":                 "en",
		"ru," + distinctTags(100):                "ru",
		strings.Repeat("x", maxAcceptLanguage+1): "en",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Language", header)
		if got := h.locales.choose(r).locale; got != want {
			t.Errorf("%.60s…: got %s, want %s", header, got, want)
		}
	}
}

// BenchmarkLanguages has a header of a kilobyte, another one in each request, and 20 labels.
func BenchmarkLanguages(b *testing.B) {
	h := newHandler(b)
	for i := 0; b.Loop(); i++ {
		h.withLanguages(http.Header{"Accept-Language": {fmt.Sprintf("ja-x-b%d,", i) + distinctTags(100)}}, 20)
	}
}
