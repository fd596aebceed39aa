package personalpages_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Gateways that check mails, and programs that make links of texts, encode the # of a link.
func TestMailLinks_EncodedFragmentLeadsToThePage(t *testing.T) {
	b := newBrowser(t, newModule())
	for target, want := range map[string]string{
		"/account/recover%23token=s3cret_-A":              "/account/recover#token=s3cret_-A",
		"/account/email%23token=s3cret":                   "/account/email#token=s3cret",
		"/account/verify%23token=s3cret&login=QW5uYQ":     "/account/verify#token=s3cret&login=QW5uYQ",
		"/account/undo-delete%23login=QW5uYQ&token=s3":    "/account/undo-delete#login=QW5uYQ&token=s3",
		"/account/recover%23token%3Ds3cret":               "/account/recover#token=s3cret",
		"/account/recover%2523token%3Ds3cret":             "/account/recover#token=s3cret",
		"/account/recover%252523token%3Ds3cret":           "/account/recover#token=s3cret",
		"/account/recover/%23token=s3cret":                "/account/recover#token=s3cret",
		"/account/recover%23token=s3cret?utm_source=gate": "/account/recover#token=s3cret",
	} {
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		h := w.Header()
		if w.Code != 303 || h.Get("Location") != want || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: got %d %v, want %s", target, w.Code, h, want)
		}
	}
	for _, target := range []string{
		"/account/recover%23token=s3cret%22%3E", "/account/recover%23token=s3cret%0d%0aX:1", "/account/recover%23", "/account/recover%23s3cret",
		"/account/recover%23token=s3cret&next=evil.example", "/account/sign-in%23token=s3cret", "/account/register%23token=s3cret",
		"/account/Recover%23token=s3cret", "/account/%23token=s3cret",
	} {
		w := httptest.NewRecorder()
		b.handler.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		if w.Code != 404 || strings.Contains(w.Body.String(), "s3cret") {
			t.Errorf("%s: got %d %v %s, want 404 without the secret", target, w.Code, w.Header(), w.Body)
		}
	}
	w := httptest.NewRecorder()
	if b.handler.ServeHTTP(w, httptest.NewRequest("POST", "/account/recover%23token=s3cret", nil)); w.Code == 303 {
		t.Errorf("POST: got %d, want no redirect", w.Code)
	}
	if strings.Contains(b.log.String(), "s3cret") {
		t.Errorf("the log has a token: %s", b.log)
	}
}
