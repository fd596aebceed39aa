package ui

import (
	"context"
	"net/http"
)

// scheme is what is known of a browser's connection to the site.
type scheme int

const (
	schemeUnknown  scheme = iota // plain HTTP, as far as is known
	schemeDetected               // HTTPS, as a proxy says of this request
	schemeHTTPS                  // HTTPS, as the site's setup says of every request
)

type schemeKey struct{}

func withScheme(r *http.Request, s scheme) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), schemeKey{}, s))
}

func schemeOf(r *http.Request) scheme {
	if r.TLS != nil {
		return schemeHTTPS
	}
	s, _ := r.Context().Value(schemeKey{}).(scheme)
	return s
}

// BehindHTTPS is for sites whose proxy ends TLS for every browser: next takes all
// requests as sent over HTTPS, see [OverHTTPS].
func BehindHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, withScheme(r, schemeHTTPS))
	})
}

// BehindProxy is for sites whose proxy tells the scheme of each request: next
// takes those as sent over HTTPS that overHTTPS reports, see [OverHTTPS].
func BehindProxy(overHTTPS func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if overHTTPS(r) {
			r = withScheme(r, schemeDetected)
		}
		next.ServeHTTP(w, r)
	})
}

// strictTransport holds for a year and for this very host alone: whether others
// of its domain have HTTPS is not for one site to say, and what browsers have
// preloaded is not taken back soon.
const strictTransport = "max-age=31536000"

// StayWithHTTPS tells browsers that have come by HTTPS to come by nothing else
// (RFC 6797). Over plain HTTP they would not listen.
func StayWithHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if OverHTTPS(r) {
			w.Header().Set("Strict-Transport-Security", strictTransport)
		}
		next.ServeHTTP(w, r)
	})
}

// OverHTTPS reports whether the browser's connection is encrypted: it is kept to
// that then, and so are cookies.
func OverHTTPS(r *http.Request) bool { return schemeOf(r) != schemeUnknown }
