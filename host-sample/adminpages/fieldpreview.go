package adminpages

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// preview is the form that visitors of a language see.
type preview struct {
	Locale   string
	Language string // its own name
	Controls []ui.Control
}

// previews draws the form of a schema in every language.
func (s *site) previews(r *http.Request, fields []personal.Field) []preview {
	var all []preview
	for _, locale := range ui.Locales() {
		visitor := inLanguage(r, locale)
		p := preview{Locale: locale, Language: languageName(locale)}
		labels := s.API.Labels(visitor)
		for _, f := range fields {
			if f.Hidden {
				continue
			}
			c := s.pages.FieldControl(visitor, f, labels, ui.FieldDefault(f))
			c.Name = "preview_" + locale + "_" + c.Name // of two on a page
			c.Autocomplete = ""                         // nobody's data belongs here
			p.Controls = append(p.Controls, c)
		}
		all = append(all, p)
	}
	return all
}

// languageName returns what a language calls itself, or its tag.
func languageName(tag string) string {
	switch tag {
	case "en":
		return "English"
	case "ru":
		return "Русский"
	}
	return tag
}
