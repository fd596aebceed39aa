package userfields

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// Missing returns the names of the fields that users can set and that have no valid value
// although they need one, in the order in which they are shown: required ones that are
// unset, and those whose stored value the field's rules refuse. Values that Register or
// Update has accepted are valid. It returns nil, and allocates nothing, if there are none.
func (s *Schema) Missing(stored Values) (names []string) {
	for _, f := range s.fields {
		if f.violation(stored) != "" {
			names = append(names, f.Name)
		}
	}
	return names
}

// Violations is [Schema.Missing] with the reasons: required for a field that is unset,
// else why its value is refused.
func (s *Schema) Violations(stored Values) (violations personal.FieldErrors) {
	for _, f := range s.fields {
		if code := f.violation(stored); code != "" {
			violations.Add(f.Name, code)
		}
	}
	return violations
}

// Fill returns the values with the defaults of required fields that users can set and that
// are unset, and whether there were any. It replaces no value, not even an invalid or an
// empty one, and does not change stored.
func (s *Schema) Fill(stored Values) (filled Values, changed bool) {
	for _, f := range s.fields {
		if !f.Required || !f.settable() || stored[f.Name] != nil {
			continue
		}
		preset := normalise(f.Default)
		if preset.IsZero() {
			continue
		}
		value, code := f.read(preset)
		if code != "" {
			continue // Compile has refused such a default
		}
		if !changed {
			filled, changed = maps.Clone(stored), true
			if filled == nil {
				filled = Values{}
			}
		}
		filled[f.Name] = value
	}
	if !changed {
		return stored, false
	}
	return filled, true
}

// violation returns why the value of a field that users can set is missing or refused, or
// "".
func (f *field) violation(stored Values) personal.FieldErrorCode {
	if !f.settable() {
		return ""
	}
	switch v := stored[f.Name].(type) {
	case nil:
		return f.unset()
	case string:
		switch {
		case v == "":
			return f.unset()
		case f.kind.List || f.kind.check == nil:
			return personal.FieldErrorInvalidType
		}
		return f.checkItem(v)
	case []string:
		return f.checkList(v)
	case int64:
		if f.Type == personal.TypeInteger && -maxInteger <= v && v <= maxInteger || f.Type == personal.TypeNumber {
			return f.checkRange(float64(v))
		}
	case float64:
		if f.Type == personal.TypeNumber {
			return f.checkRange(v)
		}
	case bool:
		if f.Type == personal.TypeBoolean {
			return ""
		}
	}
	// A value of another type, or one of those that are rare: read as if a client sent it.
	text, native, ok := literal(stored[f.Name])
	if !ok || f.kind.List || native != f.kind.native {
		return personal.FieldErrorInvalidType
	}
	_, code := f.readOne(text)
	return code
}

func (f *field) unset() personal.FieldErrorCode {
	if f.Required {
		return personal.FieldErrorRequired
	}
	return ""
}

func (f *field) checkList(list []string) personal.FieldErrorCode {
	switch {
	case !f.kind.List:
		return personal.FieldErrorInvalidType
	case len(list) == 0:
		return f.unset()
	case len(list) > f.MaxItems():
		return personal.FieldErrorTooLong
	}
	for _, item := range list {
		if item == "" {
			return personal.FieldErrorTooShort
		}
		if code := f.checkItem(item); code != "" {
			return code
		}
	}
	return ""
}

// checkItem checks a text, or an item of a list.
func (f *field) checkItem(text string) personal.FieldErrorCode {
	if code := f.kind.check(text); code != "" {
		return code
	}
	return f.checkRules(text)
}

// BecomeReadOnly returns the names of the fields that a new schema makes read-only, and that
// visitors see. They keep what is stored, which users may have typed: also values of before a
// field was hidden, or removed.
func BecomeReadOnly(before, after []personal.Field) (names []string) {
	shown := func(f personal.Field) bool { return f.ReadOnly && !f.Hidden }
	for _, f := range after {
		same := func(b personal.Field) bool { return b.Name == f.Name && shown(b) }
		if shown(f) && !slices.ContainsFunc(before, same) {
			names = append(names, f.Name)
		}
	}
	return names
}

// CheckReadOnly returns an error unless a field is in the profiles of users and only administrators
// set it. The fields must be valid: invalid ones are not in force.
func CheckReadOnly(fields []personal.Field, name string) error {
	if _, err := Compile(fields); err != nil {
		return err
	}
	for _, f := range fields {
		if f.Name == name && f.ReadOnly && !f.Hidden {
			return nil
		}
	}
	return fmt.Errorf("the user field %s must be read_only and not hidden: otherwise users could set it themselves", name)
}
