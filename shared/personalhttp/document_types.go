package personalhttp

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// labelled describes the type of a user field's value, labels in the caller's
// language.
func labelled(f personal.Field, l *labels) *openapi.Schema {
	s := typeSchema(f.Type)
	s.Description = l.choose(f.Label, f.Name)
	var options []string
	for _, o := range f.Options {
		s.Enum = append(s.Enum, o.Value)
		options = append(options, fmt.Sprintf("`%s`: %s", o.Value, l.choose(o.Label, o.Value)))
	}
	if len(options) > 0 {
		s.Description += "\n" + strings.Join(options, "\n")
	}
	return s
}

// typeSchema describes the type that a value has in JSON: HTTP contract, section
// 4. A type that a newer module made up is any.
func typeSchema(t personal.FieldType) *openapi.Schema {
	plain := func(name, format string) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{name}, Format: format}
	}
	switch t {
	case personal.TypeText, personal.TypeLongText, personal.TypeEnum, personal.TypeFile, personal.TypeLink:
		return plain("string", "")
	case personal.TypeDate:
		return plain("string", "date")
	case personal.TypeDateTime:
		return plain("string", "date-time")
	case personal.TypeBoolean:
		return plain("boolean", "")
	case personal.TypeNumber:
		return plain("number", "")
	case personal.TypeInteger:
		s := plain("integer", "")
		s.Minimum, s.Maximum = bound(-maxUserID), bound(maxUserID) // what JSON keeps exactly
		return s
	case personal.TypeLinkSet, personal.TypeTags:
		return listOf(plain("string", ""))
	}
	return &openapi.Schema{}
}

// restricted adds the rules for new values of a field.
func restricted(s *openapi.Schema, f personal.Field) *openapi.Schema {
	s.Minimum, s.Maximum = cmp.Or(f.Min, s.Minimum), cmp.Or(f.Max, s.Maximum)
	item := s
	if s.Items != nil {
		item = s.Items
		item.MinLength = 1
	}
	item.MaxLength, item.Pattern = f.MaxLengthInForce(), wholePattern(f.Pattern)
	s.MaxItems = f.MaxItems()
	switch {
	case !f.Required:
	case s.Items != nil:
		s.MinItems = 1
	case f.Type != personal.TypeEnum && slices.Contains(s.Type, "string"):
		s.MinLength = 1
	}
	return s
}

// common matches patterns that mean the same in RE2, which the user-field schema
// speaks, and in ECMA-262, which JSON Schema does: plain characters, groups,
// classes without further classes in them, repetitions, and the escapes that
// both know.
var common = regexp.MustCompile(`^(?:[^\\\[\]{}]|\\[dDwWtnr.*+?()\[\]{}|^$/\\]|\[\^?(?:[^\\\[\]]|\\[dDwWtnr.*+?()\[\]{}|^$/\\-])+\]|\{[0-9]+(?:,[0-9]*)?\})*$`)

// wholePattern returns a field's pattern as JSON Schema has it, empty where it
// cannot be said there: fields/ tells it as it is.
func wholePattern(re2 string) string {
	flagged := strings.Contains(strings.ReplaceAll(re2, "(?:", "("), "(?")
	if re2 == "" || flagged || !common.MatchString(re2) {
		return ""
	}
	return "^(?:" + re2 + ")$"
}
