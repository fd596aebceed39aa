package userfields

import (
	"encoding/json"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// Profile returns stored values as a profile's fields: the visible fields in order,
// nil if unset. A stored value of another type than the field's is nil as well: the
// schema has changed since, and clients rely on the type. A value that breaks another
// rule (length, range, pattern) is still shown.
func (s *Schema) Profile(stored Values) []personal.ProfileField {
	return slices.DeleteFunc(s.shown(stored), func(f personal.ProfileField) bool { return s.byName[f.Name].Hidden })
}

// Record is [Schema.Profile] with the hidden fields, and after these the fields of unknown types, for
// administrators.
func (s *Schema) Record(stored Values) []personal.ProfileField {
	fields := s.shown(stored)
	for _, f := range s.later {
		fields = append(fields, personal.ProfileField{Name: f.Name, Value: asText(stored[f.Name])})
	}
	return fields
}

func (s *Schema) shown(stored Values) []personal.ProfileField {
	fields := make([]personal.ProfileField, 0, len(s.fields)+len(s.later))
	for _, f := range s.fields {
		fields = append(fields, personal.ProfileField{Name: f.Name, Value: f.show(stored[f.Name])})
	}
	return fields
}

// asText returns a stored value of any kind as a text, what is no text as JSON; nil if it is unset.
func asText(stored any) any {
	if stored == nil {
		return nil
	}
	if text, _, ok := literal(stored); ok {
		return text
	}
	data, _ := json.Marshal(stored) // a list of texts: it cannot fail
	return string(data)
}

// show returns a stored value if it has the field's type, or nil.
func (f *field) show(stored any) any {
	if list, ok := stored.([]string); ok {
		if !f.kind.List || slices.ContainsFunc(list, func(item string) bool { _, code := f.kind.read(item); return code != "" }) {
			return nil
		}
		return list
	}
	text, native, ok := literal(stored)
	if !ok || f.kind.List || native != f.kind.native {
		return nil
	}
	v, code := f.kind.read(text)
	if code != "" {
		return nil
	}
	return v
}
