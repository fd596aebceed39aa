// Package admin is the frame of the sample's pages for administrators, under
// /admin/: signing in with a link, the guard, the layout, and error pages. Each of its
// sub-packages has the pages about one subject, as a [Section].
package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

//go:embed templates texts assets
var files embed.FS

// Front is the path of the page that administrators see first.
const Front = "/admin/plugin"

// administrator is the actor in the events of changes: the sample does not tell
// administrators apart.
const administrator = "administrator"

// Options configure [New].
type Options struct {
	Guard    *Guard
	API      *personalhttp.Handler // explains errors of the plugin and chooses labels
	Sections []Section
	Origins  []string // see [ui.Options]
	Log      *slog.Logger
}

// Section is a group of pages about one subject, such as users.
type Section interface {
	// Register adds the routes of the pages to the site.
	Register(*Site)
}

// Site is what all admin pages share: routes, layout, texts and error pages.
type Site struct {
	*ui.Pages
	API *personalhttp.Handler
	Log *slog.Logger

	guard *Guard
	mux   *http.ServeMux
}

// New returns the handler of everything under /admin/ except the JSON API.
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: ui.Folder(files, "texts"), Assets: ui.Folder(files, "assets"), AssetPath: "/admin/assets/", LanguagePath: personalpages.LanguagePath,
		Origins: o.Origins, Foreign: o.Guard.foreignPost, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("admin pages: %w", err)
	}
	o.Guard.fromLoopback = o.API.FromLoopback
	s := &Site{Pages: pages, API: o.API, Log: o.Log, guard: o.Guard, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /admin/enter", s.showLink)
	s.mux.HandleFunc("POST /admin/enter", s.signIn)
	s.Handle("POST /admin/leave", s.signOut)
	s.Handle("GET /admin/{$}", func(w http.ResponseWriter, r *http.Request) error { return s.Redirect(w, r, Front, "") })
	for _, section := range o.Sections {
		section.Register(s)
	}
	return pages.Handler(s.mux), nil
}

// showLink shows the page that a sign-in link leads to. It spends no code: programs
// may open the link before its reader does.
func (s *Site) showLink(w http.ResponseWriter, r *http.Request) {
	s.Pages.Render(w, r, http.StatusOK, "enter", ui.Page{Body: struct{ Code string }{r.URL.Query().Get("code")}})
}

func (s *Site) signIn(w http.ResponseWriter, r *http.Request) {
	posted, err := ui.ReadForm(w, r)
	if err != nil || !s.guard.signIn(w, r, posted.Get("code")) {
		s.Problem(w, r, ui.Problem{Status: http.StatusForbidden, Message: s.Text(r, "enter_refused")})
		return
	}
	ui.Redirect(w, r, Front)
}

func (s *Site) signOut(w http.ResponseWriter, r *http.Request) error {
	s.guard.signOut(w, r)
	return s.Redirect(w, r, "/", "")
}

// refuse tells a caller without a session how to sign in. HX-Refresh makes htmx
// reload a whole page whose parts it asked for, so that the page says so, too.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("HX-Refresh", "true")
	s.Problem(w, r, ui.Problem{Status: http.StatusUnauthorized, Message: s.Text(r, "not_signed_in")})
}

// Handle adds a route for administrators only. An error of the handler is shown as
// a page: a [PageError] as it says; any other is logged and shown as status 500.
func (s *Site) Handle(pattern string, handle func(http.ResponseWriter, *http.Request) error) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := personal.CallFrom(r.Context())
		call.Administrator = administrator
		r = r.WithContext(personal.WithCall(r.Context(), call))
		if err := handle(w, r); err != nil {
			s.renderError(w, r, err)
		}
	})
	s.mux.Handle(pattern, s.guard.require(next, http.HandlerFunc(s.refuse)))
}

// HandleForm is [Site.Handle] for a posted form. read is [ui.ReadForm] or
// [ui.ReadLargeForm]; they differ in the limit of the form's size.
func (s *Site) HandleForm(
	pattern string, read func(http.ResponseWriter, *http.Request) (ui.Posted, error),
	handle func(http.ResponseWriter, *http.Request, ui.Posted) error,
) {
	s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) error {
		posted, err := read(w, r)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return s.PageError(r, http.StatusRequestEntityTooLarge, "form_too_large", large.Limit>>10)
		case err != nil:
			return &PageError{Status: http.StatusBadRequest}
		}
		return handle(w, r, posted)
	})
}

// PageError is an error that is shown as a page of its own.
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
	x := s.API.Explain(r, err)
	if x.Code == personal.CodeUnavailable {
		x.Message = s.Text(r, "users_unavailable")
	}
	return &PageError{Status: x.Status, Message: x.Message, RetryAfter: x.RetryAfter}
}

func (s *Site) renderError(w http.ResponseWriter, r *http.Request, err error) {
	var e *PageError
	if !errors.As(err, &e) {
		s.Log.ErrorContext(r.Context(), "admin page failed", "request_id", personal.CallFrom(r.Context()).RequestID, "path", r.URL.Path, "error", err)
		e = &PageError{Status: http.StatusInternalServerError, Message: s.Text(r, "see_log")}
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(e.RetryAfter, 10))
	}
	s.Problem(w, r, ui.Problem{Status: e.Status, Message: e.Message, Retry: e.RetryAfter > 0, Nav: s.nav(r)})
}

// Render sends a page with the navigation of administrators. It returns nil, so
// that a handler can end with it: [ui.Pages.Render] deals with errors itself.
func (s *Site) Render(w http.ResponseWriter, r *http.Request, status int, name string, page ui.Page) error {
	page.Nav, page.Wide = s.nav(r), true
	s.Pages.Render(w, r, status, name, page)
	return nil
}

// Redirect sends the browser to another page, which shows a notice (the key of its
// text) of what has been done; empty for none. It returns nil, so that a handler
// can end with it.
func (s *Site) Redirect(w http.ResponseWriter, r *http.Request, path, notice string) error {
	if notice != "" {
		ui.LeaveNotice(w, r, notice)
	}
	ui.Redirect(w, r, path)
	return nil
}

// Notice returns the text of the notice that [Site.Redirect] has left, empty unless
// its key is one of these: browsers can send any key.
func (s *Site) Notice(w http.ResponseWriter, r *http.Request, keys ...string) string {
	if key := ui.TakeNotice(w, r); slices.Contains(keys, key) {
		return s.Text(r, key)
	}
	return ""
}

// Keep stores a value in the session of the request's administrator, in place of the
// previous one: what they have just done, for [Site.Kept]. It is lost with the session.
func (s *Site) Keep(r *http.Request, value any) { s.guard.sessions.keep(cookie(r), value) }

// Kept returns what [Site.Keep] has stored last, nil if nothing. Callers must not change it.
func (s *Site) Kept(r *http.Request) any { return s.guard.sessions.kept(cookie(r)) }

// RefuseForm shows the plugin's field errors in a form and returns the status of
// the response.
func (s *Site) RefuseForm(r *http.Request, form *ui.Form, err error) int {
	x := s.API.Explain(r, err)
	fieldErrors := map[string]string{}
	for name, e := range x.Fields {
		fieldErrors[name] = e.Message
	}
	form.Refuse(x.Message, fieldErrors)
	return x.Status
}

func (s *Site) nav(r *http.Request) []ui.Link {
	var links []ui.Link
	for _, name := range []string{"plugin", "users", "support", "fields", "mail", "events"} {
		links = append(links, ui.Link{Text: s.Text(r, "nav_"+name), Path: "/admin/" + name})
	}
	return append(links, ui.Link{Text: s.Text(r, "nav_leave"), Path: "/admin/leave", Post: true})
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
type LivePart struct {
	Digest string // of Data
	Data   any
}

// NewLivePart returns a part that shows a value, which JSON must be able to encode.
func NewLivePart(data any) LivePart {
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err) // the type is not for JSON: a mistake in the program
	}
	sum := sha256.Sum256(encoded)
	return LivePart{Digest: hex.EncodeToString(sum[:8]), Data: data}
}

// RenderPart sends a part of a page, or status 204 if the browser shows the same
// data already: the page then keeps its focus and what is unfolded.
func (s *Site) RenderPart(w http.ResponseWriter, r *http.Request, page, template string, data any) error {
	part := NewLivePart(data)
	if r.URL.Query().Get("seen") == part.Digest {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.Part(w, r, page, template, part)
	return nil
}
