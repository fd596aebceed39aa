package ui

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
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
func CookieValue(r *http.Request, name string) string {
	if c, err := r.Cookie(hostPrefix + name); err == nil {
		return c.Value
	}
	if OverHTTPS(r) {
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

const noticeCookie = "notice"

var noticeCode = regexp.MustCompile(`\A[a-z][a-z_]{0,40}\z`)

// LeaveNotice makes the next page show what just succeeded. The code is kept in the
// browser for up to a minute.
func LeaveNotice(w http.ResponseWriter, r *http.Request, code string) {
	SetCookie(w, r, http.Cookie{Name: noticeCookie, Value: code, MaxAge: 60})
}

// TakeNotice returns and deletes the code of [LeaveNotice], empty if there is none.
// Visitors can make up codes: use it only as a key of known texts.
func TakeNotice(w http.ResponseWriter, r *http.Request) string {
	code := CookieValue(r, noticeCookie)
	if code == "" {
		return ""
	}
	SetCookie(w, r, http.Cookie{Name: noticeCookie, MaxAge: -1})
	if !noticeCode.MatchString(code) {
		return ""
	}
	return code
}

const languageCookie = "language"

// RememberedLanguage makes next use the language that the visitor has chosen
// instead of those that their browser requests.
func RememberedLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if chosen := CookieValue(r, languageCookie); slices.Contains(Locales(), chosen) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept-Language", chosen)
		}
		next.ServeHTTP(w, r)
	})
}

// SwitchLanguage handles the language form of every page: it remembers the chosen
// language for a year and leads back to the page. It ignores a form that cannot be
// read, and responds to one of more than 64 KiB with 413.
func SwitchLanguage(w http.ResponseWriter, r *http.Request) {
	posted, err := ReadForm(w, r)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
		return
	}
	if chosen := posted.Get("language"); slices.Contains(Locales(), chosen) {
		SetCookie(w, r, http.Cookie{Name: languageCookie, Value: chosen, MaxAge: 365 * 24 * 60 * 60})
	}
	Redirect(w, r, LocalPath(posted.Get("next"), "/"))
}
