package personalhttp

import (
	"bytes"
	"context"
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// openapiJSON is generated from openapi.yaml by make generate.
//
//go:embed openapi.json
var openapiJSON []byte

// document is the OpenAPI document of one handler. The schemas that contain user
// fields are completed for each request.
type document struct {
	start []byte // the document's JSON before the schemas below, which end it

	registerParameters *object
	profileParameters  *object
	userProfile        *object
}

// newDocument returns the document of a handler at the prefix.
func newDocument(prefix string, origins cors, o Options) (*document, error) {
	root, err := parseObject(openapiJSON)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded OpenAPI document: %w", err)
	}
	root.set("servers", []any{map[string]string{"url": prefix}})
	components := root.at("components")
	preflight := components.at("pathItems", "preflight", "options")
	components.remove("pathItems")
	if len(origins) == 0 {
		root.removePrefixed("Access-Control-")
	}
	if o.AlwaysOK {
		info := root.at("info")
		info.set("description", info.text("description")+"\n\nThis site sends every envelope with HTTP 200, errors included: "+
			"the statuses of errors in this document are never sent, and CODE tells errors apart.")
	}
	if len(origins) > 0 {
		components.at("headers", "Access-Control-Allow-Origin", "schema").set("enum", origins)
		paths := root.at("paths")
		for _, path := range paths.names {
			operation := preflight.clone()
			operation.set("operationId", operationID("options", path))
			paths.at(path).set("options", operation)
		}
	}
	schemas := components.at("schemas")
	for _, r := range newRoutes() {
		if !r.judged {
			continue
		}
		for _, transient := range o.Transient {
			schemas.at(r.name+parametersSuffix, "properties").set(transient, schema{
				"type":        []any{"string", "null"},
				"description": "For the admission of this site: it is judged, and stored nowhere.",
			})
		}
	}
	d := &document{
		registerParameters: schemas.remove("register_parameters"),
		profileParameters:  schemas.remove("profile_parameters"),
		userProfile:        schemas.remove("user_profile"),
	}
	components.set("schemas", components.remove("schemas")) // now last
	root.set("components", root.remove("components"))
	whole, err := root.encodeTo(nil)
	d.start = bytes.TrimSuffix(whole, []byte("}}}"))
	return d, err
}

// parametersSuffix ends the name of a schema that describes the parameters of an operation.
const parametersSuffix = "_parameters"

// parameterNames returns the names of the parameters of all operations, without user fields.
func parameterNames() (map[string]bool, error) {
	root, err := parseObject(openapiJSON)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded OpenAPI document: %w", err)
	}
	names := map[string]bool{}
	schemas := root.at("components", "schemas")
	for _, name := range schemas.names {
		if strings.HasSuffix(name, parametersSuffix) {
			for _, parameter := range schemas.at(name, "properties").names {
				names[parameter] = true
			}
		}
	}
	return names, nil
}

// with returns the document as JSON, completed with these user fields.
func (d *document) with(list []personal.Field, l *labels) (json.RawMessage, error) {
	schemas := newObject()
	schemas.set("register_parameters", withParameters(d.registerParameters, list, l, true))
	schemas.set("profile_parameters", withParameters(d.profileParameters, list, l, false))
	schemas.set("user_profile", withValues(d.userProfile, list, l))
	end, err := marshal(schemas)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s,%s}}", d.start, end[1:]), nil
}

// Document returns the response of openapi.json to the request: an OpenAPI 3.1
// document in JSON, with the current user fields and their labels in the caller's
// language. It is for pages that show the document. An error is the service's, for
// example [personal.CodeUnavailable].
func (h *Handler) Document(r *http.Request) (_ []byte, err error) {
	defer recoverPanic(&err)
	ctx, cancel := context.WithTimeout(r.Context(), h.options.Timeout)
	defer cancel()
	document, err := describe(ctx, h.service, &input{labels: h.locales.labels(r), document: h.document})
	if err != nil {
		return nil, err
	}
	return document.(json.RawMessage), nil
}

// schema is a JSON Schema, draft 2020-12.
type schema map[string]any

// withParameters returns a schema of parameters with the user fields that users may
// set. At registration a required field must be sent unless it has a default.
// Elsewhere it may be left out, but not cleared.
func withParameters(parameters *object, list []personal.Field, l *labels, registering bool) *object {
	properties := newObject()
	var required []any
	for _, f := range list {
		if f.ReadOnly {
			continue
		}
		s := restricted(labelled(f, l), f)
		if !f.Required {
			nullable(s)
		}
		if registering && !f.Default.IsZero() {
			s["default"] = f.Default
		} else if registering && f.Required {
			required = append(required, f.Name)
		}
		properties.set(f.Name, s)
	}
	return withProperties(parameters, properties, required)
}

// withValues returns the schema of a profile with the user fields. It contains their
// types only: values that were stored before a rule became stricter are still shown.
func withValues(profile *object, list []personal.Field, l *labels) *object {
	properties := newObject()
	var required []any
	for _, f := range list {
		properties.set(f.Name, nullable(labelled(f, l)))
		required = append(required, f.Name)
	}
	return withProperties(profile, properties, required)
}

// withProperties returns a copy of an object's schema with further properties.
func withProperties(o, properties *object, required []any) *object {
	all := o.at("properties").clone()
	for _, name := range properties.names {
		all.set(name, properties.values[name])
	}
	o = o.clone()
	o.set("properties", all)
	own, _ := o.values["required"].([]any)
	if names := slices.Concat(own, required); len(names) > 0 {
		o.set("required", names)
	}
	return o
}

// nullable admits null, which means "not set".
func nullable(s schema) schema {
	if s["type"] != nil { // without a type null is valid already
		s["type"] = []any{s["type"], "null"}
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}
	return s
}

// labelled returns a schema with a field's type and options, described by its texts and
// their labels in the caller's language.
func labelled(f personal.Field, l *labels) schema {
	s := typeSchema(f.Type)
	description := l.choose(f.Label, f.Name)
	var values []any
	for _, o := range f.Options {
		values = append(values, o.Value)
		description += fmt.Sprintf("\n`%s`: %s", o.Value, l.choose(o.Label, o.Value))
	}
	if values != nil {
		s["enum"] = values
	}
	for _, text := range []personal.LocalText{f.Hint, f.PatternMessage} {
		if chosen := l.choose(text, ""); chosen != "" {
			description += "\n\n" + chosen
		}
	}
	s["description"] = description
	return s
}

// typeSchema returns the schema of a type's values in JSON (HTTP contract, section 4).
// A type that this version does not know allows any value.
func typeSchema(t personal.FieldType) schema {
	k, s := t.Kind(), schema{}
	if k.JSON != "" {
		s["type"] = k.JSON
	}
	if k.Format != "" {
		s["format"] = k.Format
	}
	if k.JSON == "integer" { // every JSON reader represents these exactly
		s["minimum"], s["maximum"] = int64(-maxUserID), int64(maxUserID)
	}
	if k.List {
		return schema{"type": "array", "items": s}
	}
	return s
}

// restricted adds the rules for new values of a field.
func restricted(s schema, f personal.Field) schema {
	if f.Min != nil {
		s["minimum"] = *f.Min
	}
	if f.Max != nil {
		s["maximum"] = *f.Max
	}
	item := s
	if items, ok := s["items"].(schema); ok {
		item = items
		item["minLength"] = 1
		if f.Required {
			s["minItems"] = 1
		}
	} else if f.Required && f.Type != personal.TypeEnum && s["type"] == "string" {
		s["minLength"] = 1
	}
	if n := f.MaxItems(); n > 0 {
		s["maxItems"] = n
	}
	if n := f.EffectiveMaxLength(); n > 0 {
		item["maxLength"] = n
	}
	if pattern := jsonPattern(f.Pattern); pattern != "" {
		item["pattern"] = pattern
	}
	return s
}

// commonPattern matches patterns that mean the same in RE2, which the user-field
// schema uses, and in ECMA-262, which JSON Schema uses: plain characters, groups,
// classes without nested classes, repetitions, and the escapes that both define.
var commonPattern = regexp.MustCompile(`^(?:[^\\\[\]{}]|\\[dDwWtnr.*+?()\[\]{}|^$/\\]|\[\^?(?:[^\\\[\]]|\\[dDwWtnr.*+?()\[\]{}|^$/\\-])+\]|\{[0-9]+(?:,[0-9]*)?\})*$`)

// jsonPattern returns a field's pattern for JSON Schema, or "" if it cannot be
// expressed there. The operation fields/ returns the pattern itself.
func jsonPattern(re2 string) string {
	flagged := strings.Contains(strings.ReplaceAll(re2, "(?:", "("), "(?")
	if re2 == "" || flagged || !commonPattern.MatchString(re2) {
		return ""
	}
	return "^(?:" + re2 + ")$"
}

// object is a JSON object whose members keep their order. A value is an *object, an
// []any, or anything that encoding/json can encode.
type object struct {
	names  []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

// parseObject parses an object and the objects in it.
func parseObject(data []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d)
	if o, ok := v.(*object); ok || err != nil {
		return o, err
	}
	return nil, fmt.Errorf("want an object, got %T", v)
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch token {
	case json.Delim('{'):
		o := newObject()
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			o.set(name.(string), value)
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, err
}

// at returns the object at a path of names, which must exist.
func (o *object) at(names ...string) *object {
	for _, name := range names {
		o = o.values[name].(*object)
	}
	return o
}

// text returns a string member, which must exist.
func (o *object) text(name string) string { return o.values[name].(string) }

// set replaces a member, or adds it as the last.
func (o *object) set(name string, value any) {
	if _, known := o.values[name]; !known {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// remove removes a member that is an object and returns it.
func (o *object) remove(name string) *object {
	removed := o.at(name)
	delete(o.values, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
	return removed
}

// removePrefixed removes every object member whose name has the prefix, at any depth.
func (o *object) removePrefixed(prefix string) {
	for _, name := range slices.Clone(o.names) {
		below, ok := o.values[name].(*object)
		switch {
		case ok && strings.HasPrefix(name, prefix):
			o.remove(name)
		case ok:
			below.removePrefixed(prefix)
		}
	}
}

// clone returns a copy with the same values.
func (o *object) clone() *object {
	return &object{names: slices.Clone(o.names), values: maps.Clone(o.values)}
}

// MarshalJSON encodes the members in their order.
func (o *object) MarshalJSON() ([]byte, error) { return o.encodeTo(nil) }

// encodeTo appends the encoded object to b. It encodes the objects below by itself: encoding/json
// reads again what MarshalJSON returns, so it would read each once per level.
func (o *object) encodeTo(b []byte) ([]byte, error) {
	b = append(b, '{')
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		text, err := marshal(name)
		if err != nil {
			return nil, err
		}
		b = append(append(b, text...), ':')
		if below, ok := o.values[name].(*object); ok {
			if b, err = below.encodeTo(b); err != nil {
				return nil, err
			}
			continue
		}
		if text, err = marshal(o.values[name]); err != nil {
			return nil, err
		}
		b = append(b, text...)
	}
	return append(b, '}'), nil
}

// operationID returns the id of an operation in camel case, from which generators make names: getAuthRefresh.
func operationID(method, path string) string {
	id := method
	for word := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '_' || r == '.' }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}
