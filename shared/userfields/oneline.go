package userfields

import (
	"maps"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// Clean returns a request's parameters with the texts of one line as they may be stored: the
// parameter "name", and all fields with characters but those of type long_text. It drops soft
// hyphens (U+00AD), which no reader sees. It adds invalid_format to errs for a text with another
// invisible character that changes how the text around it is shown, or that makes two texts look
// alike: see deceptive.
//
// A text equal to the stored one, or to an item of a stored list, is left as it is: imported
// values stay valid. name and stored are those of the account, nil for a
// new one. Clean does not change in.
func (s *Schema) Clean(in map[string]personal.Input, name *string, stored Values, errs *personal.FieldErrors) map[string]personal.Input {
	cleaned := maps.Clone(in)
	for parameter, input := range in {
		f := s.byName[parameter]
		var kept []string
		switch {
		case parameter == "name":
			if name != nil {
				kept = []string{*name}
			}
		case f == nil || !f.kind.Textual || f.Type == personal.TypeLongText:
			continue
		default:
			kept = texts(stored[parameter])
		}
		clean := func(text string) string {
			if slices.Contains(kept, text) {
				return text
			}
			if strings.ContainsFunc(text, deceptive) {
				errs.Add(parameter, personal.FieldErrorInvalidFormat)
			}
			return strings.ReplaceAll(text, "\u00ad", "")
		}
		switch input.Kind {
		case personal.InputText:
			cleaned[parameter] = personal.Text(clean(input.Text))
		case personal.InputList, personal.InputRepeated:
			input.List = slices.Clone(input.List)
			for i, text := range input.List {
				input.List[i] = clean(text)
			}
			cleaned[parameter] = input
		}
	}
	return cleaned
}

// texts returns the texts of a stored value.
func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	}
	return nil
}

// deceptive reports whether a character is one of the controls of the direction of writing, which
// reorder what follows them (U+202A to U+202E, U+2066 to U+2069), or a space or joiner without
// width (U+200B, U+2060, U+FEFF). Marks that scripts and emoji need, such as U+200C to U+200F, are
// not.
func deceptive(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200b' || r == '\u2060' || r == '\ufeff'
}
