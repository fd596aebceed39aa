// Package site is what the sample adds to the account pages: a front page, and pages that
// only some visitors may see. It shows how a CMS with its own pages mounts
// [personalpages].
package site

import (
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

//go:embed templates texts replaced
var files embed.FS

const (
	demoPath     = "/demo"
	verifiedPath = "/demo/verified"
	completePath = "/demo/complete"
)

// Texts returns the name of the site and its footer, in place of those of the module's pages.
func Texts(api *personalhttp.Handler) fs.FS {
	return textsIn{ui.Folder(files, "replaced"), api.Locales()}
}

// textsIn are files with texts, of which it lists those in the languages of the site.
type textsIn struct {
	fs.FS
	locales []string
}

// ReadDir implements [fs.ReadDirFS].
func (f textsIn) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !slices.Contains(f.locales, strings.TrimSuffix(e.Name(), ".json"))
	}), err
}

// Options are what the pages need.
type Options struct {
	Module personalpages.Module
	APIURL string // of the API without a final slash, shown to developers
	Log    *slog.Logger
}

// Site serves all pages for visitors.
type Site struct {
	http.Handler
	Account *personalpages.Pages
	apiURL  string
	pages   *ui.Pages
}

// New returns the pages. They send an error page for every unknown path. Each request must
// carry a [personal.Call], as by [Site.WithCall].
func New(o Options) (*Site, error) {
	s := &Site{apiURL: o.APIURL}
	texts := ui.Folder(files, "texts")
	var err error
	s.pages, err = ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: texts, AssetPath: "/assets/", LanguagePath: personalpages.LanguagePath,
		API: o.Module.API(), Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	s.Account, err = personalpages.New(o.Module, personalpages.Config{
		Texts: Texts(o.Module.API()), Nav: s.nav, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.Account.OptionalUser(http.HandlerFunc(s.home)))
	for path, page := range map[string]struct {
		name    string
		demands []personalhttp.RequireOption
	}{
		demoPath:     {"demo", nil},
		verifiedPath: {"verified", []personalhttp.RequireOption{personalhttp.VerifiedEmail()}},
		completePath: {"complete", []personalhttp.RequireOption{personalhttp.Complete()}},
	} {
		mux.Handle("GET "+path, s.Account.RequireUser(s.members(page.name), page.demands...))
	}
	own := s.pages.Handler(mux)
	all := http.NewServeMux()
	all.Handle(personalpages.Path, s.Account)
	all.Handle(personalpages.Path+"/", s.Account)
	all.HandleFunc("GET "+personalpages.ChangePasswordPath, personalpages.ChangePassword)
	all.Handle("/", own)
	s.Handler = all
	return s, nil
}

// WithCall gives requests of other pages their [personal.Call] in the language that the
// visitor has chosen.
func (s *Site) WithCall(next http.Handler) http.Handler { return s.Account.WithCall(next) }

func (s *Site) text(r *http.Request, key string) string { return s.pages.Text(r, key) }

// nav returns the site's links on every page.
func (s *Site) nav(r *http.Request, signedIn bool) []ui.Link {
	if !signedIn {
		return nil
	}
	return []ui.Link{{Text: s.text(r, "demo"), Path: demoPath}}
}

// home shows the front page.
func (s *Site) home(w http.ResponseWriter, r *http.Request) {
	viewer, signedIn := s.Account.Viewer(r)
	p := s.Account.Page(w, r)
	complete := ""
	if len(viewer.Missing) > 0 {
		complete = personalpages.CompletionURL(r.URL.Path)
	}
	p.Body = struct {
		Name                            string // of the visitor; empty if unknown
		SignedIn                        bool
		SignIn, Register, Account, Demo string
		Complete                        string // where missing user fields are asked for; empty if there are none
		APIURL                          string
	}{nameOf(viewer), signedIn, personalpages.SignInPath, personalpages.RegisterPath, personalpages.Path, demoPath, complete, s.apiURL}
	s.pages.Render(w, r, http.StatusOK, "home", p)
}

// members returns an example of a page of the CMS that only some visitors may see.
func (s *Site) members(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := personalhttp.UserFrom(r.Context())
		p := s.Account.Page(w, r)
		p.SubNav = []ui.Link{
			{Text: s.text(r, "demo"), Path: demoPath},
			{Text: s.text(r, "verified"), Path: verifiedPath},
			{Text: s.text(r, "complete_demo"), Path: completePath},
		}
		p.Body = struct {
			Name, Email string
			UserID      int64
		}{nameOf(user.Profile), user.Profile.Email, user.ID}
		s.pages.Render(w, r, http.StatusOK, name, p)
	})
}

func nameOf(p personal.Profile) string {
	if p.Name != nil {
		return *p.Name
	}
	return p.Login
}
