package system

import (
	"net/http"
	"strings"
	"testing"
)

func testHeaders(t *testing.T, s *system) {
	t.Run("messages are in the caller's language", func(t *testing.T) { testLanguages(t, s) })
	t.Run("a short, clean request id is echoed", func(t *testing.T) {
		for _, id := range []string{"abc", "0f8fad5b-d9cb-469f-a165-70867728950e", "a_b-c.1"} {
			for _, path := range []string{"fields/", "nope/", "profile/"} {
				a := s.do(t, call{method: http.MethodGet, path: path, header: http.Header{"X-Request-Id": {id}}})
				if got := a.Header.Get("X-Request-Id"); got != id {
					t.Errorf("GET %s with request id %q answers %q", path, id, got)
				}
			}
		}
	})
	t.Run("any other request id is replaced by a new one", func(t *testing.T) {
		seen := map[string]bool{}
		for _, id := range []string{"", strings.Repeat("x", 1000), "a b", "<script>", "a\"b", "a=b\tc", "ключ"} {
			a := s.do(t, call{method: http.MethodGet, path: "fields/", header: http.Header{"X-Request-Id": {id}}})
			got := a.Header.Get("X-Request-Id")
			if got == id || seen[got] {
				t.Errorf("request id %q answers %q", id, got)
			}
			seen[got] = true
		}
	})
	t.Run("without CORS origins no answer speaks of CORS", func(t *testing.T) {
		a := s.do(t, call{method: http.MethodGet, path: "fields/", header: http.Header{"Origin": {"https://app.example"}}})
		for name := range a.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("the answer has %s", name)
			}
		}
		s.do(t, call{method: http.MethodOptions, path: "auth/", header: http.Header{
			"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"}}}).want(t, "method_not_allowed")
	})
}

func testLanguages(t *testing.T, s *system) {
	message := func(language string) string {
		header := http.Header{}
		if language != "" {
			header.Set("Accept-Language", language)
		}
		a := s.do(t, call{path: "auth/", header: header})
		return a.Result.Message + a.Result.Fields["login"].Message
	}
	english, russian := message("en"), message("ru")
	if isCyrillic(english) || !isCyrillic(russian) {
		t.Fatalf("English %q, Russian %q", english, russian)
	}
	for language, want := range map[string]string{
		"": english, "en-GB": english, "de": english, "*": english, "nonsense;;q=x": english, "ru;q=0.1, en;q=0.9": english,
		"ru-RU": russian, "de, ru;q=0.8, en;q=0.2": russian, "RU": russian, "en;q=0, ru": russian,
	} {
		if got := message(language); got != want {
			t.Errorf("Accept-Language %q: %q, want %q", language, got, want)
		}
	}
	for _, path := range []string{"nope/", "profile/"} {
		a := s.do(t, call{method: http.MethodGet, path: path, header: http.Header{"Accept-Language": {"ru"}}})
		if !isCyrillic(a.Result.Message) {
			t.Errorf("GET %s in Russian says %q", path, a.Result.Message)
		}
	}
}

func isCyrillic(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 'А' && r <= 'я' })
}
