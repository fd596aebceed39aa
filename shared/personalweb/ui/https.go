package ui

import (
	"context"
	"net/http"

	"github.com/cms-personal/personal/shared/personalweb"
)

type schemeKey struct{}

func withScheme(r *http.Request, s personalweb.Scheme) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), schemeKey{}, s))
}

// SchemeOf returns the scheme of the browser's connection: as [BehindHTTPS] and
// [BehindProxy] say, and HTTPS where TLS terminates here.
func SchemeOf(r *http.Request) personalweb.Scheme {
	if r.TLS != nil {
		return personalweb.AlwaysHTTPS
	}
	s, _ := r.Context().Value(schemeKey{}).(personalweb.Scheme)
	return s
}

// BehindHTTPS makes next treat all requests as sent over HTTPS, see [OverHTTPS]. It
// is for sites where TLS terminates at a proxy for every browser.
func BehindHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, withScheme(r, personalweb.AlwaysHTTPS))
	})
}

// BehindProxy makes next treat those requests as sent over HTTPS for which
// overHTTPS returns true, see [OverHTTPS]. It is for sites whose proxy sends the
// scheme of each request.
func BehindProxy(overHTTPS func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if SchemeOf(r) == personalweb.HTTP && overHTTPS(r) {
			r = withScheme(r, personalweb.HTTPS)
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
func OverHTTPS(r *http.Request) bool { return SchemeOf(r) != personalweb.HTTP }
