package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// described is the part of a document that the table needs. What is in a list keeps its order.
type described struct {
	Paths      list[list[operation]]
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type operation struct {
	Security    []map[string][]string
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	} `yaml:"requestBody"`
	Responses list[response]
}

type response struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref        string `yaml:"$ref"`
	Type       any    // a name or a list of names
	Required   []string
	Properties list[schema]
	Additional any `yaml:"additionalProperties"`
	Enum       []string
	Const      any
	Items      *schema
	Any        [][]string `yaml:"x-required-any"` // sets of parameters of which one is required
}

// list is a mapping that keeps its order.
type list[T any] []named[T]

type named[T any] struct {
	name  string
	value T
}

func (l *list[T]) UnmarshalYAML(n *yaml.Node) error {
	all, err := members(resolve(n))
	if err != nil {
		return err
	}
	for _, m := range all {
		var v T
		if err := m.value.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		*l = append(*l, named[T]{m.name, v})
	}
	return nil
}

func (l list[T]) get(name string) (v T) {
	for _, n := range l {
		if n.name == name {
			return n.value
		}
	}
	return v
}

// newTable returns the operations as a table in Markdown, in the order of the document.
func newTable(document *yaml.Node) (string, error) {
	var d described
	if err := document.Decode(&d); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Method, path | Headers | Parameters (* required) | `data` on success (? may be absent, [] lists) | Codes |\n|---|---|---|---|---|\n")
	shown := map[string]string{}
	for _, path := range d.Paths {
		place := strings.Trim(path.name, "/") + slash(path.name)
		var methods []string // with the same row, but for cross_origin
		row := ""
		flush := func() {
			if methods != nil {
				fmt.Fprintf(&b, "| %s %s |%s |\n", strings.Join(methods, " or "), place, row)
			}
		}
		for _, o := range path.value {
			next := d.row(o.value, place, shown)
			if next != row {
				flush()
				methods, row = nil, next
			}
			methods = append(methods, strings.ToUpper(o.name))
		}
		flush()
	}
	return b.String(), nil
}

// slash returns the final slash of a path that has one.
func slash(path string) string {
	if strings.HasSuffix(path, "/") {
		return "/"
	}
	return ""
}

// row returns the cells of an operation after the first. The map has the path that first shows a long list
// of data.
func (d described) row(o operation, place string, shown map[string]string) string {
	headers := ""
	switch {
	case slices.ContainsFunc(o.Security, func(s map[string][]string) bool { return len(s) == 0 }):
		headers = "optional"
	case o.Security != nil:
		headers = "yes"
	}
	var row strings.Builder
	for i, cell := range []string{headers, d.parameters(o), d.data(o, place, shown), strings.Join(d.codes(o), ", ")} {
		if i > 0 {
			row.WriteString(" |")
		}
		if cell != "" {
			row.WriteString(" " + cell)
		}
	}
	return row.String()
}

func (d described) parameters(o operation) string {
	s := d.schema(o.RequestBody.Content["application/json"].Schema)
	var cell []string
	for _, p := range s.Properties {
		name := p.name
		if slices.Contains(s.Required, name) {
			name += "*"
		}
		if isType(p.value, "boolean") {
			name += " (boolean)"
		}
		if p.value.Enum != nil {
			name += " (`" + strings.Join(p.value.Enum, "`, `") + "`)"
		}
		cell = append(cell, name)
	}
	if s.Additional == false {
		cell = append(cell, "user fields")
	}
	text := strings.Join(cell, ", ")
	var ways []string
	for _, alternative := range s.Any {
		ways = append(ways, strings.Join(alternative, " and "))
	}
	if ways != nil {
		text += "; *" + strings.Join(ways, ", or ") + "*"
	}
	return text
}

func (d described) data(o operation, place string, shown map[string]string) string {
	body := d.schema(o.Responses.get("200").Content["application/json"].Schema)
	if body.Properties.get("success").Type == nil {
		return "no envelope"
	}
	data := d.schema(body.Properties.get("data"))
	if data.Properties == nil {
		return "none"
	}
	text := d.names(data)
	switch first, ok := shown[text]; {
	case !ok:
		shown[text] = place
	case first != place && len(data.Properties) > 3:
		text = "as " + first
	}
	if !slices.Contains(body.Required, "data") {
		text += "; or none"
	}
	return text
}

// names returns the properties of an object, and those of the items of its lists.
func (d described) names(object schema) string {
	var names []string
	for _, p := range object.Properties {
		name := p.name
		if !slices.Contains(object.Required, name) {
			name += "?"
		}
		if p := d.schema(p.value); isType(p, "array") && p.Items != nil {
			if item := d.schema(*p.Items); item.Properties != nil {
				name += " [" + d.names(item) + "]"
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// codes returns the codes of errors, but for those of every operation, of every POST, of every
// operation with headers and of every one with parameters.
func (d described) codes(o operation) []string {
	var codes []string
	for _, status := range []string{"401", "403", "409", "422"} {
		r := o.Responses.get(status)
		if r.Ref != "" {
			r = d.Components.Responses[base(r.Ref)]
		}
		codes = append(codes, d.codesOf(r.Content["application/json"].Schema)...)
	}
	return slices.DeleteFunc(codes, func(code string) bool {
		return code == "unauthenticated" || code == "cross_origin" || code == "validation_failed"
	})
}

func (d described) codesOf(s schema) []string {
	s = d.schema(s)
	code := d.schema(s.Properties.get("result")).Properties.get("CODE")
	codes := code.Enum
	if one, ok := code.Const.(string); ok {
		codes = []string{one}
	}
	return codes
}

func (d described) schema(s schema) schema {
	if s.Ref != "" {
		return d.Components.Schemas[base(s.Ref)]
	}
	return s
}

func base(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

func isType(s schema, name string) bool {
	text, err := json.Marshal(s.Type)
	return err == nil && strings.Contains(string(text), `"`+name+`"`)
}
