package userfields

import (
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// Profile returns stored values as a profile's fields: the visible fields in order,
// nil if unset. A stored value of another type than the field's is nil as well: the
// schema has changed since, and clients rely on the type. A value that breaks another
// rule (length, range, pattern) is still shown.
func (s *Schema) Profile(stored Values) []personal.ProfileField {
	return slices.DeleteFunc(s.Record(stored), func(f personal.ProfileField) bool { return s.byName[f.Name].Hidden })
}

// Record is [Schema.Profile] with the hidden fields, for administrators.
func (s *Schema) Record(stored Values) []personal.ProfileField {
	fields := make([]personal.ProfileField, 0, len(s.fields))
	for _, f := range s.fields {
		fields = append(fields, personal.ProfileField{Name: f.Name, Value: f.show(stored[f.Name])})
	}
	return fields
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
