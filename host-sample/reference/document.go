package reference

import (
	"bytes"
	"encoding/json"
	"strings"
)

// document is the part of an OpenAPI document that the page shows.
type document struct {
	Info       struct{ Description string }
	Servers    []struct{ URL string }
	Paths      members[members[described]] // operations by path and method
	Components struct {
		SecuritySchemes members[scheme]
		Responses       map[string]response
		Schemas         map[string]schema
	}
}

// described is an operation as the document has it.
type described struct {
	OperationID string
	Summary     string
	Security    []any
	RequestBody struct{ Content members[mediaType] }
	Responses   members[response]
}

// scheme is a header that identifies the caller.
type scheme struct{ Name, Description string }

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Headers     members[any]
	Content     members[mediaType]
}

type mediaType struct{ Schema schema }

type schema struct {
	Ref                  string `json:"$ref"`
	Description          string
	Type                 types
	Enum                 []any
	Format               string
	Pattern              string
	MinLength, MaxLength int
	Minimum, Maximum     *float64
	Items                *schema
	Properties           members[schema]
	Required             []string
	Alternatives         [][]string `json:"x-required-any"` // of what else is required
	OneOf                []schema
}

// response follows a reference.
func (d *document) response(r response) response {
	if r.Ref != "" {
		return d.Components.Responses[component(r.Ref)]
	}
	return r
}

// schema follows a reference.
func (d *document) schema(s schema) schema {
	if s.Ref != "" {
		return d.Components.Schemas[component(s.Ref)]
	}
	return s
}

func component(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// types are the JSON types of a value.
type types []string

// UnmarshalJSON decodes one type or a list.
func (t *types) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		*t = types{""}
		return json.Unmarshal(data, &(*t)[0])
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// members are the members of a JSON object in their order in the document.
type members[T any] []member[T]

type member[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON decodes an object.
func (m *members[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value T
		if err := d.Decode(&value); err != nil {
			return err
		}
		*m = append(*m, member[T]{Name: name.(string), Value: value})
	}
	return nil
}
