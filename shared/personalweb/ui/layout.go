package ui

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// Content is a page for the layout of a site.
type Content struct {
	Lang  string             // BCP 47 tag of the page's language
	Dir   string             // the direction in which it is written: ltr or rtl
	Title template.HTML      // without the site's name
	Head  template.HTML      // elements for <head>: style sheet and scripts
	Body  template.HTML      // the page: an element with the class personal
	User  *personalhttp.User // the visitor; nil if they are not signed in, or it is unknown
	Path  string             // of the page
}

// ContentOf returns what the layout needs for a page of the site itself: the language, path and user of
// the request. The page's own blocks replace title, head and body.
func ContentOf(r *http.Request) Content {
	language := personal.CallFrom(r.Context()).Locale
	c := Content{Lang: language, Dir: localtext.Direction(language), Path: r.URL.Path}
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		c.User = &user
	}
	return c
}

// Layout writes a page in the layout of a site. After an error, visitors get a plain
// error message instead.
type Layout func(w io.Writer, r *http.Request, c Content) error

// TemplateLayout returns the layout of a template of a site, which gets a [Content]. The
// template calls the blocks "title" and "head" in its <head>, and "body" in its <body>:
//
//	{{block "body" .}}{{end}}
//
// The error names a block that is missing. Pages of the site can define the same blocks.
func TemplateLayout(t *template.Template) (Layout, error) {
	var missing []error
	own, err := t.Clone()
	if err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	for name, text := range map[string]string{"title": "{{.Title}}", "head": "{{.Head}}", "body": "{{.Body}}"} {
		if own.Lookup(name) == nil {
			missing = append(missing, fmt.Errorf(`layout: it has no block %[1]q: write {{block %[1]q .}}{{end}} where it belongs`, name))
			continue
		}
		if _, err := own.New(name).Parse(text); err != nil {
			return nil, fmt.Errorf("layout: %w", err)
		}
	}
	if err := errors.Join(missing...); err != nil {
		return nil, err
	}
	return func(w io.Writer, _ *http.Request, c Content) error { return own.Execute(w, c) }, nil
}

// laidOut is a page for the templates of this package.
type laidOut struct {
	Page
	Path         string // of the page, with its query unless that is long: a change of language returns there
	LanguagePath string
	Style        string
	at           string
}

// maxReturn bounds laidOut.Path with a query, in bytes.
const maxReturn = 1 << 10

// Here reports whether a link leads to the current page.
func (l laidOut) Here(link Link) bool { return link.Path == l.at }

// Within reports whether the current page is below a link.
func (l laidOut) Within(link Link) bool {
	return link.Path == l.at || link.Path != "/" && strings.HasPrefix(l.at, link.Path+"/")
}

// Current returns the aria-current of a link of SubNav: "page" if it leads to the current page,
// "true" if it leads to a section of it and none leads closer; else "".
func (l laidOut) Current(link Link) string {
	if l.Here(link) {
		return "page"
	}
	closer := func(other Link) bool { return l.Within(other) && len(other.Path) > len(link.Path) }
	if !l.Within(link) || slices.ContainsFunc(l.SubNav, closer) {
		return ""
	}
	return "true"
}

// layOut writes a page in its layout.
func (p *Pages) layOut(b *bytes.Buffer, t *template.Template, r *http.Request, page Page) error {
	l := laidOut{Page: page, Path: personalweb.LocalPath(r.URL.RequestURI(), "/"), LanguagePath: p.LanguagePath, Style: p.Style, at: r.URL.Path}
	if page.Below != "" {
		l.at = page.Below + "/"
	}
	if len(l.Path) > maxReturn {
		l.Path = personalweb.LocalPath(r.URL.EscapedPath(), "/")
	}
	if p.Layout == nil {
		return t.ExecuteTemplate(b, "layout", l)
	}
	var err error
	part := func(name string, data any) template.HTML {
		var text strings.Builder
		err = errors.Join(err, t.ExecuteTemplate(&text, name, data))
		return template.HTML(text.String()) // a template has escaped it
	}
	c := Content{
		Lang: p.locale(r), Dir: p.language(r).direction, Title: part("title", page.Body), Head: part("links", l), Body: part("embedded", l),
		Path: l.Path,
	}
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		c.User = &user
	}
	if err != nil {
		return err
	}
	return p.Layout(b, r, c)
}
