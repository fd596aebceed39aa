package frame

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
)

// ResultCookie is the cookie of [Site.SaveResult].
const ResultCookie = "admin_kept"

const (
	resultLifetime = 12 * time.Hour
	maxResults     = 256 // of all administrators; at the bound, the oldest one makes room
)

// results holds what administrators have just done, in memory, by the digest of a random token
// in a cookie of the browser. It is safe for concurrent use.
type results struct {
	now func() time.Time

	mu     sync.Mutex
	values map[[sha256.Size]byte]result
}

type result struct {
	at            time.Time
	administrator string
	value         any
}

func newResults() *results {
	return &results{now: time.Now, values: map[[sha256.Size]byte]result{}}
}

func (k *results) get(token, administrator string) any {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.values[sha256.Sum256([]byte(token))]
	if !ok || found.administrator != administrator || k.now().Sub(found.at) >= resultLifetime {
		return nil
	}
	return found.value
}

func (k *results) put(token, administrator string, value any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	if _, ok := k.values[key]; !ok && len(k.values) >= maxResults {
		oldest, at := key, k.now()
		for other, v := range k.values {
			if !v.at.After(at) {
				oldest, at = other, v.at
			}
		}
		delete(k.values, oldest)
	}
	k.values[key] = result{k.now(), administrator, value}
}

// SaveResult stores a value for the request's administrator in this browser, in place of the
// previous one: what they have just done, for [Site.LastResult]. A restart of the host forgets it.
func (s *Site) SaveResult(w http.ResponseWriter, r *http.Request, value any) {
	token := personalweb.CookieValue(s.API, r, ResultCookie)
	if administrator := personal.CallFrom(r.Context()).Administrator; token == "" || s.results.get(token, administrator) == nil {
		token = rand.Text() // never one that someone else has chosen
	}
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: ResultCookie, Value: token, MaxAge: int(resultLifetime.Seconds()), SameSite: http.SameSiteStrictMode})
	s.results.put(token, personal.CallFrom(r.Context()).Administrator, value)
}

// LastResult returns what [Site.SaveResult] stored last, nil if nothing. Callers must not change it.
func (s *Site) LastResult(r *http.Request) any {
	return s.results.get(personalweb.CookieValue(s.API, r, ResultCookie), personal.CallFrom(r.Context()).Administrator)
}
