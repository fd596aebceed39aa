package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personalweb"
)

// ownPolicy lets a page in the layout of this package load what this site serves and nothing
// else. Pages contain no inline scripts or styles.
const ownPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "

// completePolicy checks the options for the Content-Security-Policy and completes them.
func (o *Options) completePolicy() error {
	if o.Layout == nil && (o.FormAction != "" || o.BaseURI != "") {
		return errors.New("FormAction and BaseURI are for the layout of a site")
	}
	for name, option := range map[string]struct {
		sources  *string
		fallback string
	}{"FrameAncestors": {&o.FrameAncestors, "'none'"}, "FormAction": {&o.FormAction, "'self'"}, "BaseURI": {&o.BaseURI, "'none'"}} {
		if *option.sources = cmp.Or(*option.sources, option.fallback); strings.ContainsAny(*option.sources, ",;\r\n") {
			return fmt.Errorf("%s is not a list of sources with spaces between them", name)
		}
	}
	return nil
}

// setPolicy sends the Content-Security-Policy. That of a site, which knows what its layout loads,
// holds beside it.
func (p *Pages) setPolicy(header http.Header) {
	policy := "form-action " + p.FormAction + "; base-uri " + p.BaseURI
	if p.Layout == nil {
		header.Set("Content-Security-Policy", ownPolicy+policy)
	} else {
		header.Add("Content-Security-Policy", policy)
	}
	header.Add("Content-Security-Policy", "frame-ancestors "+p.FrameAncestors)
}

// Handler serves the routes of mux and the assets. It adds the security headers to
// every response. It refuses posts from pages of other origins, and sends error pages
// for unknown paths and methods.
func (p *Pages) Handler(mux *http.ServeMux) http.Handler {
	mux.Handle("GET "+p.assets.path, p.assets)
	checked := p.checkAddress(p.guard(p.errorsAsPages(mux)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		p.setPolicy(header)
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
		status := http.StatusBadRequest
		switch {
		case len(r.URL.RequestURI()) > maxAddress:
			status = http.StatusRequestURITooLong
		case utf8.ValidString(r.URL.Path) && (r.URL.RawQuery == "" || isText(r.URL.Query())):
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
		recorder := &statusOnly{ResponseWriter: w, status: http.StatusOK}
		refusal.ServeHTTP(recorder, r)
		problem := Problem{Status: recorder.status, Message: p.Text(r, "problem_address")}
		if p.Unrouted != nil {
			p.Unrouted(r, &problem)
		}
		p.Problem(w, r, problem)
	})
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
