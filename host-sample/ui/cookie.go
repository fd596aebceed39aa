package ui

import "net/http"

// hostPrefix begins the names of cookies that browsers take from nobody but this
// very host, over HTTPS (RFC 6265bis, section 4.1.3).
const hostPrefix = "__Host-"

// SetCookie gives the browser a cookie of a name, a value and a MaxAge, in
// seconds, that is out of reach of scripts and of this very host alone. SameSite
// is Lax unless the cookie says otherwise.
//
// Over HTTPS the cookie is Secure and its name has the prefix __Host-. Where the
// scheme may change from request to request, the cookie of the other scheme is
// deleted if the browser has sent one, so that no old value comes back.
func SetCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.Path, c.HttpOnly = "/", true
	if c.SameSite == 0 {
		c.SameSite = http.SameSiteLaxMode
	}
	secure := OverHTTPS(r)
	http.SetCookie(w, named(c, secure))
	if schemeOf(r) == schemeHTTPS {
		return
	}
	other := named(c, !secure)
	if _, err := r.Cookie(other.Name); err == nil {
		other.Value, other.MaxAge = "", -1
		http.SetCookie(w, other)
	}
}

// named returns a cookie as it is named over HTTPS, or over plain HTTP.
func named(c http.Cookie, secure bool) *http.Cookie {
	if c.Secure = secure; secure {
		c.Name = hostPrefix + c.Name
	}
	return &c
}

// CookieValue returns what [SetCookie] has given the browser under a name, empty
// if it has no such cookie.
//
// A prefixed cookie comes first, because other hosts can set one without the
// prefix. The latter counts only where the scheme may change from request to
// request: a visitor who signed in before a proxy told the scheme stays signed in.
func CookieValue(r *http.Request, name string) string {
	if c, err := r.Cookie(hostPrefix + name); err == nil {
		return c.Value
	}
	if schemeOf(r) == schemeHTTPS {
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
