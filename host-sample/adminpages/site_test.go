package adminpages_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPagesAreForAdministratorsAndTheirOwnPostsAlone(t *testing.T) {
	b := open(t, nil)
	for _, path := range []string{
		"/admin/fields", "/admin/fields/new", "/admin/fields/json", "/admin/mail", "/admin/events", "/admin/users", "/admin/users/1",
	} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("x=y"))
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := b.send(r); w.Code != http.StatusForbidden {
			t.Errorf("POST %s from elsewhere: %d", path, w.Code)
		}
		stranger := *b
		stranger.cookies = nil
		if w := stranger.get(path); w.Code != http.StatusUnauthorized {
			t.Errorf("GET %s by a stranger: %d", path, w.Code)
		}
		if w := stranger.post(path, nil); w.Code != http.StatusUnauthorized && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s by a stranger: %d", path, w.Code)
		}
		if w := b.get(path); w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s may be kept", path)
		}
	}
}
