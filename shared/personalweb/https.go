package personalweb

import (
	"cmp"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
)

// hostPrefix begins the names of cookies that browsers accept only from this very
// host, over HTTPS (RFC 6265bis, section 4.1.3).
const hostPrefix = "__Host-"

// SetCookie sends a cookie of which the caller sets Name, Value, MaxAge (in
// seconds) and, if it is not Lax, SameSite. Scripts cannot read it, and browsers
// send it to this very host only.
//
// Over HTTPS (see [personalhttp.Handler.OverHTTPS]) the cookie is Secure and its name has the
// prefix __Host-. The cookie of the other scheme is deleted if the browser sent one, so that no
// old value comes back.
func SetCookie(api *personalhttp.Handler, w http.ResponseWriter, r *http.Request, c http.Cookie) {
	secure := api.OverHTTPS(r)
	http.SetCookie(w, named(c, secure))
	deleteSent(w, r, named(c, !secure))
}

// named returns a cookie with its name and attributes for HTTPS or plain HTTP.
func named(c http.Cookie, secure bool) *http.Cookie {
	c.Path, c.HttpOnly = "/", true
	c.SameSite = cmp.Or(c.SameSite, http.SameSiteLaxMode)
	if c.Secure = secure; secure {
		c.Name = hostPrefix + c.Name
	}
	return &c
}

// deleteSent deletes a cookie if the browser sent it.
func deleteSent(w http.ResponseWriter, r *http.Request, c *http.Cookie) {
	if _, err := r.Cookie(c.Name); err == nil {
		c.Value, c.MaxAge = "", -1
		http.SetCookie(w, c)
	}
}

// CookieValue returns the value of a cookie that [SetCookie] sent, empty if the
// browser has none.
//
// Over HTTPS only a prefixed cookie counts: other hosts of the domain can set one
// without the prefix, and so sign a visitor in to another account. Elsewhere a prefixed
// cookie is preferred: if a proxy stops sending the scheme, users stay signed in.
func CookieValue(api *personalhttp.Handler, r *http.Request, name string) string {
	c, err := r.Cookie(hostPrefix + name)
	if err != nil && !api.OverHTTPS(r) {
		c, err = r.Cookie(name)
	}
	if err != nil {
		return ""
	}
	return c.Value
}

// strictTransport is valid for a year and for this very host. It does not include
// subdomains, which may lack HTTPS, and is not for preload lists, from which a host
// cannot be removed quickly.
const strictTransport = "max-age=31536000"

// StayWithHTTPS tells browsers that use HTTPS to use nothing else for this host (RFC
// 6797). It sends nothing over plain HTTP, where browsers ignore it.
func StayWithHTTPS(api *personalhttp.Handler, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.OverHTTPS(r) {
			w.Header().Set("Strict-Transport-Security", strictTransport)
		}
		next.ServeHTTP(w, r)
	})
}

// NextRequest returns a request with the cookies that the header of a response sets, and no others, in
// place of those of r: whether a response begins a session, for example.
func NextRequest(r *http.Request, response http.Header) *http.Request {
	next := r.Clone(r.Context())
	next.Header.Del("Cookie")
	for _, cookie := range (&http.Response{Header: response}).Cookies() {
		next.AddCookie(cookie)
	}
	return next
}
