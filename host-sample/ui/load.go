package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// texts are the texts of one language by key. A text with arguments is a format of
// package fmt.
type texts map[string]string

func (t texts) text(key string, args ...any) (string, error) {
	text, ok := t[key]
	switch {
	case !ok:
		return "", fmt.Errorf("there is no text %q", key)
	case len(args) > 0:
		return fmt.Sprintf(text, args...), nil
	}
	return text, nil
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

// readTexts reads the texts of a source by locale. It fails if a language lacks a
// text of another one.
func readTexts(source fs.FS) (map[string]texts, error) {
	all := map[string]texts{}
	for _, locale := range Locales() {
		data, err := fs.ReadFile(source, locale+".json")
		if err != nil {
			return nil, fmt.Errorf("reading texts: %w", err)
		}
		var own texts
		if err := json.Unmarshal(data, &own); err != nil {
			return nil, fmt.Errorf("reading texts in %s: %w", locale, err)
		}
		all[locale] = own
	}
	var missing []error
	for locale, own := range all {
		for _, other := range all {
			for key := range other {
				if own[key] == "" {
					missing = append(missing, fmt.Errorf("texts in %s: there is no text %q", locale, key))
				}
			}
		}
	}
	return all, errors.Join(missing...)
}

// parsed returns a parsed template. It parses it at the first call.
type parsed func() (*template.Template, error)

// listPages returns every page by its name, on top of the layout and of the shared
// parts.
func listPages(locale string, t texts, a *assets, own fs.FS) (map[string]parsed, error) {
	sources := []fs.FS{Folder(shared, "templates"), own}
	base := sync.OnceValues(func() (*template.Template, error) {
		base := template.New("base").Funcs(template.FuncMap{
			"t":        t.text,
			"isolated": t.isolated,
			"asset":    a.url,
			"lang":     func() string { return locale },
			"when":     func(at time.Time) string { return at.UTC().Format(timeLayout(locale)) },
		})
		for _, source := range sources {
			if err := parse(base, t, source, "parts/*.html"); err != nil {
				return nil, err
			}
		}
		return base, nil
	})
	pages := map[string]parsed{}
	for _, source := range sources {
		names, err := fs.Glob(source, "*.html")
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
				return page, parse(page, t, source, name)
			})
		}
	}
	return pages, nil
}

// timeLayout is the format of times that no script converts to the visitor's time
// zone.
func timeLayout(locale string) string {
	if locale == "ru" {
		return "02.01.2006, 15:04 UTC"
	}
	return "2 Jan 2006, 15:04 UTC"
}

var textCall = regexp.MustCompile(`\b(?:t|isolated) "([^"]*)"`)

// parse adds files to a template. It fails if they use a text that does not exist.
func parse(to *template.Template, t texts, source fs.FS, pattern string) error {
	names, err := fs.Glob(source, pattern)
	if err != nil {
		return fmt.Errorf("listing templates: %w", err)
	}
	for _, name := range names {
		data, err := fs.ReadFile(source, name)
		if err != nil {
			return fmt.Errorf("reading a template: %w", err)
		}
		for _, call := range textCall.FindAllSubmatch(data, -1) {
			if _, err := t.text(string(call[1])); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
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

type asset struct {
	mediaType string
	data      []byte
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
			a.urls[name], a.files[url] = url, asset{mediaType, data}
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
	_, _ = w.Write(file.data) // an error means that the client is gone
}
