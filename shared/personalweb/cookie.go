package personalweb

import "net/http"

// Scheme is what a site knows about the scheme of a browser's connection.
type Scheme int

// The schemes. Over HTTPS and AlwaysHTTPS cookies are Secure.
const (
	HTTP        Scheme = iota // as far as is known
	HTTPS                     // of this request: a proxy says so
	AlwaysHTTPS               // of every request: TLS terminates here, or by configuration
)

// hostPrefix begins the names of cookies that browsers accept only from this very
// host, over HTTPS (RFC 6265bis, section 4.1.3).
const hostPrefix = "__Host-"

// SetCookie sends a cookie of which the caller sets Name, Value, MaxAge (in
// seconds) and, if it is not Lax, SameSite. Scripts cannot read it, and browsers
// send it to this very host only.
//
// Over HTTPS the cookie is Secure and its name has the prefix __Host-. Where the
// scheme may change from request to request, the cookie of the other scheme is
// deleted if the browser sent one, so that no old value comes back.
func SetCookie(w http.ResponseWriter, r *http.Request, s Scheme, c http.Cookie) {
	c.Path, c.HttpOnly = "/", true
	if c.SameSite == 0 {
		c.SameSite = http.SameSiteLaxMode
	}
	secure := s != HTTP
	http.SetCookie(w, named(c, secure))
	if s == AlwaysHTTPS {
		return
	}
	other := named(c, !secure)
	if _, err := r.Cookie(other.Name); err == nil {
		other.Value, other.MaxAge = "", -1
		http.SetCookie(w, other)
	}
}

// named returns a cookie with its name and attributes for HTTPS or plain HTTP.
func named(c http.Cookie, secure bool) *http.Cookie {
	if c.Secure = secure; secure {
		c.Name = hostPrefix + c.Name
	}
	return &c
}

// CookieValue returns the value of a cookie that [SetCookie] sent, empty if the
// browser has none.
//
// Over HTTPS only a prefixed cookie counts: other hosts of the domain can set one
// without the prefix, and so sign a visitor in to another account. Elsewhere a prefixed
// cookie is preferred: if a proxy stops sending the scheme, users stay signed in.
func CookieValue(r *http.Request, s Scheme, name string) string {
	if c, err := r.Cookie(hostPrefix + name); err == nil {
		return c.Value
	}
	if s != HTTP {
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
