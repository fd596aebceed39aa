// Package frame is what all admin pages share: routes that only administrators pass, the
// navigation, error pages, and what an administrator has just done. Each of the other
// packages beside it has the pages about one subject, as a [Section].
package frame

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// Path is below which all admin pages are.
const Path = "/admin"

// Options configure [New].
type Options struct {
	Pages    *ui.Pages
	Guard    func(*http.Request) (string, error)  // returns the administrator's name
	Refused  func(r *http.Request, reason string) // is told of refused requests, for the log
	Refuse   http.Handler                         // responds to them
	Nav      func(r *http.Request) []ui.Link      // of the site, in the pages' own layout; may be nil
	Sections []Section                            // in the order of the navigation
	Locales  []string                             // the languages of the site's visitors, the default one first
	Docs     string                               // URL of the documentation, with a slash at its end
	Log      *slog.Logger
}

// Section is a group of pages about one subject, such as users.
type Section interface {
	// Name names the section: its first page is Path/NAME, its text in navigations nav_NAME.
	Name() string
	// Register adds the routes of the pages to the site.
	Register(*Site)
}

// Site is what all admin pages share.
type Site struct {
	*ui.Pages
	Log *slog.Logger

	options Options
	results *results
	mux     *http.ServeMux
	routes  []string // the patterns, in the order of their registration
}

// New returns a site with the routes of the sections. Its front page leads to the first one.
func New(o Options) *Site {
	s := &Site{Pages: o.Pages, Log: o.Log, options: o, results: newResults(), mux: http.NewServeMux()}
	front := func(w http.ResponseWriter, r *http.Request) error {
		return s.Redirect(w, r, Path+"/"+o.Sections[0].Name(), "")
	}
	s.Handle("GET "+Path, front)
	s.Handle("GET "+Path+"/{$}", front)
	s.Handle("POST "+LanguagePath, func(w http.ResponseWriter, r *http.Request) error {
		s.SwitchLanguage(w, r)
		return nil
	})
	for _, section := range o.Sections {
		section.Register(s)
	}
	return s
}

// LanguagePath is where the form of languages posts to.
const LanguagePath = Path + "/language"

// Handler returns the handler of the site.
func (s *Site) Handler() http.Handler { return s.Pages.Handler(s.mux) }

// Routes returns the patterns of all routes.
func (s *Site) Routes() []string { return slices.Clone(s.routes) }

// The names of sections to which pages of others link.
const (
	Users   = "users"
	Support = "support"
	Events  = "events"
)

// VisitorLocales returns the languages of the site's visitors, the default one first.
func (s *Site) VisitorLocales() []string { return s.options.Locales }

// Doc returns the URL of a page of the documentation.
func (s *Site) Doc(page string) string { return s.options.Docs + page }

// LinkTo returns a URL of another section, empty if the site does not have it.
func (s *Site) LinkTo(section, url string) string {
	if !s.HasSection(section) {
		return ""
	}
	return url
}

// HasSection reports whether the site has a section of that name, to which other pages may link.
func (s *Site) HasSection(name string) bool {
	return slices.ContainsFunc(s.options.Sections, func(o Section) bool { return o.Name() == name })
}

// callTimeout bounds the calls to the plugin for one request, so that an administrator does not
// wait for a plugin that hangs. A rehearsal of user fields takes up to 10 seconds.
const callTimeout = 15 * time.Second

// bounded returns a request whose context ends after callTimeout.
func bounded(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	return r.WithContext(ctx), cancel
}

// Handle adds a route for administrators only, with 15 seconds for its calls to the plugin. An
// error of the handler is shown as a page: a [PageError] as it says; any other is logged and shown
// as status 500, with the reason if user fields could not be stored.
func (s *Site) Handle(pattern string, handle func(http.ResponseWriter, *http.Request) error) {
	s.HandleUpload(pattern, func(w http.ResponseWriter, r *http.Request) error {
		r, cancel := bounded(r)
		defer cancel()
		return handle(w, r)
	})
}

// HandleUpload is [Site.Handle] for an upload, which may take long.
func (s *Site) HandleUpload(pattern string, handle func(http.ResponseWriter, *http.Request) error) {
	s.routes = append(s.routes, pattern)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		name, err := s.options.Guard(r)
		if err != nil {
			s.options.Refused(r, err.Error())
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("HX-Refresh", "true") // a page that asks for its parts reloads, and says so, too
			s.options.Refuse.ServeHTTP(w, r)
			return
		}
		call := personal.CallFrom(r.Context())
		call.Administrator = name
		r = r.WithContext(personal.WithCall(r.Context(), call))
		if err := handle(w, r); err != nil {
			s.renderError(w, r, err)
		}
	})
}

// HandleForm is [Site.Handle] for a posted form. read is [ui.ReadForm] or
// [ui.ReadLargeForm]; they differ in the limit of the form's size.
func (s *Site) HandleForm(
	pattern string, read func(http.ResponseWriter, *http.Request) (ui.Posted, error),
	handle func(http.ResponseWriter, *http.Request, ui.Posted) error,
) {
	s.HandleUpload(pattern, func(w http.ResponseWriter, r *http.Request) error {
		posted, err := read(w, r)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return s.PageError(r, http.StatusRequestEntityTooLarge, "form_too_large", large.Limit>>10)
		case err != nil:
			return &PageError{Status: http.StatusBadRequest}
		}
		r, cancel := bounded(r) // a slow client takes none of the time
		defer cancel()
		return handle(w, r, posted)
	})
}

// PageError is an error that is shown as its own page.
type PageError struct {
	Status     int
	Message    string // in the administrator's language; empty: the title of the status says enough
	RetryAfter int64  // seconds; 0: trying again does not help
}

// Error returns the status and the message.
func (e *PageError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// PageError returns a [PageError] with a text.
func (s *Site) PageError(r *http.Request, status int, key string, args ...any) error {
	return &PageError{Status: status, Message: s.Text(r, key, args...)}
}

// PluginError returns the error page of a call to the plugin that failed.
func (s *Site) PluginError(r *http.Request, err error) error {
	x := s.API.ErrorResponse(r, err)
	if x.Code == personal.CodeUnavailable {
		x.Message = s.Text(r, "users_unavailable")
	}
	return &PageError{Status: x.Status, Message: x.Message, RetryAfter: x.RetryAfter}
}

func (s *Site) renderError(w http.ResponseWriter, r *http.Request, err error) {
	var e *PageError
	if !errors.As(err, &e) {
		s.Log.ErrorContext(r.Context(), "admin page failed", "request_id", personal.CallFrom(r.Context()).RequestID, "path", r.URL.Path, "error",
			err)
		e = &PageError{Status: http.StatusInternalServerError, Message: s.Text(r, "see_log")}
		if unsaved, ok := errors.AsType[*fieldstore.NotStoredError](err); ok {
			e.Message = s.Text(r, "fields_not_stored", unsaved.Err)
		}
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(e.RetryAfter, 10))
	}
	problem := ui.Problem{Status: e.Status, Message: e.Message, Retry: e.RetryAfter > 0, Nav: s.siteNav(r), SubNav: s.sections(r)}
	s.complete(r, &problem)
	s.Problem(w, r, problem)
}

// Unrouted completes the error page of a path or method without a route. Anyone may see it.
func (s *Site) Unrouted(r *http.Request, problem *ui.Problem) {
	problem.Message = s.Text(r, "not_found_address")
	s.complete(r, problem)
}

// complete makes an error page one of the admin pages: it leads back to the section of the request.
func (s *Site) complete(r *http.Request, problem *ui.Problem) {
	problem.Wide = true
	if problem.Status == http.StatusNotFound {
		problem.Title = s.Text(r, "not_found")
	}
	sections := s.sections(r)
	problem.Back = &sections[0]
	for _, link := range sections {
		if r.URL.Path == link.Path || strings.HasPrefix(r.URL.Path, link.Path+"/") {
			problem.Back = &link
		}
	}
}

// Render sends a page with the navigation of administrators. It returns nil, so
// that a handler can end with it: [ui.Pages.Render] deals with errors itself.
func (s *Site) Render(w http.ResponseWriter, r *http.Request, status int, name string, page ui.Page) error {
	page.Nav, page.SubNav, page.Wide = s.siteNav(r), s.sections(r), true
	s.Pages.Render(w, r, status, name, page)
	return nil
}

// Redirect sends the browser to another page, which shows a notice (the key of its
// text) of what has been done; empty for none. It returns nil, so that a handler
// can end with it.
func (s *Site) Redirect(w http.ResponseWriter, r *http.Request, path, notice string) error {
	if notice != "" {
		s.LeaveNotice(w, r, notice)
	}
	ui.Redirect(w, r, path)
	return nil
}

// Notice returns the text of the notice that [Site.Redirect] has left, empty unless
// its key is one of these: browsers can send any key.
func (s *Site) Notice(w http.ResponseWriter, r *http.Request, keys ...string) string {
	if key := s.TakeNotice(w, r); slices.Contains(keys, key) {
		return s.Text(r, key)
	}
	return ""
}

// RefuseForm shows the plugin's field errors in a form and returns the status of
// the response.
func (s *Site) RefuseForm(r *http.Request, form *ui.Form, err error) int {
	x := s.API.ErrorResponse(r, err)
	fieldErrors := map[string]string{}
	for name, e := range x.FieldErrors {
		fieldErrors[name] = e.Message
	}
	form.Refuse(x.Message, fieldErrors)
	return x.Status
}

// siteNav returns the links of the site, for the pages' own layout.
func (s *Site) siteNav(r *http.Request) []ui.Link {
	if s.options.Nav == nil {
		return nil
	}
	return s.options.Nav(r)
}

// sections returns the links to the sections.
func (s *Site) sections(r *http.Request) (links []ui.Link) {
	for _, section := range s.options.Sections {
		links = append(links, ui.Link{Text: s.Text(r, "nav_"+section.Name()), Path: Path + "/" + section.Name()})
	}
	return links
}

// URL returns a URL with query parameters, given as pairs of name and value. It
// leaves out those with an empty value.
func URL(path string, parameters ...string) string {
	query := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			query.Set(parameters[i], parameters[i+1])
		}
	}
	return path + "?" + query.Encode()
}

// LivePart is a part of a page that htmx asks for every few seconds.
type LivePart struct{ Data any }

// NewLivePart returns a part that shows a value.
func NewLivePart(data any) LivePart { return LivePart{data} }

// Digest identifies the value, for the template. Of what JSON cannot encode there is an error page.
func (p LivePart) Digest() (string, error) {
	encoded, err := json.Marshal(p.Data)
	if err != nil {
		return "", fmt.Errorf("the digest of a part of a page: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8]), nil
}

// RenderPart sends a part of a page, or status 204 if the browser shows the same
// data already: the page then keeps its focus and what is unfolded.
func (s *Site) RenderPart(w http.ResponseWriter, r *http.Request, page, template string, data any) error {
	part := NewLivePart(data)
	digest, err := part.Digest()
	if err != nil {
		return err
	}
	if r.URL.Query().Get("seen") == digest {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.Part(w, r, page, template, part)
	return nil
}
