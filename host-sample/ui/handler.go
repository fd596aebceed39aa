package ui

import "net/http"

// policy lets a page load what this site serves and nothing else. No script or
// style stands within a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler serves the routes of mux and the assets. It gives every answer the
// security headers, refuses what pages of other origins post, and answers
// unknown paths and methods with pages.
func (p *Pages) Handler(mux *http.ServeMux) http.Handler {
	mux.Handle("GET "+p.assets.path, p.assets)
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.foreign != nil {
			p.foreign(r)
		}
		p.Problem(w, r, Problem{Status: http.StatusForbidden, Message: p.Text(r, "problem_origin")})
	}))
	checked := origins.Handler(p.errorsAsPages(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		checked.ServeHTTP(w, r)
	})
}

func secure(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
}

// errorsAsPages answers what mux has no route for.
func (p *Pages) errorsAsPages(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		status := statusOf(refusal, w.Header(), r)
		p.Problem(w, r, Problem{Status: status, Message: p.Text(r, "problem_address")})
	})
}

// statusOf asks a handler for its status and headers, Allow for example, and
// drops its body.
func statusOf(h http.Handler, header http.Header, r *http.Request) int {
	s := &statusOnly{header: header, status: http.StatusOK}
	h.ServeHTTP(s, r)
	return s.status
}

type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
