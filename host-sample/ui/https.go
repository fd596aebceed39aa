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

// OverHTTPS reports whether the browser's connection is encrypted: cookies are
// kept to that then.
func OverHTTPS(r *http.Request) bool {
	behind, _ := r.Context().Value(httpsKey{}).(bool)
	return behind || r.TLS != nil
}
