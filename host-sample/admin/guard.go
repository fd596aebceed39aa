// Package admin is the sample's guard of the admin pages: administrators sign in with a link that
// the command admin-link prints, so that the first one needs no account. It shows how a CMS
// decides who is an administrator without the module's users.
package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// Lifetimes of sign-in links and sessions.
const (
	LinkLife    = 10 * time.Minute // of an unused link
	sessionIdle = 2 * time.Hour    // without a request
	sessionLife = 12 * time.Hour   // in all
)

// Bounds of what [Sessions] holds; at the bound, the oldest one makes room.
const (
	maxLinks = 16
	maxOpen  = 64
)

// Sessions holds the unused sign-in links and the sessions of administrators, in
// memory: a restart of the host revokes all. Secrets have 130 random bits, and
// only their digests are stored. It is safe for concurrent use.
type Sessions struct {
	now func() time.Time

	mu       sync.Mutex
	links    map[digest]*grant
	sessions map[digest]*grant
}

// digest is the SHA-256 of a code or a token.
type digest [sha256.Size]byte

// grant is a link or a session.
type grant struct {
	created, used time.Time
}

// NewSessions returns an empty [Sessions].
func NewSessions() *Sessions {
	return &Sessions{now: time.Now, links: map[digest]*grant{}, sessions: map[digest]*grant{}}
}

// NewCode returns the code of a new sign-in link, valid for [LinkLife], single use.
func (s *Sessions) NewCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(s.links, maxLinks)
}

// redeem spends a code and returns the token of a new session. It returns false
// for a code that is unknown, spent or expired.
func (s *Sessions) redeem(code string) (token string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := digest(sha256.Sum256([]byte(code)))
	link := s.links[d]
	delete(s.links, d)
	if link == nil || s.now().Sub(link.created) >= LinkLife {
		return "", false
	}
	return s.add(s.sessions, maxOpen), true
}

// valid reports whether a token belongs to a session that has not expired. Being used restarts
// the idle time of the session.
func (s *Sessions) valid(token string, used bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	session := s.sessions[sha256.Sum256([]byte(token))]
	if session == nil || now.Sub(session.used) >= sessionIdle || now.Sub(session.created) >= sessionLife {
		return false
	}
	if used {
		session.used = now
	}
	return true
}

// revoke ends the session of a token; an unknown token is ignored.
func (s *Sessions) revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, sha256.Sum256([]byte(token)))
}

// add stores the digest of a new secret and returns the secret. The caller holds
// the mutex.
func (s *Sessions) add(grants map[digest]*grant, limit int) string {
	if len(grants) >= limit {
		delete(grants, slices.MinFunc(slices.Collect(maps.Keys(grants)), func(a, b digest) int {
			return grants[a].created.Compare(grants[b].created)
		}))
	}
	secret := rand.Text()
	now := s.now()
	grants[sha256.Sum256([]byte(secret))] = &grant{created: now, used: now}
	return secret
}

// Guard admits requests that carry the session cookie of an administrator and
// address the site by one of its own names. The check of the name defends against
// DNS rebinding, where a foreign name resolves to this host. A loopback name that was
// not configured counts for clients on this machine only: a proxy may pass on any Host. Guard does not check
// the origin of posts: the pages do.
type Guard struct {
	sessions *Sessions
	api      *personalhttp.Handler // knows which clients are on this machine, and who uses HTTPS
	log      *personaladmin.AccessLog
	hosts    []string // accepted besides loopback names; lower case, without a port
}

// NewGuard returns a guard that accepts these host names (without a port) and, from
// clients on this machine, localhost and loopback addresses.
func NewGuard(s *Sessions, api *personalhttp.Handler, log *personaladmin.AccessLog, hosts ...string) *Guard {
	g := &Guard{sessions: s, api: api, log: log}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	return g
}

// ownHost reports whether a request addresses the site by one of its own names.
func (g *Guard) ownHost(r *http.Request) bool {
	host := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
	if slices.Contains(g.hosts, host) {
		return true
	}
	address, err := netip.ParseAddr(host)
	return (host == "localhost" || err == nil && address.IsLoopback()) && g.api.FromLoopback(r)
}

// administrator is the actor in the events of changes: the sample does not tell
// administrators apart.
const administrator = "administrator"

// Admit returns the name of the administrator who sends a request, or why it is refused.
func (g *Guard) Admit(r *http.Request) (name string, err error) {
	switch {
	case !g.ownHost(r):
		return "", errForeignHost
	case !g.sessions.valid(g.cookie(r), !personalhttp.IsPoll(r)):
		return "", errors.New("no valid administrator session")
	}
	return administrator, nil
}

// require calls next for requests of administrators. It logs all others and passes
// them to refused.
func (g *Guard) require(next, refused http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.Admit(r); err != nil {
			g.log.Refused(r, err.Error())
			refused.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var errForeignHost = errors.New("the host name is not one of --admin-host, nor a loopback name in a request from this machine")

// foreignPost logs a post that was refused because a page of another origin sent it.
func (g *Guard) foreignPost(r *http.Request) { g.log.Refused(r, "a page of another origin") }

// signIn spends the code of a sign-in link and sets the session cookie. It reports
// whether it did. Only a POST spends a code, because mail scanners and browser
// previews open links, too.
func (g *Guard) signIn(w http.ResponseWriter, r *http.Request, code string) bool {
	if r.Method != http.MethodPost {
		return false
	}
	if !g.ownHost(r) {
		g.log.Refused(r, errForeignHost.Error())
		return false
	}
	token, ok := g.sessions.redeem(code)
	if !ok {
		g.log.Refused(r, "the sign-in link is unknown, used or expired")
		return false
	}
	g.log.Granted(r, "administrator signed in")
	g.setCookie(w, r, token, int(sessionLife.Seconds()))
	return true
}

// signOut revokes the session and deletes its cookie.
func (g *Guard) signOut(w http.ResponseWriter, r *http.Request) {
	g.sessions.revoke(g.cookie(r))
	g.log.Granted(r, "administrator signed out")
	g.setCookie(w, r, "", -1)
}

const cookieName = "admin"

func (g *Guard) cookie(r *http.Request) string { return personalweb.CookieValue(g.api, r, cookieName) }

func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, token string, maxAge int) {
	personalweb.SetCookie(g.api, w, r, http.Cookie{Name: cookieName, Value: token, MaxAge: maxAge, SameSite: http.SameSiteStrictMode})
}
