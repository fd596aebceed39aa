package personalhttp

import "github.com/cms-personal/personal/shared/personalhttp/openapi"

// The bounds of parameters, in characters: HTTP contract, section 3, register.
// The service judges them; here they are told to developers, and the tests from
// outside hold the two against each other.
const (
	minLogin    = 3
	maxLogin    = 64
	maxEmail    = 254
	maxName     = 200
	minPassword = 8    // the least that a site can set
	maxPassword = 1024 // bytes, so no more characters either
)

// parameter is one parameter of a body, as the OpenAPI document has it.
type parameter struct {
	name     string
	required bool
	schema   *openapi.Schema
}

// required returns a parameter that must be set: an empty text does not.
func required(name string, s *openapi.Schema) parameter {
	s.MinLength = max(s.MinLength, 1)
	return parameter{name: name, required: true, schema: s}
}

// optional returns a parameter that may be left out, or null.
func optional(name string, s *openapi.Schema) parameter {
	return parameter{name: name, schema: nullable(s)}
}

// nullable lets null in, which is "not set".
func nullable(s *openapi.Schema) *openapi.Schema {
	if s.Type != nil { // else anything is in already
		s.Type = append(s.Type, "null")
	}
	if s.Enum != nil {
		s.Enum = append(s.Enum, nil)
	}
	return s
}

// text describes a text; 0 is no limit.
func text(shortest, longest int, description string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Description: description, MinLength: shortest, MaxLength: longest}
}

func email(description string) *openapi.Schema {
	s := text(0, maxEmail, description)
	s.Format = "idn-email"
	return s
}

// secret describes a password; 0 is no limit.
func secret(shortest, longest int, description string) *openapi.Schema {
	s := text(shortest, longest, description)
	s.Format, s.WriteOnly = "password", true
	return s
}

func boolean(description string) *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"boolean"}, Description: description}
}

func displayName() parameter {
	return optional("name", text(0, maxName, "The name that is shown; no control characters."))
}
