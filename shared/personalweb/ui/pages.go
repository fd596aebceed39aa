// Package ui renders web pages: a layout, a stylesheet, forms and tables in the languages of
// [personal.Languages], and in those that a site adds. Pages are templates over typed values,
// rendered on the server. Every page works without scripts, which only add convenience.
//
// A set of pages is a [Pages]: its own templates, texts and assets, on top of those
// that all sets share. It serves through a plain [http.ServeMux] behind
// [Pages.Handler], which adds what every page needs: security headers, the refusal
// of posts from other origins, and error pages.
//
// The language is that of the [personal.Call] in the request's context.
// [Pages.RememberedLanguage] must run before the handler that makes that call.
package ui

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	uitexts "github.com/cms-personal/personal/shared/personalweb/ui/texts"
)

//go:embed templates assets
var shared embed.FS

// Options are the parts of a set of pages.
type Options struct {
	// Templates holds one file NAME.html for each page. Calls {{t "key"}} stand only between tags
	// and in quoted attributes: they become the text when it is parsed. It defines "title" and
	// "main", which get the page's Body, and may define "head", for scripts of its
	// own. All pages share the definitions of the files in the folder parts, which may
	// define "extra" (see [Page]), and "head" for pages that do not.
	Templates fs.FS

	// Texts holds LOCALE.json for English, with all keys, and for other languages: an object of texts by key. They may
	// replace those of this package.
	Texts fs.FS

	// Locales are the languages of the pages, the first one for visitors who prefer none of
	// them; those of API if nil.
	Locales []string

	// SiteTexts holds LOCALE.json with the site's texts in place of those of the pages, or in another
	// of Locales, or a parent of one. A text that a language lacks is that of a parent, of the first of Locales, or
	// English. SiteTemplates holds pages in place of
	// those in Templates. Both may be nil.
	SiteTexts, SiteTemplates fs.FS

	Layout Layout // the site's; this package's if nil

	// LayoutTemplate is a layout with the blocks title, head and body, in place of Layout.
	LayoutTemplate *template.Template

	Style string // URL of the style sheet in place of this package's; empty for that

	// Sources of the Content-Security-Policy: who may frame the pages ('none' if empty), and, in the
	// layout of a site, where its forms ('self') and its <base> ('none') may lead.
	FrameAncestors, FormAction, BaseURI string

	Assets       fs.FS  // scripts and pictures beside this package's; may be nil
	AssetPath    string // where assets are served; with a slash at both ends
	LanguagePath string // where [Pages.SwitchLanguage] is served

	API     *personalhttp.Handler // knows the site's origins, and who uses HTTPS
	Cookies []string              // names of the cookies of these pages, see [personalweb.Guard]
	Foreign func(*http.Request)   // called for refused posts from pages of other origins; may be nil

	// Unrouted completes the error page of a path or method that has no route; may be nil.
	Unrouted func(r *http.Request, problem *Problem)

	Log *slog.Logger // slog.Default() if nil
}

// Pages is a set of pages. It is safe for concurrent use.
type Pages struct {
	Options
	ownLocales bool // the pages have other languages than the API
	languages  map[string]translation
	assets     *assets
	guard      func(http.Handler) http.Handler
}

// translation is everything there is in one language.
type translation struct {
	direction string // of writing: ltr or rtl
	texts     texts
	templates map[string]parsed // by the page's name
}

// New returns a set of pages. The error names the text or asset that is missing or
// invalid. A template is parsed when it is first shown, because most processes show
// few pages; for the errors in templates see [Pages.Check].
func New(o Options) (*Pages, error) {
	if strings.ContainsAny(o.FrameAncestors+o.FormAction+o.BaseURI, ",;\r\n") {
		return nil, errors.New("pages: FrameAncestors, FormAction and BaseURI are sources with spaces between them")
	}
	assets, err := newAssets(o.AssetPath, Folder(shared, "assets"), o.Assets)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	ownLocales := len(o.Locales) > 0
	if !ownLocales {
		o.Locales = o.API.Locales()
	}
	if o.LayoutTemplate != nil {
		if o.Layout, err = TemplateLayout(o.LayoutTemplate); err != nil {
			return nil, err
		}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	texts, missing, err := loadTexts(o.Locales, o.SiteTexts, uitexts.Files, o.Texts)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	localtext.LogMissing(o.Log, "pages below "+strings.TrimSuffix(o.AssetPath, "assets/"), missing)
	p := &Pages{Options: o, ownLocales: ownLocales, languages: map[string]translation{}, assets: assets}
	p.guard = personalweb.Guard(o.API, p.reject, append(slices.Clone(o.Cookies), noticeCookie, LanguageCookie)...)
	for _, locale := range o.Locales {
		templates, err := p.listPages(locale, texts)
		if err != nil {
			return nil, fmt.Errorf("pages in %s: %w", locale, err)
		}
		p.languages[locale] = translation{localtext.Direction(locale), texts[locale], templates}
	}
	if err := p.checkSiteTemplates(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	return p, nil
}

// reject responds to what the guard refuses.
func (p *Pages) reject(w http.ResponseWriter, r *http.Request, err error) {
	x := p.API.ErrorResponse(r, err)
	if x.Code == personal.CodeCrossOrigin {
		x.Message = p.Text(r, "problem_origin")
		if p.Foreign != nil {
			p.Foreign(r)
		}
	}
	p.Problem(w, r, Problem{Status: x.Status, Message: x.Message})
}

// checkSiteTemplates parses the site's templates, which no test of ours has seen.
func (p *Pages) checkSiteTemplates() error {
	if p.SiteTemplates == nil {
		return nil
	}
	names, err := fs.Glob(p.SiteTemplates, "*.html")
	if err != nil {
		return fmt.Errorf("listing the site's templates: %w", err)
	}
	for _, name := range names {
		if _, err := p.languages[p.Locales[0]].templates[strings.TrimSuffix(name, ".html")](); err != nil {
			return fmt.Errorf("the site's template %s: %w", name, err)
		}
	}
	return nil
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

// locale returns the language of the request's call, or the default.
func (p *Pages) locale(r *http.Request) string {
	if locale := personal.CallFrom(r.Context()).Locale; slices.Contains(p.Locales, locale) {
		return locale
	}
	return p.Locales[0]
}

func (p *Pages) language(r *http.Request) translation { return p.languages[p.locale(r)] }

// Text returns a text in the visitor's language. It returns the key if there is no
// such text, which is a mistake in the program, and logs it.
func (p *Pages) Text(r *http.Request, key string, args ...any) string {
	text, err := p.language(r).texts.text(key, args...)
	if err != nil {
		p.Log.ErrorContext(r.Context(), "page text", "error", err)
		return key
	}
	return text
}

// Date returns a day in the visitor's language, in UTC.
func (p *Pages) Date(r *http.Request, at time.Time) string {
	return p.language(r).texts.day(at)
}

// LanguageName returns the name of a language in itself: of one of the pages, or of a built-in one. Of others it
// returns the tag.
func (p *Pages) LanguageName(locale string) string {
	if l, ok := p.languages[locale]; ok {
		return l.texts[ownName].String()
	}
	all, _, err := loadTexts([]string{locale}, nil, uitexts.Files)
	if err != nil {
		return locale
	}
	return all[locale][ownName].String()
}

// Page is the content of a page.
type Page struct {
	Nav    []Link // of the site
	SubNav []Link // of the section that the page belongs to; may be empty
	Below  string // path of the page below which navigations show this one; its own path counts if empty
	Notice string // what just succeeded; may be empty
	Extra  any    // passed to the template "extra", below the notice; nil for none
	Wide   bool   // as wide as a table needs
	Live   bool   // loads htmx, for parts that are updated while the page is open
	Body   any    // passed to the page's own templates

	// Sources are what this page may load besides what the site serves, by the directive of the
	// Content-Security-Policy, such as script-src. In the layout of a site they have no effect:
	// the site sends the policy.
	Sources map[string][]string

	Block template.HTML // of the site, below the page
}

// Link is an entry of a navigation.
type Link struct {
	Text string
	Path string
	Post bool // a button that posts, for actions that change something
}

// Prepared gives requests what pages need: their [personal.Call], in the visitor's language. A
// call that a handler in front has made is kept.
func (p *Pages) Prepared(next http.Handler) http.Handler {
	return p.RememberedLanguage(p.API.WithCall(next))
}

// Has reports whether there is a page of this name.
func (p *Pages) Has(name string) bool {
	_, ok := p.languages[p.Locales[0]].templates[name]
	return ok
}

// Render sends a page. If rendering fails it sends an error page instead, and logs
// the error; it never sends a part of a page.
func (p *Pages) Render(w http.ResponseWriter, r *http.Request, status int, name string, page Page) {
	p.allow(w.Header(), page.Sources)
	p.send(w, r, status, name, func(b *bytes.Buffer, t *template.Template) error { return p.layOut(b, t, r, page) })
}

// Part sends one template of a page, for a script that puts it into the open page.
func (p *Pages) Part(w http.ResponseWriter, r *http.Request, name, part string, data any) {
	p.send(w, r, http.StatusOK, name, func(b *bytes.Buffer, t *template.Template) error { return t.ExecuteTemplate(b, part, data) })
}

func (p *Pages) send(
	w http.ResponseWriter, r *http.Request, status int, name string, render func(*bytes.Buffer, *template.Template) error,
) {
	var b bytes.Buffer
	err := errors.New("there is no such page")
	if page, ok := p.language(r).templates[name]; ok {
		var t *template.Template
		if t, err = page(); err == nil {
			err = render(&b, t)
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
	p.Log.ErrorContext(r.Context(), "page failed", "request_id", id, "error", fmt.Errorf("rendering the page %s: %w", name, err))
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
	Title   string // of the status if empty
	Message string // may be empty
	Retry   bool   // trying again may help
	Link    *Link  // to a page that helps; may be nil
	Back    *Link  // in place of the link to the front page; may be nil
	Nav     []Link
	SubNav  []Link // see [Page]
	Wide    bool   // see [Page]
}

// Problem sends an error page.
func (p *Pages) Problem(w http.ResponseWriter, r *http.Request, problem Problem) {
	var body struct {
		Title, Message string
		Retry          string // the link to try again; may be empty
		Link, Back     *Link
	}
	body.Title = cmp.Or(problem.Title, p.Text(r, problemTitle(problem.Status)))
	body.Message, body.Link, body.Back = problem.Message, problem.Link, problem.Back
	if problem.Retry && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		body.Retry = personalweb.LocalPath(r.URL.RequestURI(), "")
	}
	p.Render(w, r, problem.Status, problemPage, Page{Nav: problem.Nav, SubNav: problem.SubNav, Wide: problem.Wide, Body: body})
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
