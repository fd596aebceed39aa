package ui

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/internal/urlencoded"
	"github.com/cms-personal/personal/shared/personalweb"
)

// ownPolicy lets a page in the layout of this package load what this site serves and nothing
// else. Pages contain no inline scripts or styles.
const ownPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "

// policies are the values of Content-Security-Policy. In the layout of a site, which knows what it
// loads, they hold beside its own.
func (o Options) policies() []string {
	own := ownPolicy
	if o.Layout != nil {
		own = ""
	}
	return []string{own + "form-action " + cmp.Or(o.FormAction, "'self'") + "; base-uri " + cmp.Or(o.BaseURI, "'none'"),
		"frame-ancestors " + cmp.Or(o.FrameAncestors, "'none'")}
}

// allow adds sources to the policy of a page in the layout of this package.
func (p *Pages) allow(header http.Header, sources map[string][]string) {
	const name = "Content-Security-Policy"
	at := slices.IndexFunc(header[name], func(policy string) bool { return strings.HasPrefix(policy, ownPolicy) })
	if p.Layout != nil || at < 0 {
		return
	}
	policy := header[name][at]
	for _, directive := range slices.Sorted(maps.Keys(sources)) {
		added := " " + strings.Join(sources[directive], " ")
		if before, after, found := strings.Cut(policy, directive+" 'self'; "); found {
			policy = before + directive + " 'self'" + added + "; " + after
		} else {
			policy += "; " + directive + added
		}
	}
	header[name][at] = policy
}

// Handler serves the routes of mux and the assets. It adds the security headers to
// every response. It refuses posts from pages of other origins, and sends error pages
// for unknown paths and methods. A page with a slash behind its path leads to it.
func (p *Pages) Handler(mux *http.ServeMux) http.Handler {
	mux.Handle("GET "+p.assets.path, p.assets)
	checked, policies := p.checkAddress(p.guard(p.errorsAsPages(mux))), p.policies()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		if p.Layout == nil {
			header.Del("Content-Security-Policy")
		}
		for _, policy := range policies {
			header.Add("Content-Security-Policy", policy)
		}
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("X-Content-Type-Options", "nosniff")
		checked.ServeHTTP(w, r)
	})
}

// Guard refuses posts from pages of other origins with an error page, as [Pages.Handler]
// does, for pages that are not served by it.
func (p *Pages) Guard(next http.Handler) http.Handler { return p.guard(next) }

// maxAddress bounds the path and query of a page, in bytes: pages send them back, in
// links and forms that lead to the same page.
const maxAddress = 4 << 10

// checkAddress sends an error page for an address that is too long, or has text that is
// not UTF-8.
func (p *Pages) checkAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, query := http.StatusBadRequest, urlencoded.Parse(r.URL.RawQuery)
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
			readable := *r.URL
			readable.RawQuery = query.Encode() // so that all pages read it alike
			r = r.WithContext(r.Context())
			r.URL = &readable
		}
		switch {
		case len(r.URL.RequestURI()) > maxAddress:
			status = http.StatusRequestURITooLong
		case utf8.ValidString(r.URL.Path) && isText(query):
			next.ServeHTTP(w, r)
			return
		}
		front := r.WithContext(r.Context())
		front.URL = &url.URL{Path: "/"} // the page does not send the address back
		p.Problem(w, front, Problem{Status: status, Message: p.Text(r, "problem_address")})
	})
}

// errorsAsPages sends error pages for requests that mux has no route for.
func (p *Pages) errorsAsPages(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		if to := withoutSlash(mux, r); to != "" {
			Redirect(w, r, to)
			return
		}
		recorder := &statusOnly{ResponseWriter: w, status: http.StatusOK}
		refusal.ServeHTTP(recorder, r)
		problem := Problem{Status: recorder.status, Message: p.Text(r, "problem_address")}
		if p.Unrouted != nil {
			p.Unrouted(r, &problem)
		}
		p.Problem(w, r, problem)
	})
}

// withoutSlash returns the address of the page that mux has without the final slash, which people and proxies add; "" if
// there is none.
func withoutSlash(mux *http.ServeMux, r *http.Request) string {
	path, found := strings.CutSuffix(r.URL.Path, "/")
	if !found || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return ""
	}
	to := url.URL{Path: path, RawQuery: r.URL.RawQuery}
	if _, pattern := mux.Handler(&http.Request{Method: r.Method, Host: r.Host, URL: &to}); pattern == "" {
		return ""
	}
	return personalweb.LocalPath(to.RequestURI(), "")
}

// statusOnly remembers the status of a response and passes on its headers, such as
// Allow. It drops the body.
type statusOnly struct {
	http.ResponseWriter
	status int
}

func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }

// Redirect leads to another page of this site by GET. From a post it leads to no other origin, but
// to the front page instead: what was posted may have secrets.
func Redirect(w http.ResponseWriter, r *http.Request, path string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		path = personalweb.LocalPath(path, "/")
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, path, http.StatusSeeOther)
}
