package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

//go:embed templates texts assets
var shared embed.FS

// Options say what a set of pages is made of.
type Options struct {
	// Templates holds one file NAME.html for each page. It defines "title" and
	// "main", which get the page's Body, and may define "head", for scripts of its
	// own. What the files in the folder parts define is shared by all pages.
	Templates fs.FS

	// Texts holds LOCALE.json for every locale on offer: an object of texts by
	// key. They may replace those of this package.
	Texts fs.FS

	Assets    fs.FS  // scripts and pictures beside this package's; may be nil
	AssetPath string // where assets are served; with a slash at both ends

	Foreign func(*http.Request) // told of what pages of other origins post, which is refused; may be nil

	Log *slog.Logger
}

// Pages is a set of pages. It is safe for concurrent use.
type Pages struct {
	languages map[string]language
	assets    *assets
	foreign   func(*http.Request)
	log       *slog.Logger
}

// language is everything there is in one language.
type language struct {
	texts     texts
	templates map[string]*template.Template // by the page's name
}

// New makes a set of pages, or names the template, text or asset at fault.
func New(o Options) (*Pages, error) {
	p := &Pages{languages: map[string]language{}, foreign: o.Foreign, log: o.Log}
	var err error
	if p.assets, err = newAssets(o.AssetPath, subFolder("assets"), o.Assets); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for _, locale := range Locales() {
		texts, err := readTexts(locale, subFolder("texts"), o.Texts)
		if err != nil {
			return nil, fmt.Errorf("pages: %w", err)
		}
		if err := errors.Join(checkTexts(texts, subFolder("templates")), checkTexts(texts, o.Templates)); err != nil {
			return nil, fmt.Errorf("pages in %s: %w", locale, err)
		}
		templates, err := parsePages(p.functions(locale, texts), o.Templates)
		if err != nil {
			return nil, fmt.Errorf("pages in %s: %w", locale, err)
		}
		p.languages[locale] = language{texts: texts, templates: templates}
	}
	return p, nil
}

// Folder returns a folder of what a set of pages embeds.
func Folder(files embed.FS, name string) fs.FS {
	folder, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the name is no path: a mistake in the program
	}
	return folder
}

// subFolder returns a folder of what this package embeds.
func subFolder(name string) fs.FS { return Folder(shared, name) }

// functions are what templates may call beside Go's own.
func (p *Pages) functions(locale string, t texts) template.FuncMap {
	return template.FuncMap{
		"t":     t.text,
		"asset": p.assets.url,
		"lang":  func() string { return locale },
		"when":  func(at time.Time) string { return at.UTC().Format(timeLayout(locale)) },
	}
}

// timeLayout is how a moment is written where no script puts it into the
// visitor's own zone.
func timeLayout(locale string) string {
	if locale == "ru" {
		return "02.01.2006, 15:04 UTC"
	}
	return "2 Jan 2006, 15:04 UTC"
}

// Render answers with a page. Nothing is sent before all of it has been drawn:
// what fails is answered by an error page and logged.
func (p *Pages) Render(w http.ResponseWriter, r *http.Request, status int, name string, page Page) {
	var b bytes.Buffer
	if err := p.draw(&b, r, name, "layout", p.laidOut(r, page)); err != nil {
		p.fail(w, r, fmt.Errorf("drawing the page %s: %w", name, err))
		return
	}
	write(w, status, b.Bytes())
}

// Part answers with one template of a page, for a script that puts it into the
// page on show.
func (p *Pages) Part(w http.ResponseWriter, r *http.Request, name, part string, data any) {
	var b bytes.Buffer
	if err := p.draw(&b, r, name, part, data); err != nil {
		p.fail(w, r, fmt.Errorf("drawing %s of the page %s: %w", part, name, err))
		return
	}
	write(w, http.StatusOK, b.Bytes())
}

func (p *Pages) draw(b *bytes.Buffer, r *http.Request, name, part string, data any) error {
	page, ok := p.language(r).templates[name]
	if !ok {
		return errors.New("there is no such page")
	}
	return page.ExecuteTemplate(b, part, data)
}

func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	id := personal.CallFrom(r.Context()).RequestID
	p.log.ErrorContext(r.Context(), "page failed", "request_id", id, "error", err)
	p.Problem(w, r, Problem{Status: http.StatusInternalServerError})
}

// write sends a page. None is kept by caches: each shows who is signed in.
func write(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that nobody listens any more
}

// language returns that of the request's call, the first on offer if there is
// none.
func (p *Pages) language(r *http.Request) language {
	if l, ok := p.languages[locale(r)]; ok {
		return l
	}
	return p.languages[Locales()[0]]
}

// Text returns a text in the visitor's language. A key without one, which is a
// mistake in the program, stands for itself.
func (p *Pages) Text(r *http.Request, key string, args ...any) string {
	text, err := p.language(r).texts.text(key, args...)
	if err != nil {
		p.log.ErrorContext(r.Context(), "page text", "error", err)
		return key
	}
	return text
}
