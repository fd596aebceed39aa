package adminpages

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/cms-personal/personal/host-sample/adminentry"
	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/mailbox"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

//go:embed templates texts assets
var embedded embed.FS

// Options are what the pages show and what they may do.
type Options struct {
	Guard    *adminentry.Guard
	API      *personalhttp.Handler // explains errors, and chooses labels
	Plugin   Plugin
	Users    personal.Administration
	Recovery Recovery
	Fields   *fieldstore.Store
	Mails    *mailbox.Box // nil: mails are sent, not kept
	Log      *slog.Logger
}

// Recovery mails a user what lets him set a new password.
type Recovery interface {
	Recover(ctx context.Context, r personal.RecoverRequest) error
}

// site is all pages.
type site struct {
	Options
	pages *ui.Pages
	mux   *http.ServeMux
}

// New returns the handler of everything under /admin/ but the API.
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(embedded, "templates"), Texts: ui.Folder(embedded, "texts"), Assets: ui.Folder(embedded, "assets"), AssetPath: "/admin/assets/",
		Foreign: o.Guard.Foreign, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("admin pages: %w", err)
	}
	s := &site{Options: o, pages: pages, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /admin/enter", s.showEnter)
	s.mux.HandleFunc("POST /admin/enter", s.enter)
	s.private("GET /admin/{$}", toFront)
	s.private("POST /admin/leave", s.leave)
	s.pluginRoutes()
	s.userRoutes()
	s.fieldRoutes()
	s.mailRoutes()
	s.eventRoutes()
	return pages.Handler(s.mux), nil
}

// front is the page that administrators come to first.
const front = "/admin/plugin"

func toFront(w http.ResponseWriter, r *http.Request) { ui.Redirect(w, r, front) }

// administrator names who acts in the events of changes: the sample has one
// administrator, whoever holds the link.
const administrator = "administrator"

// private adds a route for administrators alone.
func (s *site) private(pattern string, handle http.HandlerFunc) {
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := personal.CallFrom(r.Context())
		call.Administrator = administrator
		handle(w, r.WithContext(personal.WithCall(r.Context(), call)))
	})
	s.mux.Handle(pattern, s.Guard.Require(named, http.HandlerFunc(s.stranger)))
}

// render answers with a page for administrators.
func (s *site) render(w http.ResponseWriter, r *http.Request, status int, name string, page ui.Page) {
	page.Nav, page.Wide = s.nav(r), true
	s.pages.Render(w, r, status, name, page)
}

func (s *site) nav(r *http.Request) []ui.Link {
	return []ui.Link{
		{Text: s.pages.Text(r, "nav_plugin"), Path: front},
		{Text: s.pages.Text(r, "nav_users"), Path: usersPath},
		{Text: s.pages.Text(r, "nav_fields"), Path: fieldsPath},
		{Text: s.pages.Text(r, "nav_mail"), Path: mailPath},
		{Text: s.pages.Text(r, "nav_events"), Path: eventsPath},
		{Text: s.pages.Text(r, "nav_leave"), Path: "/admin/leave", Post: true},
	}
}
