package userfields

import (
	"encoding/json"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
)

// Profile turns stored values into a profile's fields: the visible ones, in
// order, nil where unset. A stored value that is not of the field's type shows
// as nil: the schema has changed since, and a client relies on the type. Rules
// that were tightened since (length, range, pattern) hide nothing.
func (s *Schema) Profile(stored Values) []personal.ProfileField {
	return s.show(stored, func(f *field) bool { return !f.Hidden })
}

// Record is [Schema.Profile] with the hidden fields too, for an administrator.
func (s *Schema) Record(stored Values) []personal.ProfileField {
	return s.show(stored, func(*field) bool { return true })
}

func (s *Schema) show(stored Values, want func(*field) bool) []personal.ProfileField {
	fields := make([]personal.ProfileField, 0, len(s.fields))
	for _, f := range s.fields {
		if want(f) {
			fields = append(fields, personal.ProfileField{Name: f.Name, Value: f.show(stored[f.Name])})
		}
	}
	return fields
}

// show returns a stored value if it is of the field's type, else nil.
func (f *field) show(stored any) any {
	if list, ok := stored.([]string); ok {
		if f.kind.list && f.allRead(list) {
			return list
		}
		return nil
	}
	text, native, ok := literal(stored)
	if !ok || f.kind.list || native != f.kind.native {
		return nil
	}
	v, fault := f.kind.read(text)
	if fault != "" {
		return nil
	}
	return v
}

func (f *field) allRead(list []string) bool {
	for _, item := range list {
		if _, fault := f.kind.read(item); fault != "" {
			return false
		}
	}
	return true
}

// literal returns a stored scalar as it would be sent, and the native kind of
// the types that keep such values. A database may have rewritten 42.0 as 42, so
// both kinds of number are read alike.
func literal(stored any) (text string, native personal.InputKind, ok bool) {
	switch v := stored.(type) {
	case string:
		return v, personal.InputUnset, true
	case bool:
		return strconv.FormatBool(v), personal.InputBoolean, true
	case int64:
		return strconv.FormatInt(v, 10), personal.InputNumber, true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), personal.InputNumber, true
	case json.RawMessage: // an integer too large for an int64
		return string(v), personal.InputNumber, true
	}
	return "", personal.InputUnset, false
}
