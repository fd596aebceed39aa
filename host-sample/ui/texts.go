package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
)

// Locales are the languages on offer. The first stands in for all others.
func Locales() []string { return []string{"en", "ru"} }

// locale returns the language of the request's call.
func locale(r *http.Request) string { return personal.CallFrom(r.Context()).Locale }

// texts are those of one language by their keys. One that takes arguments is a
// format of package fmt.
type texts map[string]string

// missingText says that a text was asked for that there is none of.
type missingText struct{ key string }

func (e *missingText) Error() string { return fmt.Sprintf("there is no text %q", e.key) }

func (t texts) text(key string, args ...any) (string, error) {
	text, ok := t[key]
	switch {
	case !ok:
		return "", &missingText{key: key}
	case len(args) > 0:
		return fmt.Sprintf(text, args...), nil
	}
	return text, nil
}

// readTexts reads a language's texts from every source; later ones replace
// earlier ones.
func readTexts(locale string, sources ...fs.FS) (texts, error) {
	all := texts{}
	for _, source := range sources {
		own, err := readCatalogue(source, locale)
		if err != nil {
			return nil, err
		}
		other, err := readCatalogue(source, Locales()[0])
		if err != nil {
			return nil, err
		}
		if err := sameKeys(own, other); err != nil {
			return nil, fmt.Errorf("texts in %s and %s: %w", locale, Locales()[0], err)
		}
		maps.Copy(all, own)
	}
	return all, nil
}

func readCatalogue(source fs.FS, locale string) (texts, error) {
	data, err := fs.ReadFile(source, locale+".json")
	if err != nil {
		return nil, fmt.Errorf("reading texts: %w", err)
	}
	var t texts
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("reading texts in %s: %w", locale, err)
	}
	return t, nil
}

func sameKeys(one, other texts) error {
	var missing []error
	for key := range one {
		if _, ok := other[key]; !ok {
			missing = append(missing, &missingText{key: key})
		}
	}
	for key := range other {
		if one[key] == "" {
			missing = append(missing, &missingText{key: key})
		}
	}
	return errors.Join(missing...)
}
