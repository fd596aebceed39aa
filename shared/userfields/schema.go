package userfields

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// Schema is a checked set of fields. Its methods are safe for concurrent use.
type Schema struct {
	fields []*field // in the order they are shown
	byName map[string]*field
}

// field is a field with what its checks need.
type field struct {
	personal.Field
	kind    kind
	pattern *regexp.Regexp // nil if none
}

// SchemaError says why a schema is refused.
type SchemaError struct {
	Field    string // the field's name, or its position from 1 as "#1"; empty if the whole is at fault
	Property string // the field's, by its name in JSON, "max_length" say; empty if no single one is at fault
	Problem  string
}

// Error names the field and the reason.
func (e *SchemaError) Error() string {
	if e.Field == "" {
		return "user fields: " + e.Problem
	}
	return fmt.Sprintf("user field %s: %s", e.Field, e.Problem)
}

// Compile checks a schema's fields and prepares them: HTTP contract, section 4.
// The error is a [*SchemaError] for the first field at fault. The fields must
// not be changed afterwards.
func Compile(fields []personal.Field) (*Schema, error) {
	s := &Schema{byName: make(map[string]*field, len(fields))}
	for i, f := range fields {
		compiled, fault := compile(f)
		if fault == nil && s.byName[f.Name] != nil {
			fault = at("name", "the name is given twice")
		}
		if fault != nil {
			return nil, &SchemaError{Field: title(f, i), Property: fault.property, Problem: fault.problem}
		}
		s.fields = append(s.fields, compiled)
		s.byName[f.Name] = compiled
	}
	slices.SortStableFunc(s.fields, func(a, b *field) int { return cmp.Compare(a.Order, b.Order) })
	return s, nil
}

// title names a field in an error.
func title(f personal.Field, i int) string {
	if f.Name == "" {
		return fmt.Sprintf("#%d", i+1)
	}
	return f.Name
}

// Fields returns every field, hidden ones too, in the order they are shown.
func (s *Schema) Fields() []personal.Field {
	return s.list(func(*field) bool { return true })
}

// Visible returns the fields that are not hidden, in the order they are shown.
func (s *Schema) Visible() []personal.Field {
	return s.list(func(f *field) bool { return !f.Hidden })
}

func (s *Schema) list(want func(*field) bool) []personal.Field {
	list := make([]personal.Field, 0, len(s.fields))
	for _, f := range s.fields {
		if want(f) {
			list = append(list, f.Field)
		}
	}
	return list
}
