package ui

import (
	"context"
	"net/http"
)

type httpsKey struct{}

// BehindHTTPS is for sites before which a proxy takes HTTPS off: next knows that
// browsers come by it, see [OverHTTPS].
func BehindHTTPS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), httpsKey{}, true)))
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
func OverHTTPS(r *http.Request) bool {
	behind, _ := r.Context().Value(httpsKey{}).(bool)
	return behind || r.TLS != nil
}
