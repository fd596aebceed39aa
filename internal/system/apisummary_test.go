package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// summarise returns the parts of an OpenAPI document that programs rely on, sorted:
// paths, methods, parameters (a star marks required ones), statuses and codes.
func summarise(t testing.TB, source []byte) string {
	t.Helper()
	var d apiDocument
	if err := json.Unmarshal(source, &d.root); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for path, item := range d.object(d.root, "paths") {
		for method, operation := range d.object(item) {
			if !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodOptions}, strings.ToUpper(method)) {
				continue // summary, parameters
			}
			for _, fact := range d.facts(item, operation) {
				lines = append(lines, fmt.Sprintf("%s %s %s\n", path, strings.ToUpper(method), fact))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// apiDocument is an OpenAPI document. Its methods resolve references.
type apiDocument struct{ root any }

// at follows the names from a node and returns the value there, nil if there is none.
func (d apiDocument) at(node any, names ...string) any {
	for i := 0; ; i++ {
		object, _ := node.(map[string]any)
		if ref, ok := object["$ref"].(string); ok {
			node = d.at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			object, _ = node.(map[string]any)
		}
		if i == len(names) {
			return node
		}
		node = object[names[i]]
	}
}

func (d apiDocument) object(node any, names ...string) map[string]any {
	object, _ := d.at(node, names...).(map[string]any)
	return object
}

func (d apiDocument) list(node any, names ...string) []any {
	list, _ := d.at(node, names...).([]any)
	return list
}

// facts returns the facts of one operation of a path, unsorted.
func (d apiDocument) facts(item, operation any) []string {
	headers := names{}
	for _, p := range slices.Concat(d.list(item, "parameters"), d.list(operation, "parameters")) {
		headers.add(d.at(p, "required") == true, fmt.Sprintf("%v %v", d.at(p, "in"), d.at(p, "name")))
	}
	for _, alternative := range d.list(operation, "security") {
		for scheme := range d.object(alternative) {
			s := d.object(d.root, "components", "securitySchemes", scheme)
			headers.add(true, fmt.Sprintf("%v %v", s["in"], s["name"]))
		}
	}
	var facts []string
	if len(headers) > 0 {
		facts = append(facts, "parameters: "+headers.String())
	}
	for mediaType, content := range d.object(operation, "requestBody", "content") {
		facts = append(facts, fmt.Sprintf("%s: %s", mediaType, d.members(d.at(content, "schema"))))
	}
	for status, response := range d.object(operation, "responses") {
		codes, fields := names{}, names{}
		for _, content := range d.object(response, "content") {
			d.codes(d.at(content, "schema"), codes, fields)
		}
		facts = append(facts, strings.TrimRight(fmt.Sprintf("%s: %s", status, codes), ": "))
		if len(fields) > 0 {
			facts = append(facts, fmt.Sprintf("%s FIELDS: %s", status, fields))
		}
	}
	return facts
}

// members returns the members of a schema.
func (d apiDocument) members(schema any) names {
	found := names{}
	for name := range d.object(schema, "properties") {
		found.add(false, name)
	}
	for _, name := range d.list(schema, "required") {
		found.add(true, fmt.Sprint(name))
	}
	for _, part := range d.list(schema, "allOf") {
		for name, required := range d.members(part) {
			found.add(required, name)
		}
	}
	return found
}

// codes adds the values that a schema allows for members named CODE: those within
// FIELDS to fields, all others to codes.
func (d apiDocument) codes(schema any, codes, fields names) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		for _, part := range d.list(schema, keyword) {
			d.codes(part, codes, fields)
		}
	}
	if additional := d.at(schema, "additionalProperties"); additional != nil {
		d.codes(additional, codes, fields)
	}
	for name, member := range d.object(schema, "properties") {
		switch name {
		case "CODE":
			values := d.list(member, "enum")
			if value := d.at(member, "const"); value != nil {
				values = append(values, value)
			}
			for _, value := range values {
				codes.add(false, fmt.Sprint(value))
			}
		case "FIELDS":
			d.codes(member, fields, fields)
		default:
			d.codes(member, codes, fields)
		}
	}
}

// names is a set of names, each with whether it is required.
type names map[string]bool

func (n names) add(required bool, name string) { n[name] = n[name] || required }

func (n names) String() string {
	list := slices.Sorted(maps.Keys(n))
	for i, name := range list {
		if n[name] {
			list[i] += "*"
		}
	}
	return strings.Join(list, ", ")
}
