package userfields

import (
	"slices"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

const maxNameLength = 200 // characters of an account's display name

// Malformed returns, sorted, the names of inputs that were sent more than once
// although they are scalars: malformed_request in the HTTP contract, section 1.
// Of names outside the schema it knows the operations' own parameters.
func (s *Schema) Malformed(in map[string]personal.Input) []string {
	var names []string
	for name, input := range in {
		f := s.byName[name]
		scalar := isParameter(name) || f != nil && !f.kind.list
		if scalar && input.Kind == personal.InputRepeated {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Register reads the values of a new account: HTTP contract, section 3. Defaults
// stand in for what is not set, whether or not users may set it. Every fault is
// noted at once; the values are of use only if there is none.
//
// The built-in parameters are the caller's, who takes them out first.
func (s *Schema) Register(in map[string]personal.Input, faults *personal.FieldErrors) Values {
	s.refuse(in, faults, (*field).settable, func(string) bool { return false })
	values := Values{}
	for _, f := range s.fields {
		input := f.Default
		if sent := normalise(in[f.Name]); f.settable() && !sent.IsZero() {
			input = sent
		}
		if input = normalise(input); input.IsZero() {
			if f.Required {
				faults.Add(f.Name, personal.FieldErrorRequired)
			}
			continue
		}
		values.set(f, input, faults)
	}
	return values
}

// Update reads a partial change: what was sent and nothing else. An unset value
// clears the field, which is then nil in the result. Every fault is noted at
// once; the values are of use only if there is none.
//
// "name" is the caller's, who takes it out first; login and e-mail are shown in
// a profile but changed elsewhere, so they are read-only here.
func (s *Schema) Update(in map[string]personal.Input, faults *personal.FieldErrors) Values {
	return s.update(in, faults, (*field).settable)
}

// Administer is [Schema.Update] by an administrator, who may set every field.
func (s *Schema) Administer(in map[string]personal.Input, faults *personal.FieldErrors) Values {
	return s.update(in, faults, func(*field) bool { return true })
}

func (s *Schema) update(in map[string]personal.Input, faults *personal.FieldErrors, may func(*field) bool) Values {
	s.refuse(in, faults, may, func(name string) bool { return name == "login" || name == "email" })
	values := Values{}
	for _, f := range s.fields {
		input, sent := in[f.Name]
		if !sent || !may(f) {
			continue
		}
		input = normalise(input)
		switch {
		case !input.IsZero():
			values.set(f, input, faults)
		case f.Required:
			faults.Add(f.Name, personal.FieldErrorRequired)
		default:
			values[f.Name] = nil
		}
	}
	return values
}

// refuse notes the names that may not be sent: fields that may not be set, and
// what is no field. shown tells further names that are shown but not set.
func (s *Schema) refuse(
	in map[string]personal.Input, faults *personal.FieldErrors, may func(*field) bool, shown func(name string) bool,
) {
	for name := range in {
		switch f := s.byName[name]; {
		case f != nil && may(f):
		case f != nil, isSystem(name), shown(name):
			faults.Add(name, personal.FieldErrorReadOnly)
		default:
			faults.Add(name, personal.FieldErrorUnknownField)
		}
	}
}

// settable reports whether users may set the field.
func (f *field) settable() bool { return !f.Hidden && !f.ReadOnly }

func (v Values) set(f *field, in personal.Input, faults *personal.FieldErrors) {
	value, fault := f.read(in)
	if fault != "" {
		faults.Add(f.Name, fault)
		return
	}
	v[f.Name] = value
}

// ParseName reads the built-in parameter "name", the account's display name:
// 1–200 characters without control characters, or nil if it is not set.
func ParseName(in personal.Input, faults *personal.FieldErrors) *string {
	in = normalise(in)
	if in.IsZero() {
		return nil
	}
	if fault := nameFault(in); fault != "" {
		faults.Add("name", fault)
		return nil
	}
	return &in.Text
}

func nameFault(in personal.Input) personal.FieldErrorCode {
	if in.Kind != personal.InputText {
		return personal.FieldErrorInvalidType
	}
	if _, fault := readText(in.Text); fault != "" {
		return fault
	}
	if utf8.RuneCountInString(in.Text) > maxNameLength {
		return personal.FieldErrorTooLong
	}
	return ""
}
