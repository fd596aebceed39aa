package ui

import (
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"strings"
)

// parsePages parses every page on top of the layout and of what its set shares.
func parsePages(functions template.FuncMap, own fs.FS) (map[string]*template.Template, error) {
	base := template.New("base").Funcs(functions)
	sources := []fs.FS{subFolder("templates"), own}
	for _, source := range sources {
		if err := parse(base, source, "parts/*.html"); err != nil {
			return nil, err
		}
	}
	pages := map[string]*template.Template{}
	for _, source := range sources {
		for _, name := range glob(source, "*.html") {
			page, err := base.Clone()
			if err != nil {
				return nil, fmt.Errorf("copying the layout: %w", err)
			}
			if err := parse(page, source, name); err != nil {
				return nil, err
			}
			pages[strings.TrimSuffix(name, ".html")] = page
		}
	}
	return pages, nil
}

// parse adds files to a template.
func parse(to *template.Template, source fs.FS, pattern string) error {
	names := glob(source, pattern)
	if len(names) == 0 {
		return nil
	}
	if _, err := to.ParseFS(source, names...); err != nil {
		return fmt.Errorf("parsing templates: %w", err)
	}
	return nil
}

func glob(source fs.FS, pattern string) []string {
	names, err := fs.Glob(source, pattern)
	if err != nil {
		panic(err) // the pattern is malformed: a mistake in this file
	}
	return names
}

var textCall = regexp.MustCompile(`\bt "([^"]*)"`)

// checkTexts names the texts that templates ask for and that are not there, so
// that no visitor is the first to notice.
func checkTexts(t texts, source fs.FS) error {
	var missing []error
	for _, name := range append(glob(source, "*.html"), glob(source, "parts/*.html")...) {
		template, err := fs.ReadFile(source, name)
		if err != nil {
			return fmt.Errorf("reading a template: %w", err)
		}
		for _, call := range textCall.FindAllSubmatch(template, -1) {
			if _, ok := t[string(call[1])]; !ok {
				missing = append(missing, fmt.Errorf("%s: %w", name, &missingText{key: string(call[1])}))
			}
		}
	}
	return errors.Join(missing...)
}
