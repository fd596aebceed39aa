package adminentry

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/cms-personal/personal/host-sample/ui"
)

// Guard lets only administrators' browsers through, by the cookie that
// [Guard.Enter] gives, and only as long as they call the site by a name of its own:
// a page of another name that resolves to this address (DNS rebinding) gets
// nothing. Posts by pages of other origins are for others to refuse, as on every
// page.
type Guard struct {
	entry  *Entry
	record *Record
	hosts  []string // names the site may be called by, beside loopback ones; lower case, without a port
}

// NewGuard returns a guard for a site with these host names, ports left out.
func NewGuard(e *Entry, rec *Record, hosts ...string) *Guard {
	g := &Guard{entry: e, record: rec}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	return g
}

// known reports whether a request calls the site by a name of its own.
func (g *Guard) known(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if address, err := netip.ParseAddr(host); err == nil && address.IsLoopback() {
		return true
	}
	return host == "localhost" || slices.Contains(g.hosts, host)
}

// Require calls next for administrators and stranger for everybody else.
func (g *Guard) Require(next, stranger http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.known(r):
			g.record.Refused(r, otherName)
		case !g.entry.Alive(tokenOf(r)):
			g.record.Refused(r, "no session of an administrator")
		default:
			next.ServeHTTP(w, r)
			return
		}
		stranger.ServeHTTP(w, r)
	})
}

const otherName = "the site was called by a name that is not its own"

// Foreign tells of a post by a page of another origin.
func (g *Guard) Foreign(r *http.Request) { g.record.Refused(r, "a page of another origin") }

// Enter spends a code and gives the browser its cookie, or returns false. Only a
// post may spend one: links are opened by many programs.
func (g *Guard) Enter(w http.ResponseWriter, r *http.Request, code string) bool {
	if r.Method != http.MethodPost {
		return false
	}
	if !g.known(r) {
		g.record.Refused(r, otherName)
		return false
	}
	token, ok := g.entry.Redeem(code)
	if !ok {
		g.record.Refused(r, "a link that was used, is too old, or never was given out")
		return false
	}
	g.record.Granted(r, "an administrator has entered")
	setCookie(w, r, token, int(sessionLife.Seconds()))
	return true
}

// Leave ends the browser's session.
func (g *Guard) Leave(w http.ResponseWriter, r *http.Request) {
	g.entry.End(tokenOf(r))
	g.record.Granted(r, "an administrator has left")
	setCookie(w, r, "", -1)
}

const cookieName = "admin"

func tokenOf(r *http.Request) string { return ui.CookieValue(r, cookieName) }

func setCookie(w http.ResponseWriter, r *http.Request, token string, maxAge int) {
	ui.SetCookie(w, r, http.Cookie{Name: cookieName, Value: token, MaxAge: maxAge, SameSite: http.SameSiteStrictMode})
}
