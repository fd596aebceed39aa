package openapi

import "encoding/json"

// Schema is a JSON Schema, draft 2020-12. What is unset is left out, and says
// nothing about the value.
type Schema struct {
	Ref                  string       `json:"$ref,omitempty"`
	Title                string       `json:"title,omitempty"`
	Description          string       `json:"description,omitempty"`
	Type                 Types        `json:"type,omitempty"`
	Const                any          `json:"const,omitempty"`
	Enum                 []any        `json:"enum,omitempty"`
	Format               string       `json:"format,omitempty"`
	Pattern              string       `json:"pattern,omitempty"`
	MinLength            int          `json:"minLength,omitempty"` // characters
	MaxLength            int          `json:"maxLength,omitempty"` // characters
	Minimum              *float64     `json:"minimum,omitempty"`
	Maximum              *float64     `json:"maximum,omitempty"`
	Items                *Schema      `json:"items,omitempty"`
	MinItems             int          `json:"minItems,omitempty"`
	MaxItems             int          `json:"maxItems,omitempty"`
	UniqueItems          bool         `json:"uniqueItems,omitempty"`
	Properties           Map[*Schema] `json:"properties,omitempty"`
	Required             []string     `json:"required,omitempty"`
	MinProperties        int          `json:"minProperties,omitempty"`
	AdditionalProperties any          `json:"additionalProperties,omitempty"` // false or a *Schema
	AnyOf                []*Schema    `json:"anyOf,omitempty"`
	OneOf                []*Schema    `json:"oneOf,omitempty"`
	Default              any          `json:"default,omitempty"`
	Examples             []any        `json:"examples,omitempty"`
	WriteOnly            bool         `json:"writeOnly,omitempty"`
}

// Types are the JSON types that a value may have.
type Types []string

// MarshalJSON writes one type as a text and several as a list.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}
