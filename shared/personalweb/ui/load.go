package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
)

// Keys of texts for which no other language's text stands.
const (
	ownName    = "own_name" // the language's name in that language; its tag if there is none
	dateLayout = "date"     // how to write a day, in package time's format; as in RFC 3339 if there is none
)

// texts are the texts of one language by key.
type texts localtext.Texts

func (t texts) text(key string, args ...any) (string, error) {
	text, ok := t[key]
	switch {
	case !ok:
		return "", fmt.Errorf("there is no text %q", key)
	case len(args) > 0:
		return text.Format(args...), nil
	}
	return text.String(), nil
}

// isolated returns a text as HTML with texts that users chose, each isolated: their
// direction of writing does not change the order of what is around them.
func (t texts) isolated(key string, users ...string) (template.HTML, error) {
	args := make([]any, len(users))
	for i, user := range users {
		args[i] = "<bdi>" + template.HTMLEscapeString(user) + "</bdi>"
	}
	text, err := t.text(key)
	if err != nil {
		return "", err
	}
	return template.HTML(fmt.Sprintf(template.HTMLEscapeString(text), args...)), nil // both parts are escaped
}

// loadTexts returns the texts in each language: the built-in ones of all sources, of which
// later ones replace those before, and in their place those of the site, which may be nil. For texts
// that a language lacks, which it returns, it has those of another one. The
// error names every text that is unknown, or lacks a placeholder.
func loadTexts(locales []string, site fs.FS, sources ...fs.FS) (_ map[string]texts, missing map[string][]string, err error) {
	read, missing, err := localtext.Source{BuiltIn: sources, Own: site, Needed: locales, Default: locales[0]}.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("texts: %w", err)
	}
	all := map[string]texts{}
	var wrong []error
	known := slices.Concat(locales, personal.Languages())
	for _, locale := range locales {
		all[locale] = texts(read[locale])
		known = append(known, localtext.Parents(locale)...)
		for key, own := range map[string]string{ownName: locale, dateLayout: time.DateOnly} {
			if slices.Contains(missing[locale], key) {
				all[locale][key] = localtext.Plain(own)
			}
		}
		if !all[locale].hasDate() {
			wrong = append(wrong, fmt.Errorf("texts: %s.json: the text %q must have day, month and year of 2006-01-02, such as 02.01.2006", locale, dateLayout))
		}
	}
	for _, locale := range slices.Sorted(maps.Keys(read)) {
		if !slices.Contains(known, locale) {
			wrong = append(wrong, fmt.Errorf("texts: %s.json: the pages are not in this language, but in %s", locale,
				strings.Join(locales, ", ")))
		}
	}
	return all, missing, errors.Join(wrong...)
}

// parsed returns a parsed template. It parses it at the first call.
type parsed func() (*template.Template, error)

// listPages returns every page by its name, on top of the layout and of the shared
// parts. A page of the site replaces that of the same name.
func (p *Pages) listPages(locale string, all map[string]texts) (map[string]parsed, error) {
	t := all[locale]
	sources := []templates{{Folder(shared, "templates"), true}, {p.Templates, true}}
	if p.SiteTemplates != nil {
		sources = append(sources, templates{p.SiteTemplates, false})
	}
	choices := languageButtons(p.Locales, all, locale)
	dir := localtext.Direction(locale)
	base := sync.OnceValues(func() (*template.Template, error) {
		base := template.New("base").Funcs(template.FuncMap{
			"t":        t.text,
			"isolated": t.isolated,
			"asset":    p.assets.url,
			"lang":     func() string { return locale },
			"unbroken": unbroken,
			"choices":  func() template.HTML { return choices },
			"dir":      func() string { return dir },
			"day":      t.day,
			"clock":    func(at time.Time) string { return at.UTC().Format(time.TimeOnly) },
			"when":     func(at time.Time) string { return t.day(at) + at.UTC().Format(", 15:04 UTC") }, // scripts convert it to the visitor's zone
		})
		for _, source := range sources {
			if err := p.parse(base, t, source, "parts/*.html"); err != nil {
				return nil, err
			}
		}
		return base, nil
	})
	pages := map[string]parsed{}
	for _, source := range sources {
		names, err := fs.Glob(source.files, "*.html")
		if err != nil {
			return nil, fmt.Errorf("listing templates: %w", err)
		}
		for _, name := range names {
			pages[strings.TrimSuffix(name, ".html")] = sync.OnceValues(func() (*template.Template, error) {
				layout, err := base()
				if err != nil {
					return nil, err
				}
				page, err := layout.Clone()
				if err != nil {
					return nil, fmt.Errorf("copying the layout: %w", err)
				}
				return page, p.parse(page, t, source, name)
			})
		}
	}
	return pages, nil
}

var unbreakable = regexp.MustCompile(`\b(?:[Ee]-mails?|[Tt]wo-factor)\b|\+\d[\d -]*\d`)

// unbroken returns a text as HTML in which lines do not end within "e-mail", "two-factor" or a
// phone number.
func unbroken(text string) template.HTML {
	text = template.HTMLEscapeString(text)
	if strings.Contains(text, "-mail") || strings.Contains(text, "-factor") || strings.Contains(text, "+") { // few do, and the rest is slower
		text = unbreakable.ReplaceAllString(text, `<span class="unbroken">$0</span>`)
	}
	return template.HTML(text)
}

// hasDate reports whether days, months and years are told apart.
func (t texts) hasDate() bool {
	first := time.Date(2001, 2, 3, 0, 0, 0, 0, time.UTC)
	for _, later := range []time.Time{first.AddDate(1, 0, 0), first.AddDate(0, 1, 0), first.AddDate(0, 0, 1)} {
		if t.day(first) == t.day(later) {
			return false
		}
	}
	return true
}

// day returns a day in UTC.
func (t texts) day(at time.Time) string { return at.UTC().Format(t[dateLayout].String()) }

// languageButtons are the buttons of the language form, each with the name of a language in
// itself. They are made once, because they are on every page.
func languageButtons(locales []string, all map[string]texts, current string) template.HTML {
	var b strings.Builder
	for _, locale := range locales {
		fmt.Fprintf(&b, `<button class="link" name="language" value="%[1]s" lang="%[1]s" aria-pressed="%[2]t">%[3]s</button>`+"\n",
			template.HTMLEscapeString(locale), locale == current, template.HTMLEscapeString(all[locale][ownName].String()))
	}
	return template.HTML(b.String()) // escaped
}

// templates are a folder of templates. Texts of constant ones are written into them when they are
// parsed, because every page has many.
type templates struct {
	files    fs.FS
	constant bool // texts stand only between tags and in quoted attributes
}

var (
	textCall     = regexp.MustCompile(`\b(?:t|isolated) "([^"]*)"`)
	constantCall = regexp.MustCompile(`\{\{(t|asset) "([^"]*)"\}\}`)
)

// parse adds files to a template. It fails if they use a text or an asset that does not exist.
func (p *Pages) parse(to *template.Template, t texts, source templates, pattern string) error {
	names, err := fs.Glob(source.files, pattern)
	if err != nil {
		return fmt.Errorf("listing templates: %w", err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(source.files, name)
		if err != nil {
			return fmt.Errorf("reading a template: %w", err)
		}
		data = bytes.TrimPrefix(data, []byte("\ufeff")) // of an editor
		for _, call := range textCall.FindAllSubmatch(data, -1) {
			if _, err := t.text(string(call[1])); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		var missing error
		data = constantCall.ReplaceAllFunc(data, func(call []byte) []byte {
			parts := constantCall.FindSubmatch(call)
			switch key := string(parts[2]); {
			case string(parts[1]) == "asset":
				url, err := p.assets.url(key)
				missing = errors.Join(missing, err)
				return []byte(url)
			case source.constant && !strings.Contains(t[key].String(), "{{"):
				return []byte(template.HTMLEscapeString(t[key].String()))
			}
			return call
		})
		if missing != nil {
			return fmt.Errorf("%s: %w", name, missing)
		}
		if _, err := to.New(name).Parse(string(data)); err != nil {
			return fmt.Errorf("parsing templates: %w", err)
		}
	}
	return nil
}

// assets are scripts, styles and pictures. Their URLs contain a digest of the
// content, so that browsers may cache them forever.
type assets struct {
	path  string
	urls  map[string]string // by file name
	files map[string]asset  // by URL
}

// asset is a file that its source serves: files of the program are not copied to the heap.
type asset struct {
	mediaType string
	source    fs.FS
	name      string
}

func newAssets(at string, sources ...fs.FS) (*assets, error) {
	// The machine's own table may have other types.
	mediaTypes := map[string]string{
		".css": "text/css; charset=utf-8",
		".js":  "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}
	a := &assets{path: at, urls: map[string]string{}, files: map[string]asset{}}
	for _, source := range sources {
		if source == nil {
			continue
		}
		names, err := fs.Glob(source, "*")
		if err != nil {
			return nil, fmt.Errorf("listing assets: %w", err)
		}
		for _, name := range names {
			data, err := fs.ReadFile(source, name)
			if err != nil {
				return nil, fmt.Errorf("reading an asset: %w", err)
			}
			extension := path.Ext(name)
			mediaType, ok := mediaTypes[extension]
			if !ok {
				return nil, fmt.Errorf("asset %s: unknown media type", name)
			}
			sum := sha256.Sum256(data)
			url := at + strings.TrimSuffix(name, extension) + "." + hex.EncodeToString(sum[:6]) + extension
			a.urls[name], a.files[url] = url, asset{mediaType, source, name}
		}
	}
	return a, nil
}

// url returns the URL of an asset. Rendering a page fails if it uses an asset that
// does not exist.
func (a *assets) url(name string) (string, error) {
	url, ok := a.urls[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return url, nil
}

// ServeHTTP serves an asset. Assets of other builds are not found: their pages
// would not work with other content.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", file.mediaType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, file.source, file.name)
}
