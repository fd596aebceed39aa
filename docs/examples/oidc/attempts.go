package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// attempt is a sign-in that has started. It belongs to one browser, by a cookie.
type attempt struct {
	Expires                time.Time
	Next                   string // the page to return to
	State, Nonce, Verifier string // until the provider has responded
	Who                    person // since then
	Known                  bool   // an account has the identity: its code is asked for
}

const (
	attemptCookie   = "sso"
	attemptLifetime = 10 * time.Minute
	maxAttempts     = 5    // of a browser; the oldest one makes room
	maxCookie       = 3800 // bytes of the value; browsers keep 4096 with the rest
)

// attempts are in a cookie of each browser, sealed: visitors take no room here. The key lasts as
// long as the process; several nodes need one that they share.
type attempts struct {
	api  *personalhttp.Handler
	aead cipher.AEAD
}

func newAttempts(api *personalhttp.Handler) (attempts, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return attempts{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return attempts{api, aead}, err
}

func newSecret() string { return rand.Text() }

// of returns the attempts of a browser, the newest one last.
func (s attempts) of(r *http.Request) (all []attempt) {
	sealed, err := base64.RawURLEncoding.DecodeString(personalweb.CookieValue(s.api, r, attemptCookie))
	if err != nil {
		return nil
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(attemptCookie))
	if err != nil || json.Unmarshal(plain, &all) != nil {
		return nil
	}
	kept := all[:0]
	for _, a := range all {
		if time.Now().Before(a.Expires) {
			kept = append(kept, a)
		}
	}
	return kept
}

// put replaces the attempts of a browser.
func (s attempts) put(w http.ResponseWriter, r *http.Request, all []attempt) {
	c := http.Cookie{Name: attemptCookie, MaxAge: -1}
	for all = all[max(0, len(all)-maxAttempts):]; len(all) > 0; all = all[1:] {
		plain, err := json.Marshal(all)
		if err != nil {
			panic(err) // the type has no value that fails
		}
		c.Value = base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(attemptCookie)))
		if len(c.Value) <= maxCookie {
			c.MaxAge = int(attemptLifetime / time.Second)
			break
		}
	}
	personalweb.SetCookie(s.api, w, r, c) // Lax: the provider's page leads back here
}

// find returns the newest attempt for which is returns true, and the others.
func find(all []attempt, is func(attempt) bool) (a attempt, others []attempt, ok bool) {
	for i := len(all) - 1; i >= 0; i-- {
		if is(all[i]) {
			return all[i], append(append(others, all[:i]...), all[i+1:]...), true
		}
	}
	return attempt{}, all, false
}
