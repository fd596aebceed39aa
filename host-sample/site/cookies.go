package site

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

const cookieName = "account"

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

// read returns the pair; false if there is none that could be one. The shim
// looks at the hash.
func (c cookies) read(r *http.Request) (pair, bool) {
	parts := strings.Split(ui.CookieValue(r, cookieName), ".")
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
	ui.SetCookie(w, r, http.Cookie{
		Name: cookieName, Value: strings.Join([]string{id, p.UserHash, made}, "."), MaxAge: int(pairLifetime / time.Second),
	})
}

func (c cookies) forget(w http.ResponseWriter, r *http.Request) {
	ui.SetCookie(w, r, http.Cookie{Name: cookieName, MaxAge: -1})
}
