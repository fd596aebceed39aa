// Package adminentry lets an administrator's browser in: by a link that is good
// once and not for long, and from then on by a cookie.
package adminentry

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// How long what is given out is good for.
const (
	LinkLife    = 10 * time.Minute
	sessionIdle = 2 * time.Hour
	sessionLife = 12 * time.Hour
)

// What is given out at most at a time: the oldest goes for a new one.
const (
	mostLinks    = 16
	mostSessions = 64
)

// Entry knows the links and the browsers that are in. Both end with the process.
// It is safe for concurrent use, and made by [New].
type Entry struct {
	now func() time.Time

	mu       sync.Mutex
	links    map[digest]*pass
	sessions map[digest]*pass
}

// digest is what is remembered of a secret.
type digest [sha256.Size]byte

// pass is a link or a session.
type pass struct{ made, used time.Time }

// New returns an entry that has let nobody in.
func New() *Entry {
	return &Entry{now: time.Now, links: map[digest]*pass{}, sessions: map[digest]*pass{}}
}

// NewCode returns a code for a link. It is good once, within [LinkLife].
func (e *Entry) NewCode() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.add(e.links, mostLinks)
}

// Redeem spends a code and returns the token of a new session, or false.
func (e *Entry) Redeem(code string) (token string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := digest(sha256.Sum256([]byte(code)))
	link := e.links[d]
	delete(e.links, d)
	if link == nil || e.now().Sub(link.made) >= LinkLife {
		return "", false
	}
	return e.add(e.sessions, mostSessions), true
}

// Alive reports whether a token's session has not ended, and keeps it from ending
// for want of use.
func (e *Entry) Alive(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	s := e.sessions[sha256.Sum256([]byte(token))]
	if s == nil || now.Sub(s.used) >= sessionIdle || now.Sub(s.made) >= sessionLife {
		return false
	}
	s.used = now
	return true
}

// End ends a token's session, if there is one.
func (e *Entry) End(token string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, sha256.Sum256([]byte(token)))
}

// add makes a secret of 130 random bits and remembers its digest. The caller holds
// the mutex.
func (e *Entry) add(passes map[digest]*pass, most int) string {
	for len(passes) >= most {
		forgetOldest(passes)
	}
	secret := rand.Text()
	now := e.now()
	passes[sha256.Sum256([]byte(secret))] = &pass{made: now, used: now}
	return secret
}

func forgetOldest(passes map[digest]*pass) {
	var oldest digest
	var made time.Time
	for d, p := range passes {
		if made.IsZero() || p.made.Before(made) {
			oldest, made = d, p.made
		}
	}
	delete(passes, oldest)
}
