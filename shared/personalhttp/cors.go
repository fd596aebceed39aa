package personalhttp

import (
	"maps"
	"net/http"
	"slices"
)

// What scripts of a listed origin may send and read.
const (
	allowedHeaders = "Content-Type, User-Id, User-Hash, X-Request-Id, Accept-Language"
	exposedHeaders = "X-Request-Id, Retry-After"
	preflightAge   = "600" // seconds that a browser may rely on a preflight
)

// cors holds the exact origins whose scripts may call the API; none: CORS is
// off (HTTP contract, section 1). No credentials are allowed: the API knows no
// cookies.
type cors map[string]bool

func newCORS(origins []string) cors {
	c := cors{}
	for _, origin := range origins {
		c[origin] = true
	}
	return c
}

// origins returns the listed origins, sorted.
func (c cors) origins() []string { return slices.Sorted(maps.Keys(c)) }

// allow sets the headers for a request of a listed origin and reports whether
// it is one. Others are served without them, and their browsers keep the answer
// from the script.
func (c cors) allow(w http.ResponseWriter, r *http.Request) bool {
	if len(c) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin") // on every answer: a cache must not mix them up
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !c[origins[0]] {
		return false
	}
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Set("Access-Control-Expose-Headers", exposedHeaders)
	return true
}

// isPreflight reports whether a browser asks what it may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers for a known route. It is the one answer without envelope.
func (c cors) preflight(w http.ResponseWriter, route *route) {
	header := w.Header()
	confine(header)
	header.Set("Access-Control-Allow-Methods", route.allow)
	header.Set("Access-Control-Allow-Headers", allowedHeaders)
	header.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
}
