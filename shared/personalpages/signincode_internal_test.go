package personalpages

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestSignInSealer_ExpiresAndHidesThePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSignInSealer(api)
		if err != nil {
			t.Fatal(err)
		}
		// The longest login and password, in characters that JSON would lengthen most.
		in := signInStep{Login: strings.Repeat("a", 254), Password: bytes.Repeat([]byte{1}, 1024)}
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		s.seal(w, r, in)
		c := w.Result().Cookies()[0]
		if line := w.Header().Get("Set-Cookie"); len(line) > 4096 {
			t.Errorf("got a cookie of %d bytes, want at most 4096", len(line))
		}
		sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil || bytes.Contains(sealed, []byte("aaaa")) {
			t.Errorf("got a cookie with the login, or %v", err)
		}
		with := func(value string) *http.Request {
			r := httptest.NewRequest("GET", "/", nil)
			r.AddCookie(&http.Cookie{Name: c.Name, Value: value})
			return r
		}
		sealed[len(sealed)/2] ^= 1
		if _, ok := s.open(with(base64.RawURLEncoding.EncodeToString(sealed))); ok {
			t.Error("a changed cookie was accepted")
		}
		time.Sleep(signInLifetime - time.Second)
		if got, ok := s.open(with(c.Value)); !ok || got.Login != in.Login || !bytes.Equal(got.Password, in.Password) {
			t.Errorf("within the lifetime: got %v %t", got, ok)
		}
		time.Sleep(time.Second)
		if _, ok := s.open(with(c.Value)); ok {
			t.Error("an expired cookie was accepted")
		}
	})
}
