package personalhttp

import (
	"fmt"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// dataSchemas describes the forms of data, as data.go writes them.
func dataSchemas() openapi.Map[*openapi.Schema] {
	type properties = openapi.Map[*openapi.Schema]
	id := openapi.Member[*openapi.Schema]{Name: "user_id", Value: &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: bound(1), Maximum: bound(maxUserID)}}
	hash := openapi.Member[*openapi.Schema]{Name: "user_hash", Value: &openapi.Schema{Type: openapi.Types{"string"},
		Pattern: fmt.Sprintf("^[A-Za-z0-9_-]{%d}$", hashLength), Description: "A secret."}}
	profile := openapi.Member[*openapi.Schema]{Name: "user_profile", Value: refSchema(schemaProfile)}
	sessions := openapi.Member[*openapi.Schema]{Name: "sessions", Value: listOf(sessionSchema())}
	fields := openapi.Member[*openapi.Schema]{Name: "fields", Value: listOf(fieldSchema())}
	return properties{
		{Name: schemaCredentials, Value: record(properties{id, hash})},
		{Name: schemaSignedIn, Value: record(properties{id, hash, profile})},
		{Name: schemaProfileData, Value: record(properties{profile})},
		{Name: schemaSessions, Value: record(properties{sessions})},
		{Name: schemaFields, Value: record(properties{fields})},
		{Name: schemaDocument, Value: documentSchema()},
	}
}

func sessionSchema() *openapi.Schema {
	when := func(description string) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{"string"}, Format: "date-time", Description: description}
	}
	return record(openapi.Map[*openapi.Schema]{
		{Name: "id", Value: text(1, 0, "")},
		{Name: "created", Value: when("")},
		{Name: "last_seen", Value: when("Written at most once a minute.")},
		{Name: "expires", Value: when("When it ends if it is not used any more.")},
		{Name: "address", Value: text(0, 0, "The client's at sign-in; empty if unknown.")},
		{Name: "agent", Value: text(0, maxAgent, "The User-Agent at sign-in, shortened; empty if unknown.")},
		{Name: "current", Value: boolean("The session that asks.")},
	})
}

// fieldSchema describes a user field as fields/ answers it.
func fieldSchema() *openapi.Schema {
	number := func() *openapi.Schema { return &openapi.Schema{Type: openapi.Types{"number"}} }
	option := record(openapi.Map[*openapi.Schema]{
		{Name: "value", Value: text(1, 0, "")},
		{Name: "label", Value: text(1, 0, "In the caller's language.")},
	})
	kind := &openapi.Schema{}
	for _, t := range fieldTypes() {
		kind.Enum = append(kind.Enum, t)
	}
	return object(openapi.Map[*openapi.Schema]{
		{Name: "name", Value: text(1, 0, "")},
		{Name: "type", Value: kind},
		{Name: "label", Value: text(1, 0, "In the caller's language.")},
		{Name: "required", Value: boolean("")},
		{Name: "default", Value: &openapi.Schema{Description: "Applied at registration; of the field's type."}},
		{Name: "max_length", Value: &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: bound(1), Description: "In characters; of each item of a list."}},
		{Name: "max_items", Value: &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: bound(1), Description: "Of a list."}},
		{Name: "min", Value: number()},
		{Name: "max", Value: number()},
		{Name: "pattern", Value: text(1, 0, "RE2, for the whole value; for each item of a list.")},
		{Name: "options", Value: listOf(option)},
		{Name: "read_only", Value: boolean("")},
		{Name: "order", Value: &openapi.Schema{Type: openapi.Types{"integer"}}},
		{Name: "group", Value: text(1, 0, "")},
	}, "name", "type", "label", "required", "read_only")
}

// documentSchema describes openapi.json itself; the specification says the rest.
func documentSchema() *openapi.Schema {
	anObject := &openapi.Schema{Type: openapi.Types{"object"}}
	return record(openapi.Map[*openapi.Schema]{
		{Name: "openapi", Value: &openapi.Schema{Const: openapi.Version}},
		{Name: "info", Value: anObject},
		{Name: "servers", Value: listOf(anObject)},
		{Name: "paths", Value: anObject},
		{Name: "components", Value: anObject},
	})
}

func fieldTypes() []personal.FieldType {
	return []personal.FieldType{
		personal.TypeText, personal.TypeLongText, personal.TypeInteger, personal.TypeNumber, personal.TypeBoolean, personal.TypeDate,
		personal.TypeDateTime, personal.TypeEnum, personal.TypeFile, personal.TypeLink, personal.TypeLinkSet, personal.TypeTags,
	}
}
