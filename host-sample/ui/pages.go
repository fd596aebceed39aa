// Package ui renders the sample's web pages: a layout, a stylesheet, forms and
// tables in English and Russian, for visitors and administrators alike. Pages are
// templates over typed values, rendered on the server. Every page works without
// scripts, which only add convenience.
//
// A set of pages is a [Pages]: its own templates, texts and assets, on top of those
// that all sets share. It serves through a plain [http.ServeMux] behind
// [Pages.Handler], which adds what every page needs: security headers, the refusal
// of posts from other origins, and error pages.
//
// The language is that of the [personal.Call] in the request's context.
// [RememberedLanguage] must run before the handler that makes that call.
package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
)

//go:embed templates texts assets
var shared embed.FS

// Options are the parts of a set of pages.
type Options struct {
	// Templates holds one file NAME.html for each page. It defines "title" and
	// "main", which get the page's Body, and may define "head", for scripts of its
	// own. All pages share the definitions of the files in the folder parts, which may
	// define "extra" (see [Page]).
	Templates fs.FS

	// Texts holds LOCALE.json for each of [Locales]: an object of texts by key.
	// They may replace those of this package.
	Texts fs.FS

	Assets    fs.FS  // scripts and pictures beside this package's; may be nil
	AssetPath string // where assets are served; with a slash at both ends

	Origins []string            // of the site itself, whose posts are accepted also where a proxy changes Host
	Foreign func(*http.Request) // called for refused posts from pages of other origins; may be nil

	Log *slog.Logger
}

// Pages is a set of pages. It is safe for concurrent use.
type Pages struct {
	languages map[string]language
	assets    *assets
	guard     func(http.Handler) http.Handler
	log       *slog.Logger
}

// language is everything there is in one language.
type language struct {
	texts     texts
	templates map[string]parsed // by the page's name
}

// New returns a set of pages. The error names the text or asset that is missing or
// invalid. A template is parsed when it is first shown, because most processes show
// few pages; for the errors in templates see [Pages.Check].
func New(o Options) (*Pages, error) {
	assets, err := newAssets(o.AssetPath, Folder(shared, "assets"), o.Assets)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	common, err := readTexts(Folder(shared, "texts"))
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	own, err := readTexts(o.Texts)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p := &Pages{languages: map[string]language{}, assets: assets, log: o.Log}
	reject := func(w http.ResponseWriter, r *http.Request, _ error) {
		if o.Foreign != nil {
			o.Foreign(r)
		}
		p.Problem(w, r, Problem{Status: http.StatusForbidden, Message: p.Text(r, "problem_origin")})
	}
	if p.guard, err = personalweb.Guard(reject, o.Origins...); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, locale := range Locales() {
		texts := common[locale]
		maps.Copy(texts, own[locale])
		templates, err := listPages(locale, texts, assets, o.Templates)
		if err != nil {
			return nil, fmt.Errorf("pages in %s: %w", locale, err)
		}
		p.languages[locale] = language{texts: texts, templates: templates}
	}
	return p, nil
}

// Check parses every template. The error names one that is invalid or uses a text
// that does not exist. A test calls it: visitors would see an error page instead.
func (p *Pages) Check() error {
	for locale, l := range p.languages {
		for _, page := range l.templates {
			if _, err := page(); err != nil {
				return fmt.Errorf("pages in %s: %w", locale, err)
			}
		}
	}
	return nil
}

// Folder returns a folder of embedded files.
func Folder(files embed.FS, name string) fs.FS {
	folder, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the name is not a path: a mistake in the program
	}
	return folder
}

// Locales are the available languages. The first one is the default.
func Locales() []string { return []string{"en", "ru"} }

// language returns the language of the request's call, or the default.
func (p *Pages) language(r *http.Request) language {
	if l, ok := p.languages[personal.CallFrom(r.Context()).Locale]; ok {
		return l
	}
	return p.languages[Locales()[0]]
}

// Text returns a text in the visitor's language. It returns the key if there is no
// such text, which is a mistake in the program, and logs it.
func (p *Pages) Text(r *http.Request, key string, args ...any) string {
	text, err := p.language(r).texts.text(key, args...)
	if err != nil {
		p.log.ErrorContext(r.Context(), "page text", "error", err)
		return key
	}
	return text
}

// Page is the content of a page.
type Page struct {
	Nav    []Link // of the site
	SubNav []Link // of the section that the page belongs to; may be empty
	Notice string // what just succeeded; may be empty
	Extra  any    // passed to the template "extra", below the notice; nil for none
	Wide   bool   // as wide as a table needs
	Live   bool   // loads htmx, for parts that are updated while the page is open
	Body   any    // passed to the page's own templates
}

// Link is an entry of a navigation.
type Link struct {
	Text string
	Path string
	Post bool // a button that posts, for actions that change something
}

// laidOut is passed to the layout.
type laidOut struct {
	Page
	Path string // of the page, with its query unless that is long: a change of language returns there
	at   string
}

// maxReturn bounds laidOut.Path with a query, in bytes.
const maxReturn = 1 << 10

// Here reports whether a link leads to the current page.
func (l laidOut) Here(link Link) bool { return link.Path == l.at }

// Within reports whether the current page is below a link.
func (l laidOut) Within(link Link) bool {
	return link.Path == l.at || link.Path != "/" && strings.HasPrefix(l.at, link.Path+"/")
}

// Render sends a page. If rendering fails it sends an error page instead, and logs
// the error; it never sends a part of a page.
func (p *Pages) Render(w http.ResponseWriter, r *http.Request, status int, name string, page Page) {
	path := r.URL.RequestURI()
	if len(path) > maxReturn {
		path = r.URL.EscapedPath()
	}
	p.send(w, r, status, name, "layout", laidOut{Page: page, Path: path, at: r.URL.Path})
}

// Part sends one template of a page, for a script that puts it into the open page.
func (p *Pages) Part(w http.ResponseWriter, r *http.Request, name, part string, data any) {
	p.send(w, r, http.StatusOK, name, part, data)
}

func (p *Pages) send(w http.ResponseWriter, r *http.Request, status int, name, part string, data any) {
	var b bytes.Buffer
	err := errors.New("there is no such page")
	if page, ok := p.language(r).templates[name]; ok {
		var t *template.Template
		if t, err = page(); err == nil {
			err = t.ExecuteTemplate(&b, part, data)
		}
	}
	if err == nil {
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Cache-Control", "no-store") // pages depend on the signed-in user
		w.WriteHeader(status)
		_, _ = w.Write(b.Bytes()) // an error means that the client is gone
		return
	}
	id := personal.CallFrom(r.Context()).RequestID
	p.log.ErrorContext(r.Context(), "page failed", "request_id", id, "error", fmt.Errorf("rendering %s of the page %s: %w", part, name, err))
	if name == problemPage {
		http.Error(w, http.StatusText(status), status)
		return
	}
	p.Problem(w, r, Problem{Status: http.StatusInternalServerError})
}

// problemPage is the name of the error page.
const problemPage = "problem"

// Problem is an error shown as a page.
type Problem struct {
	Status  int
	Message string // may be empty
	Retry   bool   // trying again may help
	Link    *Link  // to a page that helps; may be nil
	Nav     []Link
}

// Problem sends an error page.
func (p *Pages) Problem(w http.ResponseWriter, r *http.Request, problem Problem) {
	var body struct {
		Title, Message string
		Retry          string // the link to try again; may be empty
		Link           *Link
	}
	body.Title, body.Message, body.Link = p.Text(r, problemTitle(problem.Status)), problem.Message, problem.Link
	if problem.Retry && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		body.Retry = r.URL.RequestURI()
	}
	p.Render(w, r, problem.Status, problemPage, Page{Nav: problem.Nav, Body: body})
}

// problemTitle returns the key of the text that explains a status to a visitor.
func problemTitle(status int) string {
	titles := map[int]string{
		http.StatusUnauthorized:       "problem_unauthorized",
		http.StatusForbidden:          "problem_forbidden",
		http.StatusNotFound:           "problem_not_found",
		http.StatusMethodNotAllowed:   "problem_method",
		http.StatusServiceUnavailable: "problem_unavailable",
		http.StatusTooManyRequests:    "problem_too_many",
	}
	if key, ok := titles[status]; ok {
		return key
	}
	if status >= http.StatusInternalServerError {
		return "problem_internal"
	}
	return "problem_request"
}
