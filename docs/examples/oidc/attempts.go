package main

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// attempt is a sign-in that has begun. It belongs to one browser, by a cookie.
type attempt struct {
	expires                time.Time
	next                   string // the page to return to
	state, nonce, verifier string // until the provider has responded
	who                    person // since then
	known                  bool   // an account has the identity: its code is asked for
	tries                  int    // of a registration
}

const (
	attemptCookie   = "sso"
	attemptLifetime = 10 * time.Minute
	maxAttempts     = 10000
	maxTries        = 5
)

// attempts are kept in memory: on several nodes, a browser must stay at one.
type attempts struct {
	api *personalhttp.Handler
	mu  sync.Mutex
	all map[string]attempt
}

func newSecret() string { return rand.Text() }

// put stores an attempt under a new key, which the browser gets; the former key is void.
func (s *attempts) put(w http.ResponseWriter, r *http.Request, a attempt) (stored bool) {
	s.remove(r)
	key, now := newSecret(), time.Now()
	a.expires = now.Add(attemptLifetime)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxAttempts {
		for old, a := range s.all {
			if now.After(a.expires) {
				delete(s.all, old)
			}
		}
	}
	if stored = len(s.all) < maxAttempts; stored {
		s.all[key] = a
		// Lax: the provider's page leads back here.
		personalweb.SetCookie(s.api, w, r, http.Cookie{Name: attemptCookie, Value: key, MaxAge: int(attemptLifetime / time.Second)})
	}
	return stored
}

// of returns the attempt of a browser; false if it has none.
func (s *attempts) of(r *http.Request) (attempt, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[personalweb.CookieValue(s.api, r, attemptCookie)]
	return a, ok && time.Now().Before(a.expires)
}

// take returns the attempt that a response with a state is about, and removes it: a second
// response finds none. A forged response does not end an attempt.
func (s *attempts) take(r *http.Request, state string) (attempt, bool) {
	a, ok := s.of(r)
	if !ok || a.state == "" || !equal(a.state, state) {
		return attempt{}, false
	}
	return a, s.remove(r)
}

// remove reports whether this call has removed the attempt.
func (s *attempts) remove(r *http.Request) bool {
	key := personalweb.CookieValue(s.api, r, attemptCookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[key]
	delete(s.all, key)
	return ok
}

// try counts a try of a registration; false if there were too many.
func (s *attempts) try(r *http.Request) bool {
	key := personalweb.CookieValue(s.api, r, attemptCookie)
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[key]
	if a.tries++; !ok || a.tries > maxTries {
		return false
	}
	s.all[key] = a
	return true
}
