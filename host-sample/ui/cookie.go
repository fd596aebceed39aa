package ui

import "net/http"

// SetCookie gives the browser a cookie of a name, a value and a MaxAge, in
// seconds, that is out of reach of scripts and of this very host alone. SameSite
// is Lax unless the cookie says otherwise.
func SetCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.Name, c.Path, c.Secure, c.HttpOnly = cookieName(r, c.Name), "/", OverHTTPS(r), true
	if c.SameSite == 0 {
		c.SameSite = http.SameSiteLaxMode
	}
	http.SetCookie(w, &c)
}

// CookieValue returns what [SetCookie] has given the browser under a name, empty
// if it has no such cookie.
func CookieValue(r *http.Request, name string) string {
	c, err := r.Cookie(cookieName(r, name))
	if err != nil {
		return ""
	}
	return c.Value
}

// cookieName has a prefix, where browsers allow it, by which they take the cookie
// from nobody but this very host (RFC 6265bis, section 4.1.3).
func cookieName(r *http.Request, name string) string {
	if OverHTTPS(r) {
		return "__Host-" + name
	}
	return name
}
