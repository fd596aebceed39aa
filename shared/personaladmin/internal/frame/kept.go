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

// KeptCookie is the cookie of [Site.Keep].
const KeptCookie = "admin_kept"

const (
	keptFor = 12 * time.Hour
	maxKept = 256 // values; at the bound, the oldest one makes room
)

// kept holds what administrators have just done, in memory, by the digest of a random token
// in a cookie of the browser. It is safe for concurrent use.
type kept struct {
	now func() time.Time

	mu     sync.Mutex
	values map[[sha256.Size]byte]keptValue
}

type keptValue struct {
	at            time.Time
	administrator string
	value         any
}

func newKept() *kept {
	return &kept{now: time.Now, values: map[[sha256.Size]byte]keptValue{}}
}

func (k *kept) get(token, administrator string) any {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.values[sha256.Sum256([]byte(token))]
	if !ok || found.administrator != administrator || k.now().Sub(found.at) >= keptFor {
		return nil
	}
	return found.value
}

func (k *kept) put(token, administrator string, value any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	if _, ok := k.values[key]; !ok && len(k.values) >= maxKept {
		oldest, at := key, k.now()
		for other, v := range k.values {
			if !v.at.After(at) {
				oldest, at = other, v.at
			}
		}
		delete(k.values, oldest)
	}
	k.values[key] = keptValue{k.now(), administrator, value}
}

// Keep stores a value for the request's administrator in this browser, in place of the
// previous one: what they have just done, for [Site.Kept]. A restart of the host forgets it.
func (s *Site) Keep(w http.ResponseWriter, r *http.Request, value any) {
	token := personalweb.CookieValue(s.API, r, KeptCookie)
	if administrator := personal.CallFrom(r.Context()).Administrator; token == "" || s.kept.get(token, administrator) == nil {
		token = rand.Text() // never one that someone else has chosen
	}
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: KeptCookie, Value: token, MaxAge: int(keptFor.Seconds()), SameSite: http.SameSiteStrictMode})
	s.kept.put(token, personal.CallFrom(r.Context()).Administrator, value)
}

// Kept returns what [Site.Keep] has stored last, nil if nothing. Callers must not change it.
func (s *Site) Kept(r *http.Request) any {
	return s.kept.get(personalweb.CookieValue(s.API, r, KeptCookie), personal.CallFrom(r.Context()).Administrator)
}
