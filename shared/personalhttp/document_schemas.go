package personalhttp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// The schemas of data, by their names in the document.
const (
	schemaCredentials = "credentials"
	schemaSignedIn    = "signed_in"
	schemaProfileData = "profile_data"
	schemaProfile     = "user_profile" // of the user fields in force
	schemaSessions    = "sessions"
	schemaFields      = "fields"
	schemaDocument    = "document"
	schemaFault       = "fault"
)

func refSchema(name string) *openapi.Schema {
	return &openapi.Schema{Ref: "#/components/schemas/" + name}
}

func errorName(code personal.Code) string { return "error_" + string(code) }

// object describes an object with these members and no others.
func object(properties openapi.Map[*openapi.Schema], required ...string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"object"}, Properties: properties, Required: required, AdditionalProperties: false}
}

// record describes an object with all of these members.
func record(properties openapi.Map[*openapi.Schema]) *openapi.Schema {
	names := make([]string, 0, len(properties))
	for _, p := range properties {
		names = append(names, p.Name)
	}
	return object(properties, names...)
}

func listOf(item *openapi.Schema) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"array"}, Items: item}
}

// schemas are those that do not change with the user fields.
func (d *describer) schemas() openapi.Map[*openapi.Schema] {
	m := dataSchemas()
	m.Add(schemaFault, d.faultSchema())
	codes := slices.Sorted(maps.Keys(d.texts.codes))
	for _, code := range codes {
		m.Add(errorName(code), d.errorSchema(code))
	}
	return m
}

func (d *describer) successSchema(op operation) *openapi.Schema {
	if op.bare {
		return refSchema(op.data)
	}
	result := openapi.Map[*openapi.Schema]{{Name: "TYPE", Value: &openapi.Schema{Const: "OK"}}}
	if op.done != "" {
		result.Add("MESSAGE", d.message(d.texts.done[op.done]))
	}
	return successEnvelope(record(result), op.data)
}

func successEnvelope(result *openapi.Schema, data string) *openapi.Schema {
	members := openapi.Map[*openapi.Schema]{{Name: "success", Value: &openapi.Schema{Const: 1}}, {Name: "result", Value: result}}
	if data != "" {
		members.Add("data", refSchema(data))
	}
	return record(members)
}

// message describes a text for people. It is in the caller's language, so the
// text itself is no more than an example.
func (d *describer) message(text string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, MinLength: 1, Examples: []any{text}}
}

func (d *describer) errorSchema(code personal.Code) *openapi.Schema {
	result := openapi.Map[*openapi.Schema]{
		{Name: "TYPE", Value: &openapi.Schema{Const: "ERROR"}},
		{Name: "MESSAGE", Value: d.message(d.texts.codes[code])},
		{Name: "CODE", Value: &openapi.Schema{Const: code}},
	}
	switch code {
	case personal.CodeValidationFailed:
		result.Add("FIELDS", &openapi.Schema{Type: openapi.Types{"object"}, MinProperties: 1, AdditionalProperties: refSchema(schemaFault),
			Description: "What is wrong, by parameter."})
	case personal.CodeAlreadyExists:
		taken := d.oneFault(&openapi.Schema{Const: personal.FaultTaken}, d.texts.faults[personal.FaultTaken])
		fields := object(openapi.Map[*openapi.Schema]{{Name: "login", Value: taken}, {Name: "email", Value: taken}})
		fields.MinProperties = 1
		result.Add("FIELDS", fields)
	}
	return record(openapi.Map[*openapi.Schema]{{Name: "success", Value: &openapi.Schema{Const: 0}}, {Name: "result", Value: record(result)}})
}

// faultSchema describes what may be wrong with a parameter; taken belongs to
// already_exists alone.
func (d *describer) faultSchema() *openapi.Schema {
	code := &openapi.Schema{}
	var meanings []string
	for _, fault := range slices.Sorted(maps.Keys(d.texts.faults)) {
		if fault != personal.FaultTaken {
			code.Enum = append(code.Enum, fault)
			meanings = append(meanings, fmt.Sprintf("`%s`: %s", fault, d.texts.faults[fault]))
		}
	}
	code.Description = strings.Join(meanings, "\n")
	return d.oneFault(code, d.texts.faults[personal.FaultRequired])
}

func (d *describer) oneFault(code *openapi.Schema, message string) *openapi.Schema {
	return record(openapi.Map[*openapi.Schema]{{Name: "CODE", Value: code}, {Name: "MESSAGE", Value: d.message(message)}})
}
