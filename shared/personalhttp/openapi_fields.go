package personalhttp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// schema is a JSON Schema, draft 2020-12.
type schema map[string]any

// withParameters returns a schema of parameters with the user fields that may be
// sent. At registration a default stands in for a required field; elsewhere a
// required field may be left out, but not cleared.
func withParameters(parameters *object, list []personal.Field, l *labels, registering bool) *object {
	properties := newObject()
	var required []any
	for _, f := range list {
		if f.ReadOnly {
			continue
		}
		s := restricted(labelled(f, l), f)
		if !f.Required {
			nullable(s)
		}
		if registering && !f.Default.IsZero() {
			s["default"] = f.Default
		} else if registering && f.Required {
			required = append(required, f.Name)
		}
		properties.set(f.Name, s)
	}
	return withProperties(parameters, properties, required)
}

// withValues returns the schema of a profile with the user fields. Rules that
// became stricter hide no stored value, so only the types are promised.
func withValues(profile *object, list []personal.Field, l *labels) *object {
	properties := newObject()
	var required []any
	for _, f := range list {
		properties.set(f.Name, nullable(labelled(f, l)))
		required = append(required, f.Name)
	}
	return withProperties(profile, properties, required)
}

// withProperties returns a copy of an object's schema with further properties.
func withProperties(o, properties *object, required []any) *object {
	all := o.at("properties").clone()
	for _, name := range properties.names {
		all.set(name, properties.values[name])
	}
	o = o.clone()
	o.set("properties", all)
	own, _ := o.values["required"].([]any)
	if names := slices.Concat(own, required); len(names) > 0 {
		o.set("required", names)
	}
	return o
}

// nullable lets null in, which is "not set".
func nullable(s schema) schema {
	if s["type"] != nil { // else anything is in already
		s["type"] = []any{s["type"], "null"}
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}
	return s
}

// labelled describes the type of a user field's value, labels in the caller's
// language.
func labelled(f personal.Field, l *labels) schema {
	s := typeSchema(f.Type)
	description := l.choose(f.Label, f.Name)
	var values []any
	for _, o := range f.Options {
		values = append(values, o.Value)
		description += fmt.Sprintf("\n`%s`: %s", o.Value, l.choose(o.Label, o.Value))
	}
	if values != nil {
		s["enum"] = values
	}
	s["description"] = description
	return s
}

// typeSchema describes the type that a value has in JSON: HTTP contract, section
// 4. A type that this version does not know allows any value.
func typeSchema(t personal.FieldType) schema {
	switch t {
	case personal.TypeText, personal.TypeLongText, personal.TypeEnum, personal.TypeFile, personal.TypeLink:
		return schema{"type": "string"}
	case personal.TypeDate:
		return schema{"type": "string", "format": "date"}
	case personal.TypeDateTime:
		return schema{"type": "string", "format": "date-time"}
	case personal.TypeBoolean:
		return schema{"type": "boolean"}
	case personal.TypeNumber:
		return schema{"type": "number"}
	case personal.TypeInteger: // JSON keeps integers exactly within these bounds
		return schema{"type": "integer", "format": "int64", "minimum": int64(-maxUserID), "maximum": int64(maxUserID)}
	case personal.TypeLinkSet, personal.TypeTags:
		return schema{"type": "array", "items": schema{"type": "string"}}
	}
	return schema{}
}

// restricted adds the rules for new values of a field.
func restricted(s schema, f personal.Field) schema {
	if f.Min != nil {
		s["minimum"] = *f.Min
	}
	if f.Max != nil {
		s["maximum"] = *f.Max
	}
	item := s
	if items, ok := s["items"].(schema); ok {
		item = items
		item["minLength"] = 1
		if f.Required {
			s["minItems"] = 1
		}
	} else if f.Required && f.Type != personal.TypeEnum && s["type"] == "string" {
		s["minLength"] = 1
	}
	if n := f.MaxItems(); n > 0 {
		s["maxItems"] = n
	}
	if n := f.EffectiveMaxLength(); n > 0 {
		item["maxLength"] = n
	}
	if pattern := wholePattern(f.Pattern); pattern != "" {
		item["pattern"] = pattern
	}
	return s
}

// common matches patterns that mean the same in RE2, which the user-field schema
// speaks, and in ECMA-262, which JSON Schema does: plain characters, groups,
// classes without further classes in them, repetitions, and the escapes that
// both know.
var common = regexp.MustCompile(`^(?:[^\\\[\]{}]|\\[dDwWtnr.*+?()\[\]{}|^$/\\]|\[\^?(?:[^\\\[\]]|\\[dDwWtnr.*+?()\[\]{}|^$/\\-])+\]|\{[0-9]+(?:,[0-9]*)?\})*$`)

// wholePattern returns a field's pattern as JSON Schema has it, empty where it
// cannot be expressed there; fields/ returns it unchanged.
func wholePattern(re2 string) string {
	flagged := strings.Contains(strings.ReplaceAll(re2, "(?:", "("), "(?")
	if re2 == "" || flagged || !common.MatchString(re2) {
		return ""
	}
	return "^(?:" + re2 + ")$"
}
