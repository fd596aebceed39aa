package personalhttp

import (
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// bodySchema describes the parameters of an operation, with what it takes of the
// user fields. Others than these are ignored, unless the operation takes fields.
func bodySchema(op operation, list []personal.Field, l *labels) *openapi.Schema {
	body := &openapi.Schema{Type: openapi.Types{"object"}}
	for _, p := range op.parameters {
		addParameter(body, p)
	}
	for _, name := range op.oneOf {
		body.AnyOf = append(body.AnyOf, &openapi.Schema{Required: []string{name}})
	}
	if op.userFields == noFields {
		return body
	}
	body.AdditionalProperties = false
	for _, f := range list {
		if !f.ReadOnly {
			addParameter(body, fieldParameter(f, op.userFields, l))
		}
	}
	return body
}

// fieldParameter describes a user field that is sent. At registration the
// default stands in; elsewhere a required field may be left out, but not cleared.
func fieldParameter(f personal.Field, taken fieldSet, l *labels) parameter {
	p := parameter{name: f.Name, schema: restricted(labelled(f, l), f)}
	if !f.Required {
		nullable(p.schema)
	}
	if taken == everyField {
		p.required = f.Required && f.Default.IsZero()
		if !f.Default.IsZero() {
			p.schema.Default = f.Default
		}
	}
	return p
}

func addParameter(body *openapi.Schema, p parameter) {
	body.Properties.Add(p.name, p.schema)
	if p.required {
		body.Required = append(body.Required, p.name)
	}
}

// profileSchema describes a profile. Rules that were tightened since hide
// nothing of what is stored, so only the types are promised.
func profileSchema(list []personal.Field, l *labels) *openapi.Schema {
	properties := openapi.Map[*openapi.Schema]{
		{Name: "login", Value: text(1, 0, "")},
		{Name: "name", Value: &openapi.Schema{Type: openapi.Types{"string", "null"}}},
		{Name: "email", Value: &openapi.Schema{Type: openapi.Types{"string"}, Format: "email"}},
	}
	for _, f := range list {
		properties.Add(f.Name, nullable(labelled(f, l)))
	}
	return record(properties)
}
