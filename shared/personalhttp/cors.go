package personalhttp

import (
	"net/http"
	"slices"
)

// What scripts of a listed origin may send and read.
const (
	// The last ones are those that tracing and libraries add to every request.
	allowedHeaders = "Content-Type, User-Id, User-Hash, X-Request-Id, Accept-Language, " +
		"traceparent, tracestate, baggage, sentry-trace, X-Requested-With"
	exposedHeaders = "X-Request-Id, Retry-After"
	preflightAge   = "600" // seconds for which a browser may cache a preflight
)

// cors are the exact origins whose scripts may call the API, sorted. Without any,
// CORS is off (HTTP contract, section 1). Credentials are never allowed, because the
// API uses no cookies.
type cors []string

func newCORS(origins []string) cors {
	return slices.Compact(slices.Sorted(slices.Values(origins)))
}

// allow sets the headers for a request from a listed origin and reports whether it is
// one. Other requests are served without the headers, and browsers hide the responses
// from the script.
func (c cors) allow(w http.ResponseWriter, r *http.Request) bool {
	if len(c) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin") // on every response: a cache must not mix them up
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !slices.Contains(c, origins[0]) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Set("Access-Control-Expose-Headers", exposedHeaders)
	return true
}

// isPreflight reports whether a browser asks what a script may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// writePreflight responds to the preflight of a route, without an envelope.
func writePreflight(w http.ResponseWriter, route *route) {
	header := w.Header()
	setSecurityHeaders(header)
	header.Set("Access-Control-Allow-Methods", route.allow)
	header.Set("Access-Control-Allow-Headers", allowedHeaders)
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}
