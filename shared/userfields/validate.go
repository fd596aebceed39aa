package userfields

import (
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

const maxNameLength = 200 // characters of an account's display name

// The limits of unknown names (HTTP contract, section 1).
const (
	maxUnknown      = 50      // names that get an error
	maxUnknownBytes = 4 << 10 // of these, as JSON writes them
)

// Check returns the error of a request that is refused as a whole (HTTP contract, section
// 1): too_large for an unknown name of more than 64 characters, or malformed_request for a
// scalar that was sent more than once, a field of the schema or an operation's own
// parameter.
func (s *Schema) Check(in map[string]personal.Input) error {
	repeated := false
	for name, input := range in {
		f := s.byName[name]
		parameter := personal.IsParameter(name)
		if f == nil && !parameter && utf8.RuneCountInString(name) > personal.MaxUnknownName {
			return personal.NewError(personal.CodeTooLarge, errors.New("the name of an unknown parameter is too long"))
		}
		scalar := parameter || f != nil && f.Type.Known() && !f.kind.List
		repeated = repeated || scalar && input.Kind == personal.InputRepeated
	}
	if repeated {
		return personal.NewError(personal.CodeMalformedRequest, errors.New("a parameter that is not a list was repeated"))
	}
	return nil
}

// Register returns the values of a new account (HTTP contract, section 3). A default
// replaces an unset value, also in fields that users may not set. It adds all errors
// to errs; the values are valid only if there are none.
//
// The caller removes the operation's own parameters from in.
func (s *Schema) Register(in map[string]personal.Input, errs *personal.FieldErrors) Values {
	s.checkNames(in, errs, (*field).settable)
	values := Values{}
	for _, f := range s.fields {
		input := f.Default
		if sent := normalise(in[f.Name]); f.settable() && !sent.IsZero() {
			input = sent
		}
		if input = normalise(input); !input.IsZero() {
			values.set(f, input, errs)
		} else if f.Required {
			errs.Add(f.Name, personal.FieldErrorRequired)
		}
	}
	return values
}

// Create is [Schema.Register] for an administrator, who may set every field and leave a
// required one to the user.
func (s *Schema) Create(in map[string]personal.Input, errs *personal.FieldErrors) Values {
	s.checkNames(in, errs, func(*field) bool { return true })
	values := Values{}
	for _, f := range s.fields {
		input := normalise(in[f.Name])
		if input.IsZero() {
			input = normalise(f.Default)
		}
		if !input.IsZero() {
			values.set(f, input, errs)
		}
	}
	return values
}

// Update returns the values of the fields that were sent. An unset input clears its
// field, whose value is then nil. It adds all errors to errs; the values are valid
// only if there are none.
//
// The caller removes "name" from in. The login and the e-mail are part of a profile
// and read-only here, because other operations change them.
func (s *Schema) Update(in map[string]personal.Input, errs *personal.FieldErrors) Values {
	return s.update(in, errs, (*field).settable)
}

// Administer is [Schema.Update] for an administrator, who may set every field.
func (s *Schema) Administer(in map[string]personal.Input, errs *personal.FieldErrors) Values {
	return s.update(in, errs, func(*field) bool { return true })
}

func (s *Schema) update(in map[string]personal.Input, errs *personal.FieldErrors, settable func(*field) bool) Values {
	s.checkNames(in, errs, settable, "login", "email")
	values := Values{}
	for _, f := range s.fields {
		input, sent := in[f.Name]
		if !sent || !settable(f) {
			continue
		}
		input = normalise(input)
		switch {
		case !input.IsZero():
			values.set(f, input, errs)
		case f.Required:
			errs.Add(f.Name, personal.FieldErrorRequired)
		default:
			values[f.Name] = nil
		}
	}
	return values
}

// Has reports whether the schema has a field of that name.
func (s *Schema) Has(name string) bool { return s.byName[name] != nil }

// Comparable reads a text as a value of an enum, a boolean or an integer, for a comparison with
// stored ones: limits of numbers do not matter. It returns false for other fields.
func (s *Schema) Comparable(name, text string) (value any, code personal.FieldErrorCode, ok bool) {
	f := s.byName[name]
	if f == nil {
		return nil, "", false
	}
	switch f.Type {
	case personal.TypeEnum, personal.TypeBoolean, personal.TypeInteger:
	default:
		return nil, "", false
	}
	if text == "" {
		return nil, personal.FieldErrorRequired, true
	}
	value, code = f.kind.read(text)
	return value, code, true
}

// checkNames adds an error for each name that may not be sent: read_only for fields
// that are not settable, system names and the names in readOnly, unknown_field for the
// first of all others.
func (s *Schema) checkNames(in map[string]personal.Input, errs *personal.FieldErrors, settable func(*field) bool, readOnly ...string) {
	var unknown []string
	for name := range in {
		switch f := s.byName[name]; {
		case f != nil && f.Type.Known() && settable(f):
		case f != nil, slices.Contains(systemNames, name), slices.Contains(readOnly, name):
			errs.Add(name, personal.FieldErrorReadOnly)
		default:
			unknown = append(unknown, name)
		}
	}
	for _, name := range reported(unknown) {
		errs.Add(name, personal.FieldErrorUnknownField)
	}
}

// reported returns those of the unknown names that get an error, in alphabetical order: a
// response must not grow with what a caller invents. At least one is reported.
func reported(unknown []string) []string {
	slices.Sort(unknown)
	size := 0
	for i, name := range unknown {
		written, _ := json.Marshal(name) // a string: it cannot fail
		if size += len(written); i > 0 && (i == maxUnknown || size > maxUnknownBytes) {
			return unknown[:i]
		}
	}
	return unknown
}

// settable reports whether users may set the field.
func (f *field) settable() bool { return !f.Hidden && !f.ReadOnly }

func (v Values) set(f *field, in personal.Input, errs *personal.FieldErrors) {
	value, code := f.read(in)
	if code != "" {
		errs.Add(f.Name, code)
		return
	}
	v[f.Name] = value
}

// ParseName reads the parameter "name", the account's display name: 1 to 200
// characters without control characters. It returns nil if the name is unset, or
// invalid, which it adds to errs.
func ParseName(in personal.Input, errs *personal.FieldErrors) *string {
	in = normalise(in)
	if in.IsZero() {
		return nil
	}
	code := checkText(in.Text)
	switch {
	case in.Kind != personal.InputText:
		code = personal.FieldErrorInvalidType
	case code == "" && utf8.RuneCountInString(in.Text) > maxNameLength:
		code = personal.FieldErrorTooLong
	}
	if code != "" {
		errs.Add("name", code)
		return nil
	}
	return &in.Text
}

// read returns a value that is set as one of the field's type, or an error code.
func (f *field) read(in personal.Input) (any, personal.FieldErrorCode) {
	if f.kind.List {
		return f.readList(in)
	}
	if in.Kind != personal.InputText && in.Kind != f.kind.native {
		return nil, personal.FieldErrorInvalidType
	}
	return f.readOne(in.Text)
}

func (f *field) readList(in personal.Input) (any, personal.FieldErrorCode) {
	texts := in.List
	switch in.Kind {
	case personal.InputText:
		texts = []string{in.Text}
	case personal.InputList, personal.InputRepeated:
	default:
		return nil, personal.FieldErrorInvalidType
	}
	if len(texts) > f.MaxItems() {
		return nil, personal.FieldErrorTooLong
	}
	list := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for _, text := range texts {
		if text == "" {
			return nil, personal.FieldErrorTooShort
		}
		if _, code := f.readOne(text); code != "" {
			return nil, code
		}
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	if len(list) == 0 && f.Required {
		return nil, personal.FieldErrorRequired
	}
	return list, ""
}

// readOne reads a scalar or an item of a list, and applies the field's rules.
func (f *field) readOne(text string) (any, personal.FieldErrorCode) {
	v, code := f.kind.read(text)
	if code != "" {
		return nil, code
	}
	switch v := v.(type) {
	case int64:
		code = f.checkRange(float64(v)) // exact up to 2^53
	case float64:
		code = f.checkRange(v)
	case string:
		code = f.checkRules(v)
	}
	if code != "" {
		return nil, code
	}
	return v, ""
}

func (f *field) checkRange(n float64) personal.FieldErrorCode {
	if f.Min != nil && n < *f.Min || f.Max != nil && n > *f.Max {
		return personal.FieldErrorOutOfRange
	}
	return ""
}

func (f *field) checkRules(s string) personal.FieldErrorCode {
	if limit := f.EffectiveMaxLength(); limit > 0 && utf8.RuneCountInString(s) > limit {
		return personal.FieldErrorTooLong
	}
	if f.pattern != nil && !f.pattern.MatchString(s) {
		return personal.FieldErrorInvalidFormat
	}
	return ""
}

// normalise removes empty texts, which mean "not set" in forms. A repeated name with
// empty values only is unset too.
func normalise(in personal.Input) personal.Input {
	switch in.Kind {
	case personal.InputText:
		return personal.Text(in.Text)
	case personal.InputRepeated:
		items := slices.DeleteFunc(slices.Clone(in.List), func(s string) bool { return s == "" })
		if len(items) == 0 {
			return personal.Input{}
		}
		return personal.Input{Kind: personal.InputRepeated, List: items}
	}
	return in
}
