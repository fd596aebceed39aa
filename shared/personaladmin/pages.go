// Package personaladmin has pages for the administrators of a site: users, why one cannot get
// in, user fields, events, captured mails, plugin versions. A CMS mounts them at [Path], behind
// its own guard and in its own layout:
//
//	admin, err := personaladmin.New(module, personaladmin.Config{Guard: administrator, Layout: layout})
//	mux.Handle("/admin", admin)
//	mux.Handle("/admin/", admin)
//
// The pages are rendered on the server and work without scripts, which update what is live.
// They call the module in process and refuse forged requests ([personalweb.Guard]).
package personaladmin

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/events"
	"github.com/cms-personal/personal/shared/personaladmin/internal/fields"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mail"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mailbox"
	"github.com/cms-personal/personal/shared/personaladmin/internal/plugin"
	"github.com/cms-personal/personal/shared/personaladmin/internal/support"
	"github.com/cms-personal/personal/shared/personaladmin/internal/traffic"
	"github.com/cms-personal/personal/shared/personaladmin/internal/users"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

//go:embed templates assets
var files embed.FS

const docs = "https://github.com/cms-personal/personal/blob/main/docs/"

// Path is the front page; all other pages are below it.
const Path = frame.Path

// Section is a group of pages about one subject.
type Section string

// The sections. SectionVersions runs programs that administrators upload: it needs
// [Config].Versions.
const (
	SectionOverview Section = "overview"
	SectionUsers    Section = "users"
	SectionSupport  Section = "support" // why a user cannot get in
	SectionFields   Section = "fields"  // needs a module with a store of user fields
	SectionEvents   Section = "events"
	SectionMailbox  Section = "mail" // captured mails; there is nothing to show if mails are sent
	SectionVersions Section = "plugin"
)

// Module is the part of personalhost.Module that the pages need.
type Module interface {
	API() *personalhttp.Handler
	Client() *rpc.Client // admissions do not judge administrators
	Manager() *manager.Manager
	Catalogue() *catalogue.Catalogue
	Uploads() *adminapi.Uploads // nil: no bundles can be uploaded
	EventLog() *adminapi.EventLog
	Fields() *fieldstore.Store // nil: the host keeps user fields elsewhere
	CapturedMails() string     // the folder of mails that are not sent; empty if they are
}

// Config is what a site gives to the pages. Guard is required.
type Config struct {
	// Guard decides who is an administrator. It returns their name, which the events of what they
	// do will have, or an error that says why a request is refused, for the log. It is asked for
	// every request.
	Guard func(r *http.Request) (name string, err error)

	// Refuse responds to requests that Guard refuses; an error page with status 403 if nil.
	Refuse http.Handler

	// Sections are shown in this order, the first one as the front page. If nil, all are that have
	// something to show, except SectionVersions.
	Sections []Section

	// Versions adds SectionVersions: installed plugin versions, to use, rehearse, roll back to and
	// remove. Where the module takes uploads ([Module].Uploads), its visitors can run programs on
	// the server.
	Versions bool

	// These are as in personalpages.Config.
	Layout                              *template.Template
	LayoutFunc                          ui.Layout
	FrameAncestors, FormAction, BaseURI string
	Style                               string
	Texts                               fs.FS

	// Locales are the languages of these pages, the default one first: some of [personal.Languages] and of the
	// site's own messages. If empty, they are those of the API. Labels of user fields are in the language of the browser.
	Locales []string

	// Nav returns the site's links in the pages' own layout, such as one to sign out; none if nil.
	Nav func(r *http.Request) []ui.Link

	// Docs is the URL of the documentation, to which texts link; that of this module's repository
	// if empty. It ends with a slash.
	Docs string

	// Access is the log of refused requests; [NewAccessLog] of Log if nil.
	Access *AccessLog

	Log *slog.Logger // [slog.Default] if nil
}

// Pages serves the admin pages. It is safe for concurrent use.
type Pages struct {
	site    *frame.Site
	handler http.Handler
}

// New returns the pages of a module. The error names what is invalid in the config.
func New(m Module, c Config) (*Pages, error) {
	chosen, err := c.sections(m)
	if err != nil {
		return nil, fmt.Errorf("admin pages: %w", err)
	}
	return newPages(m.API(), c, chosen)
}

// sections returns the pages of the chosen sections.
func (c Config) sections(m Module) ([]frame.Section, error) {
	names := c.Sections
	if names == nil {
		names = []Section{SectionOverview, SectionUsers, SectionSupport, SectionFields, SectionEvents, SectionMailbox}
		names = slices.DeleteFunc(names, func(s Section) bool {
			return s == SectionFields && m.Fields() == nil || s == SectionMailbox && m.CapturedMails() == ""
		})
	}
	if c.Versions && !slices.Contains(names, SectionVersions) {
		names = append(slices.Clone(names), SectionVersions)
	}
	client := m.Client()
	var chosen []frame.Section
	for _, name := range names {
		switch name {
		case SectionOverview:
			counts := &plugin.Counts{Since: time.Now()}
			client.Observe(counts.Count)
			chosen = append(chosen, &plugin.Overview{Manager: m.Manager(), Administration: client, Counts: counts})
		case SectionUsers:
			chosen = append(chosen, &users.Pages{Administration: client, Recovery: client, Schema: m.API().Options().UserFields})
		case SectionSupport:
			chosen = append(chosen, &support.Pages{Administration: client, Mails: client})
		case SectionFields:
			if m.Fields() == nil {
				return nil, errors.New("Config.Sections: fields needs a personalhost.Host with a store of user fields")
			}
			chosen = append(chosen, &fields.Pages{Store: m.Fields(), Administration: client})
		case SectionEvents:
			chosen = append(chosen, &events.Pages{Administration: client, EventLog: m.EventLog()})
		case SectionMailbox:
			chosen = append(chosen, &mail.Pages{Box: mailbox.Box(m.CapturedMails())})
		case SectionVersions:
			if !c.Versions {
				return nil, errors.New("Config.Sections: plugin needs Config.Versions, because it runs programs that are uploaded")
			}
			chosen = append(chosen, &plugin.Pages{
				Manager: m.Manager(), Catalogue: m.Catalogue(), EventLog: m.EventLog(), Uploads: m.Uploads(), Traffic: count(client), Bake: m.Manager().Bake(),
			})
		default:
			return nil, fmt.Errorf("Config.Sections: there is no section %q", name)
		}
	}
	return chosen, nil
}

// newPages returns the pages of sections.
func newPages(api *personalhttp.Handler, c Config, sections []frame.Section) (*Pages, error) {
	if c.Guard == nil {
		return nil, errors.New("admin pages: Config.Guard is missing: it decides who is an administrator")
	}
	if len(sections) == 0 {
		return nil, errors.New("admin pages: Config.Sections is empty")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Access = cmp.Or(c.Access, NewAccessLog(c.Log))
	visitors := api.Locales()
	if len(c.Locales) > 0 {
		var err error
		if api, err = api.In(c.Locales...); err != nil {
			return nil, fmt.Errorf("admin pages: Config.Locales: %w", err)
		}
	}
	var site *frame.Site
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: texts.Files, Assets: ui.Folder(files, "assets"),
		AssetPath: Path + "/assets/", LanguagePath: frame.LanguagePath, Locales: c.Locales,
		Layout: c.LayoutFunc, LayoutTemplate: c.Layout,
		FrameAncestors: c.FrameAncestors, FormAction: c.FormAction, BaseURI: c.BaseURI, Style: c.Style, SiteTexts: c.Texts,
		API: api, Cookies: []string{frame.ResultCookie}, Foreign: func(r *http.Request) { c.Access.Refused(r, "a page of another origin") }, Log: c.Log,
		Unrouted: func(r *http.Request, problem *ui.Problem) { site.Unrouted(r, problem) },
	})
	if err != nil {
		return nil, fmt.Errorf("admin pages: %w", err)
	}
	if c.Refuse == nil {
		c.Refuse = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pages.Problem(w, r, ui.Problem{Status: http.StatusForbidden, Message: pages.Text(r, "not_an_administrator")})
		})
	}
	site = frame.New(frame.Options{
		Pages: pages, Guard: c.Guard, Refused: c.Access.Refused, Refuse: c.Refuse, Nav: c.Nav, Sections: sections, Locales: visitors, Docs: cmp.Or(c.Docs, docs), Log: c.Log,
	})
	return &Pages{site: site, handler: pages.Prepared(site.Handler())}, nil
}

// ServeHTTP serves the pages, and an error page for any other path.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// count returns a recorder of the calls of a client, for the chart.
func count(client *rpc.Client) *traffic.Recorder {
	recorder := traffic.NewRecorder()
	client.Observe(func(operation personal.OperationName, code personal.Code, took time.Duration) {
		recorder.Count(string(operation), code == personal.CodeUnavailable || code == personal.CodeInternal, took)
	})
	return recorder
}
