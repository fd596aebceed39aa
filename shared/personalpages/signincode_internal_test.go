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

	"github.com/cms-personal/personal/shared/personal"
)

func TestSignInStep_ExpiresAndHidesThePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sealingSite(t)
		// The longest login and password, in characters that JSON would lengthen most.
		in := signInStep{Login: strings.Repeat("a", 254), Password: bytes.Repeat([]byte{1}, 1024)}
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		s.keepStep(w, r, in)
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
		if _, ok := s.keptStep(with(base64.RawURLEncoding.EncodeToString(sealed))); ok {
			t.Error("a changed cookie was accepted")
		}
		time.Sleep(signInLifetime - time.Second)
		if got, ok := s.keptStep(with(c.Value)); !ok || got.Login != in.Login || !bytes.Equal(got.Password, in.Password) {
			t.Errorf("within the lifetime: got %v %t", got, ok)
		}
		time.Sleep(time.Second)
		if _, ok := s.keptStep(with(c.Value)); ok {
			t.Error("an expired cookie was accepted")
		}
	})
}

// A mailed code is valid for ten minutes, also after it was typed.
func TestSignInStep_MailedCodeKeepsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sealingSite(t)
		sealed := func(in signInStep) (*http.Request, int) {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			s.keepStep(w, r, in)
			c := w.Result().Cookies()[0]
			r.AddCookie(c)
			return r, c.MaxAge
		}
		r, age := sealed(signInStep{Purpose: personal.MailedCodeSignIn, Attempt: "a"})
		if age != 600 {
			t.Errorf("got a cookie for %d s, want 600", age)
		}
		time.Sleep(9 * time.Minute)
		in, ok := s.keptStep(r)
		if !ok || in.Purpose != personal.MailedCodeSignIn || in.Attempt != "a" {
			t.Fatalf("after nine minutes: got %+v %t, want the attempt", in, ok)
		}
		in.MailedCode = "7K3M-Q9XA"
		r, age = sealed(in)
		if age != 60 {
			t.Errorf("got a cookie for %d s with the code, want 60", age)
		}
		time.Sleep(59 * time.Second)
		if in, ok := s.keptStep(r); !ok || in.MailedCode != "7K3M-Q9XA" {
			t.Errorf("before the end: got %+v %t, want the code", in, ok)
		}
		time.Sleep(time.Second)
		if _, ok := s.keptStep(r); ok {
			t.Error("the step is valid after ten minutes")
		}
	})
}
