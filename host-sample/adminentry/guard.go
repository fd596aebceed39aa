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
	entry *Entry
	hosts []string // names the site may be called by, beside loopback ones; lower case, without a port
}

// NewGuard returns a guard for a site with these host names, ports left out.
func NewGuard(e *Entry, hosts ...string) *Guard {
	g := &Guard{entry: e}
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
		if !g.known(r) || !g.entry.Alive(tokenOf(r)) {
			stranger.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Enter spends a code and gives the browser its cookie, or returns false. Only a
// post may spend one: links are opened by many programs.
func (g *Guard) Enter(w http.ResponseWriter, r *http.Request, code string) bool {
	if r.Method != http.MethodPost || !g.known(r) {
		return false
	}
	token, ok := g.entry.Redeem(code)
	if ok {
		setCookie(w, r, token, int(sessionLife.Seconds()))
	}
	return ok
}

// Leave ends the browser's session.
func (g *Guard) Leave(w http.ResponseWriter, r *http.Request) {
	g.entry.End(tokenOf(r))
	setCookie(w, r, "", -1)
}

const cookieName = "admin"

func tokenOf(r *http.Request) string { return ui.CookieValue(r, cookieName) }

func setCookie(w http.ResponseWriter, r *http.Request, token string, maxAge int) {
	ui.SetCookie(w, r, http.Cookie{Name: cookieName, Value: token, MaxAge: maxAge, SameSite: http.SameSiteStrictMode})
}
