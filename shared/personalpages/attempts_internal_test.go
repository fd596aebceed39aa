package personalpages

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// sealingSite is a site with keys for its cookies.
func sealingSite(t *testing.T, keys ...[]byte) *site {
	t.Helper()
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := newSealer(api, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return &site{API: api, sealer: sealer}
}

// keep returns the next request of a browser that has these attempts.
func keep(s *site, all []attempt) *http.Request {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	s.keepAttempts(w, r, all)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge > 0 {
			r.AddCookie(c)
		}
	}
	return r
}

func TestAttempts_EndAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sealingSite(t)
		started := attempt{Provider: "x", Purpose: attemptSignIn, Started: time.Now().Unix(), State: "s"}
		waiting := attempt{Provider: "x", Purpose: attemptSignIn, Started: time.Now().Unix(), User: &ProviderUser{Identity: personal.Identity{Subject: "s"}}}
		r := keep(s, []attempt{started, waiting})
		time.Sleep(attemptLifetime - time.Second)
		if got := s.attempts(r); len(got) != 2 {
			t.Errorf("before the end: got %d attempts, want 2", len(got))
		}
		time.Sleep(time.Second)
		if got := s.attempts(r); len(got) != 0 {
			t.Errorf("after ten minutes: got %+v, want none", got)
		}
	})
}

func TestAttempts_AreFiveAtMostAndTheLatest(t *testing.T) {
	s := sealingSite(t)
	var all []attempt
	for i := range 7 {
		all = append(all, attempt{Provider: "x", Started: time.Now().Unix(), State: strconv.Itoa(i)})
	}
	got := s.attempts(keep(s, all))
	if len(got) != 5 || got[0].State != "2" || got[4].State != "6" {
		t.Errorf("got %+v, want the latest five", got)
	}
	if got := s.attempts(keep(s, nil)); len(got) != 0 {
		t.Errorf("got %+v, want none", got)
	}
}

// All cookies together fit into a line of 8 KiB, which proxies accept, also while a provider's user enters a code.
func TestCookies_FitIntoALine(t *testing.T) {
	s := sealingSite(t)
	text := strings.Repeat("t", 255)
	step := signInStep{Provider: strings.Repeat("p", personal.MaxMethod), Expires: time.Now(), User: &ProviderUser{
		Identity: personal.Identity{Issuer: text, Subject: text}, Login: text, Name: text, Email: text,
		AuthenticatedAt: time.Now(), Session: strings.Repeat("s", personal.MaxProviderSession),
	}}
	const others = 600 // names, session, proof, language, notice
	if got := len(s.sealer.value(signInCookie, step)) + maxAttemptsSize + maxHint + others; got > 8<<10 {
		t.Errorf("got %d bytes, want 8 KiB at most", got)
	}
}

// A value is good in its own cookie alone, and for whoever has one of the keys.
func TestSealer_CookiesAndKeys(t *testing.T) {
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	s, rotated, other := sealingSite(t, first), sealingSite(t, second, first), sealingSite(t, second)
	with := func(cookie, value string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: cookie, Value: value})
		return r
	}
	value := s.sealer.value("a", "text")
	for condition, test := range map[string]struct {
		site   *site
		cookie string
		opens  bool
	}{"the same": {s, "a", true}, "another cookie": {s, "b", false}, "a new first key": {rotated, "a", true}, "another key": {other, "a", false}} {
		var got string
		if opens := test.site.sealer.open(with(test.cookie, value), test.cookie, &got); opens != test.opens || opens && got != "text" {
			t.Errorf("%s: got %q, opened: %t; want %t", condition, got, opens, test.opens)
		}
	}
	if _, err := newSealer(s.API, []byte("short")); err == nil {
		t.Error("a short key: got no error")
	}
}
