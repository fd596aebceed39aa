package visitor

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// The pair lives as long as its session may, at most: the service decides.
const pairLifetime = 30 * 24 * time.Hour

// cookies keep the pair that identifies a session in the visitor's browser. No
// script can read it, and no page of another site makes the browser send it with
// a post; links in mails do find their visitor signed in.
type cookies struct{}

// pair is what the cookie holds.
type pair struct {
	personal.Credentials
	made time.Time // when the service gave it; only the visitor's word
}

// name has a prefix by which browsers refuse the cookie from anybody but this
// very host, where that is possible.
func (c cookies) name(r *http.Request) string {
	if ui.OverHTTPS(r) {
		return "__Host-account"
	}
	return "account"
}

// read returns the pair; false if there is none that could be one. The shim
// looks at the hash.
func (c cookies) read(r *http.Request) (pair, bool) {
	cookie, err := r.Cookie(c.name(r))
	if err != nil {
		return pair{}, false
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 {
		return pair{}, false
	}
	id, ok := personalhttp.ParseUserID(parts[0])
	made, err := strconv.ParseInt(parts[2], 10, 64)
	if !ok || err != nil {
		return pair{}, false
	}
	return pair{personal.Credentials{UserID: id, UserHash: parts[1]}, time.Unix(made, 0)}, true
}

// credentials is the shim's extractor.
func (c cookies) credentials(r *http.Request) (personal.Credentials, bool) {
	p, ok := c.read(r)
	return p.Credentials, ok
}

func (c cookies) keep(w http.ResponseWriter, r *http.Request, p personal.Credentials) {
	id, made := strconv.FormatInt(p.UserID, 10), strconv.FormatInt(time.Now().Unix(), 10)
	c.set(w, r, strings.Join([]string{id, p.UserHash, made}, "."), int(pairLifetime/time.Second))
}

func (c cookies) forget(w http.ResponseWriter, r *http.Request) { c.set(w, r, "", -1) }

func (c cookies) set(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.name(r), Value: value, Path: "/", MaxAge: seconds,
		Secure: ui.OverHTTPS(r), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
