// Package openapi holds as much of the OpenAPI 3.1 document model as the API
// needs to describe itself: plain types that are written as JSON, or rendered.
package openapi

// Version is the version of the specification that a [Document] follows.
const Version = "3.1.1"

// Document is a whole description.
type Document struct {
	OpenAPI    string         `json:"openapi"`
	Info       Info           `json:"info"`
	Servers    []Server       `json:"servers"`
	Paths      Map[*PathItem] `json:"paths"`
	Components Components     `json:"components"`
}

// Info tells what is described.
type Info struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
}

// Server is where the paths begin.
type Server struct {
	URL string `json:"url"` // may be relative to where the document was found
}

// PathItem holds the operations of one path.
type PathItem struct {
	Get     *Operation `json:"get,omitempty"`
	Post    *Operation `json:"post,omitempty"`
	Options *Operation `json:"options,omitempty"`
}

// Operation is one method of a path.
type Operation struct {
	ID          string                `json:"operationId"`
	Summary     string                `json:"summary"`
	Description string                `json:"description,omitempty"`
	Security    []map[string][]string `json:"security,omitempty"` // any of these; all schemes of one at once
	Parameters  []*Parameter          `json:"parameters,omitempty"`
	RequestBody *RequestBody          `json:"requestBody,omitempty"`
	Responses   Map[*Response]        `json:"responses"` // by status
}

// Parameter is one outside of the body, or a reference to one.
type Parameter struct {
	Ref         string  `json:"$ref,omitempty"`
	Name        string  `json:"name,omitempty"`
	In          string  `json:"in,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// RequestBody is what may be sent.
type RequestBody struct {
	Required bool           `json:"required,omitempty"`
	Content  Map[MediaType] `json:"content"` // by media type
}

// MediaType is the form of a body in one media type.
type MediaType struct {
	Schema *Schema `json:"schema"`
}

// Response is one answer, or a reference to one.
type Response struct {
	Ref         string         `json:"$ref,omitempty"`
	Description string         `json:"description,omitempty"` // required where there is no reference
	Headers     Map[*Header]   `json:"headers,omitempty"`
	Content     Map[MediaType] `json:"content,omitempty"`
}

// Header is a header of an answer, or a reference to one.
type Header struct {
	Ref         string  `json:"$ref,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// Components are what references lead to. Schemas stand last, and components
// last in the document, so that schemas can be appended to what is written.
type Components struct {
	SecuritySchemes Map[SecurityScheme] `json:"securitySchemes,omitempty"`
	Parameters      Map[*Parameter]     `json:"parameters,omitempty"`
	Headers         Map[*Header]        `json:"headers,omitempty"`
	Responses       Map[*Response]      `json:"responses,omitempty"`
	Schemas         Map[*Schema]        `json:"schemas,omitempty"`
}

// SecurityScheme is one way to show who is there.
type SecurityScheme struct {
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	Name        string `json:"name,omitempty"`
	In          string `json:"in,omitempty"`
}
