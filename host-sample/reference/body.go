package reference

import (
	"slices"
	"strconv"
	"strings"
)

// body is what the page shows.
type body struct {
	Introduction [][]span // paragraphs
	Base         string   // what paths begin with
	DocumentURL  string
	Operations   []operation
	Identity     members[scheme]
}

// operation is one method of one path.
type operation struct {
	ID         string
	Method     string
	Path       string
	Summary    []span
	Identified bool
	MediaTypes []string
	Properties []property // of the body
	Headers    []string   // of a success; other answers have them too
	Answers    []answer
}

// property is one parameter of a body.
type property struct {
	schema
	ID       string // within the page; empty where it is not to be tried
	Name     string
	Required bool
}

// answer is one status with what it may say.
type answer struct {
	Status  string
	Texts   [][]span
	Headers []string   // beside those of a success
	Data    []property // of a success
}

func newBody(d document) body {
	b := body{Introduction: paragraphs(d.Info.Description), Identity: d.Components.SecuritySchemes}
	if len(d.Servers) > 0 {
		b.Base = d.Servers[0].URL
	}
	b.DocumentURL = b.Base + "/openapi.json"
	for _, path := range d.Paths {
		for _, method := range path.Value {
			if method.Name != "options" { // which only browsers send
				b.Operations = append(b.Operations, d.operation(strings.ToUpper(method.Name), path.Name, method.Value))
			}
		}
	}
	return b
}

func (d *document) operation(method, path string, described described) operation {
	op := operation{
		ID: described.OperationID, Method: method, Path: path, Summary: spans(described.Summary), Identified: len(described.Security) > 0,
	}
	for _, m := range described.RequestBody.Content {
		op.MediaTypes = append(op.MediaTypes, m.Name)
		op.Properties = d.properties(m.Value.Schema, "") // the same for all
	}
	for i := range op.Properties {
		op.Properties[i].ID = op.ID + "-" + op.Properties[i].Name
	}
	slices.SortFunc(described.Responses, func(a, b member[response]) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range described.Responses {
		response := d.response(r.Value)
		a := answer{Status: r.Name, Texts: paragraphs(response.Description)}
		for _, h := range response.Headers {
			switch {
			case len(op.Answers) == 0:
				op.Headers = append(op.Headers, h.Name)
			case !slices.Contains(op.Headers, h.Name):
				a.Headers = append(a.Headers, h.Name)
			}
		}
		for _, m := range response.Content {
			a.Data = d.data(m.Value.Schema)
		}
		op.Answers = append(op.Answers, a)
	}
	return op
}

// data returns what a success holds, if it holds anything. Where errors have the
// same status the success is the first of the forms.
func (d *document) data(s schema) []property {
	envelope := d.schema(s)
	if len(envelope.OneOf) > 0 {
		envelope = d.schema(envelope.OneOf[0])
	}
	for _, p := range envelope.Properties {
		if p.Name == "data" {
			return d.properties(p.Value, "")
		}
	}
	return nil
}

// properties returns those of an object, and of the objects in it by names with
// dots.
func (d *document) properties(s schema, prefix string) []property {
	object := d.schema(s)
	var list []property
	for _, p := range object.Properties {
		value := d.schema(p.Value)
		list = append(list, property{schema: value, Name: prefix + p.Name, Required: slices.Contains(object.Required, p.Name)})
		switch {
		case value.Items != nil:
			list = append(list, d.properties(*value.Items, prefix+p.Name+"[].")...)
		case len(value.Properties) > 0:
			list = append(list, d.properties(value, prefix+p.Name+".")...)
		}
	}
	return list
}

// Kind tells how the value is typed into the page: as one of the JSON types, or
// "choice", "secret" or "list".
func (p property) Kind() string {
	switch {
	case len(p.Enum) > 0:
		return "choice"
	case p.WriteOnly:
		return "secret"
	case slices.Contains(p.Type, "array"):
		return "list"
	case len(p.Type) > 0:
		return p.Type[0]
	}
	return "string"
}

// Choices are the values on offer, besides none.
func (p property) Choices() []string {
	var list []string
	for _, v := range p.Enum {
		if text, ok := v.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// TypeText names the value's type.
func (p property) TypeText() string {
	kinds := slices.DeleteFunc(slices.Clone(p.Type), func(kind string) bool { return kind == "null" })
	text := strings.Join(kinds, " | ")
	if p.Format != "" {
		text += " (" + p.Format + ")"
	}
	return text
}

// Bounds tells the value's limits.
func (p property) Bounds() string {
	var list []string
	add := func(name, value string) { list = append(list, name+" "+value) }
	if p.MinLength > 1 {
		add("≥", strconv.Itoa(p.MinLength))
	}
	if p.MaxLength > 0 {
		add("≤", strconv.Itoa(p.MaxLength))
	}
	if p.Minimum != nil {
		add("≥", strconv.FormatFloat(*p.Minimum, 'f', -1, 64))
	}
	if p.Maximum != nil {
		add("≤", strconv.FormatFloat(*p.Maximum, 'f', -1, 64))
	}
	if p.Pattern != "" {
		add("~", p.Pattern)
	}
	return strings.Join(list, ", ")
}

// Meaning is the value's description.
func (p property) Meaning() []span { return spans(p.Description) }

// span is a part of a text that is code, or is not.
type span struct {
	Text string
	Code bool
}

// spans reads a text in which code stands between backquotes.
func spans(text string) []span {
	var list []span
	for i, part := range strings.Split(text, "`") {
		if part != "" {
			list = append(list, span{Text: part, Code: i%2 == 1})
		}
	}
	return list
}

// paragraphs reads a text of several paragraphs.
func paragraphs(text string) [][]span {
	var list [][]span
	for _, p := range strings.Split(text, "\n\n") {
		if s := spans(p); s != nil {
			list = append(list, s)
		}
	}
	return list
}
