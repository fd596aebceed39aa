// Package userfields turns a host's user-field schema into checks, and what
// callers send into typed values (HTTP contract, section 4).
//
// A schema is compiled once ([Compile], [ParseJSON]) and is then safe for
// concurrent use. Hosts use the same package to reject an invalid schema before they
// apply it.
package userfields

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// systemNames are the names of values that only the system sets (HTTP contract,
// section 3, register). A parameter with such a name is read-only instead of unknown:
// a caller must not believe that they have set their groups.
var systemNames = []string{"id", "user_id", "user_hash", "login_key", "groups", "roles", "disabled", "created", "updated", "token"}

var (
	snakeCase = regexp.MustCompile(`\A[a-z][a-z0-9]*(_[a-z0-9]+)*\z`)
	lowerKey  = regexp.MustCompile(`\A[a-z_]+\z`)

	// languageTag is the form of a BCP 47 tag. It does not check that subtags are
	// registered.
	languageTag = regexp.MustCompile(`\A[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*\z`)
)

// Schema is a checked set of fields. Its methods are safe for concurrent use.
//
// A field of a type that this version does not know is one of a later version. Its values are kept and, in
// [Schema.Record], passed on as texts; it is in no form and no profile, and can be set by no one.
type Schema struct {
	fields []*field // those of known types, in the order in which they are shown
	later  []*field // those of unknown types, which have no kind
	byName map[string]*field
}

// field is a field with what its checks need.
type field struct {
	personal.Field
	kind    kind
	pattern *regexp.Regexp // nil if none
}

// SchemaError says why a schema is invalid.
type SchemaError struct {
	Field    string // the field's name, or its position from 1 as "#1"; empty if the error is not in one field
	Property string // the property's name in JSON, such as "max_length"; empty if the error is not in one property
	Problem  string
	Line     int // of the field, or of the property, in the file that [ParseJSON] has read, from 1; 0 if Problem says it, or there is no file
}

// Error names the field and the problem.
func (e *SchemaError) Error() string {
	if e.Field == "" {
		return "user fields: " + e.Problem
	}
	return fmt.Sprintf("user field %s: %s", e.Field, e.Problem)
}

// Compile checks and prepares a schema's fields (HTTP contract, section 4). It returns
// a [*SchemaError] for the first invalid field. It accepts types that this version does not know;
// [ParseJSON] does not. The fields must not be changed afterwards.
func Compile(fields []personal.Field) (*Schema, error) {
	s := &Schema{byName: make(map[string]*field, len(fields))}
	for i, f := range fields {
		compiled, err := compile(f)
		if err == nil && s.byName[f.Name] != nil {
			err = invalid("name", "the name is used twice")
		}
		if err != nil {
			err.Field = title(f, i)
			return nil, err
		}
		if s.byName[f.Name] = compiled; f.Type.Known() {
			s.fields = append(s.fields, compiled)
		} else {
			s.later = append(s.later, compiled)
		}
	}
	slices.SortStableFunc(s.fields, func(a, b *field) int { return cmp.Compare(a.Order, b.Order) })
	return s, nil
}

// title returns how an error refers to a field.
func title(f personal.Field, i int) string {
	if f.Name == "" {
		return fmt.Sprintf("#%d", i+1)
	}
	return f.Name
}

// Fields returns every field of a known type, including hidden ones, in the order in which they are
// shown.
func (s *Schema) Fields() []personal.Field {
	list := make([]personal.Field, 0, len(s.fields))
	for _, f := range s.fields {
		list = append(list, f.Field)
	}
	return list
}

// Later returns the names of the fields of unknown types.
func (s *Schema) Later() (names []string) {
	for _, f := range s.later {
		names = append(names, f.Name)
	}
	return names
}

// Visible returns the fields that are not hidden, in the order in which they are
// shown.
func (s *Schema) Visible() []personal.Field {
	return slices.DeleteFunc(s.Fields(), func(f personal.Field) bool { return f.Hidden })
}

// invalid returns an error for a property of a field. The caller adds the field.
func invalid(property, format string, args ...any) *SchemaError {
	return &SchemaError{Property: property, Problem: fmt.Sprintf(format, args...)}
}

// compile checks one field.
func compile(f personal.Field) (*field, *SchemaError) {
	k, known := kindOf(f)
	switch {
	case f.Name == "":
		return nil, invalid("name", "it has no name")
	case !snakeCase.MatchString(f.Name):
		return nil, invalid("name", "the name is not in lower snake case")
	case f.Name == "roles":
		return nil, invalid("name", "the name is a system name; for roles use an enum field \"role\": docs/roles.md")
	case slices.Contains(systemNames, f.Name):
		return nil, invalid("name", "the name is a system name")
	case personal.IsParameter(f.Name):
		return nil, invalid("name", "the name is that of a parameter")
	case f.Type == "":
		return nil, invalid("type", "it has no type")
	case !known:
		return &field{Field: f}, nil
	}
	for _, check := range []func(personal.Field, kind) *SchemaError{checkRules, checkOptions, checkTexts} {
		if err := check(f, k); err != nil {
			return nil, err
		}
	}
	compiled := &field{Field: f, kind: k}
	var err error
	if compiled.pattern, err = wholeMatch(f.Pattern); err != nil {
		return nil, invalid("pattern", "bad pattern: %v", err)
	}
	if preset := normalise(f.Default); !preset.IsZero() {
		if _, code := compiled.read(preset); code != "" {
			return nil, invalid("default", "the field's own rules refuse its default: %s", code)
		}
	}
	return compiled, nil
}

func checkRules(f personal.Field, k kind) *SchemaError {
	switch {
	case f.Required && f.ReadOnly:
		return invalid("required", "required together with read_only: users could not fill it in")
	case f.Required && f.Hidden:
		return invalid("required", "required together with hidden: users could not fill it in")
	case !k.Ranged && f.Min != nil:
		return invalid("min", "type %s has no min and max", f.Type)
	case !k.Ranged && f.Max != nil:
		return invalid("max", "type %s has no min and max", f.Type)
	case !k.Textual && f.Pattern != "":
		return invalid("pattern", "type %s has no pattern", f.Type)
	case !k.Textual && f.MaxLength != 0:
		return invalid("max_length", "type %s has no max_length", f.Type)
	case f.MaxLength < 0:
		return invalid("max_length", "max_length is negative")
	case !finite(f.Min):
		return invalid("min", "min and max must be finite")
	case !finite(f.Max):
		return invalid("max", "min and max must be finite")
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		return invalid("min", "min is above max")
	}
	return nil
}

func finite(limit *float64) bool {
	return limit == nil || !math.IsNaN(*limit) && !math.IsInf(*limit, 0)
}

func checkOptions(f personal.Field, _ kind) *SchemaError {
	isEnum := f.Type == personal.TypeEnum
	switch {
	case isEnum && len(f.Options) == 0:
		return invalid("options", "an enum needs options")
	case !isEnum && len(f.Options) > 0:
		return invalid("options", "type %s has no options", f.Type)
	}
	seen := make(map[string]bool, len(f.Options))
	for _, o := range f.Options {
		switch code := checkText(o.Value); {
		case o.Value == "":
			return invalid("options", "an option has no value")
		case code != "":
			return invalid("options", "option %q is not plain text", o.Value)
		case seen[o.Value]:
			return invalid("options", "option %q is given twice", o.Value)
		}
		seen[o.Value] = true
	}
	return nil
}

// checkTexts checks the languages of the texts.
func checkTexts(f personal.Field, _ kind) *SchemaError {
	for _, t := range []struct {
		property string
		text     personal.LocalText
	}{{"label", f.Label}, {"hint", f.Hint}, {"pattern_message", f.PatternMessage}} {
		if err := checkLocalText(t.property, t.property, t.text); err != nil {
			return err
		}
	}
	for _, o := range f.Options {
		if err := checkLocalText("options", "label", o.Label); err != nil {
			return err
		}
	}
	return nil
}

// checkLocalText checks the languages of a text with this key, which is a property or a part
// of one.
func checkLocalText(property, key string, text personal.LocalText) *SchemaError {
	for tag := range text {
		if !languageTag.MatchString(tag) {
			return invalid(property, "%s: %q is not a language tag", key, tag)
		}
	}
	return nil
}

// wholeMatch compiles a pattern so that it must match the whole value. The pattern
// must be valid on its own too: "a)(b" would be valid only when wrapped.
func wholeMatch(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}
