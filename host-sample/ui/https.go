package ui

import (
	"context"
	"net/http"
)

// scheme is what the host knows about the scheme of a browser's connection.
type scheme int

const (
	schemeUnknown  scheme = iota // plain HTTP, as far as is known
	schemeDetected               // HTTPS: a proxy says so for this request
	schemeHTTPS                  // HTTPS for every request: TLS here, or by configuration
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

// BehindHTTPS makes next treat all requests as sent over HTTPS, see [OverHTTPS]. It
// is for sites where TLS terminates at a proxy for every browser.
func BehindHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, withScheme(r, schemeHTTPS))
	})
}

// BehindProxy makes next treat those requests as sent over HTTPS for which
// overHTTPS returns true, see [OverHTTPS]. It is for sites whose proxy sends the
// scheme of each request.
func BehindProxy(overHTTPS func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if overHTTPS(r) {
			r = withScheme(r, schemeDetected)
		}
		next.ServeHTTP(w, r)
	})
}

// strictTransport is valid for a year and for this very host. It does not include
// subdomains, which may lack HTTPS, and is not for preload lists, from which a host
// cannot be removed quickly.
const strictTransport = "max-age=31536000"

// StayWithHTTPS tells browsers that use HTTPS to use nothing else for this host (RFC
// 6797). It sends nothing over plain HTTP, where browsers ignore it.
func StayWithHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if OverHTTPS(r) {
			w.Header().Set("Strict-Transport-Security", strictTransport)
		}
		next.ServeHTTP(w, r)
	})
}

// OverHTTPS reports whether the browser's connection is encrypted. If it is,
// cookies are Secure, and Strict-Transport-Security is sent.
func OverHTTPS(r *http.Request) bool { return schemeOf(r) != schemeUnknown }
