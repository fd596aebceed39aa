// Package openapitest compares responses of an API with its OpenAPI 3.1 document. What
// the document does not describe is an error, of the API or of the document.
package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is the name of the document within the compiler.
const location = "openapi.json"

// Document is an OpenAPI document that responses can be checked against. It is safe for
// concurrent use.
type Document struct {
	root   node
	prefix string // of all paths

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

// Parse reads a document, which must have one server.
func Parse(data []byte) (*Document, error) {
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	d := &Document{root: node{root: content, value: content}, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(location, content); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	servers, _ := d.root.member("servers").value.([]any)
	if len(servers) != 1 {
		return nil, errors.New("the document must have one server")
	}
	server, _ := servers[0].(map[string]any)
	d.prefix, _ = server["url"].(string)
	return d, nil
}

// Answer is a response together with its request's method and path.
type Answer struct {
	Method string
	Path   string // as sent
	Status int
	Header http.Header
	Body   []byte
}

// Check returns an error that names all differences between the response and its
// description.
func (d *Document) Check(a Answer) error {
	response, err := d.response(a)
	if err != nil {
		return err
	}
	return errors.Join(d.checkHeaders(response, a.Header), d.checkBody(response, a))
}

// response returns the description of the response.
func (d *Document) response(a Answer) (node, error) {
	item, known := d.item(a.Path)
	if !known {
		return d.root.member("components").member("responses").member("not_found"), nil
	}
	operation := item.member(strings.ToLower(a.Method))
	if !operation.exists() {
		return d.root.member("components").member("responses").member("method_not_allowed"), nil
	}
	response := operation.member("responses").member(fmt.Sprint(a.Status))
	if !response.exists() {
		return node{}, fmt.Errorf("status %d is not described", a.Status)
	}
	return response, nil
}

func (d *Document) item(path string) (node, bool) {
	rest, ok := strings.CutPrefix(path, d.prefix)
	paths := d.root.member("paths")
	for _, name := range paths.names() {
		if ok && strings.TrimSuffix(rest, "/") == strings.TrimSuffix(name, "/") {
			return paths.member(name), true
		}
	}
	return node{}, false
}

// httpHeaders are headers that documents do not describe: they concern the connection.
var httpHeaders = []string{"Connection", "Content-Length", "Content-Type", "Date", "Strict-Transport-Security", "Transfer-Encoding"}

func (d *Document) checkHeaders(response node, header http.Header) error {
	var errs []error
	described := response.member("headers")
	for _, name := range described.names() {
		h := described.member(name)
		values := header.Values(name)
		if h.member("required").value == true && len(values) == 0 {
			errs = append(errs, fmt.Errorf("header %s is missing", name))
		}
		for _, value := range values {
			if err := d.validate(h.member("schema"), headerValue(h.member("schema"), value)); err != nil {
				errs = append(errs, fmt.Errorf("header %s: %w", name, err))
			}
		}
	}
	for name := range header {
		if !described.member(name).exists() && !slices.Contains(httpHeaders, name) {
			errs = append(errs, fmt.Errorf("header %s is not described", name))
		}
	}
	return errors.Join(errs...)
}

// headerValue converts a header to the type in its schema.
func headerValue(schema node, text string) any {
	if schema.member("type").value != "integer" {
		return text
	}
	n, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text // validation reports the wrong type
	}
	return n
}

func (d *Document) checkBody(response node, a Answer) error {
	content := response.member("content")
	switch {
	case a.Method == http.MethodHead:
		return nil
	case !content.exists() && len(a.Body) == 0:
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || !content.member(mediaType).exists() {
		return fmt.Errorf("a body of type %q is not described", a.Header.Get("Content-Type"))
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Body))
	if err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	return d.validate(content.member(mediaType).member("schema"), body)
}

func (d *Document) validate(schema node, value any) error {
	compiled, err := d.compile(schema.pointer)
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

func (d *Document) compile(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if compiled := d.schemas[pointer]; compiled != nil {
		return compiled, nil
	}
	compiled, err := d.compiler.Compile(location + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("the schema at %s: %w", pointer, err)
	}
	d.schemas[pointer] = compiled
	return compiled, nil
}

// node is a part of a document; the zero node is a part that does not exist.
type node struct {
	root    any
	pointer string // RFC 6901
	value   any
}

func (n node) exists() bool { return n.value != nil }

// names returns the names of an object's members, sorted.
func (n node) names() []string {
	object, _ := n.value.(map[string]any)
	return slices.Sorted(maps.Keys(object))
}

// member returns a member of an object. It resolves a reference.
func (n node) member(name string) node {
	object, _ := n.value.(map[string]any)
	value, known := object[name]
	if !known {
		return node{}
	}
	m := node{root: n.root, pointer: n.pointer + "/" + escape.Replace(name), value: value}
	target, _ := value.(map[string]any)
	if ref, ok := target["$ref"].(string); ok {
		return m.follow(ref)
	}
	return m
}

// follow resolves a reference within the document.
func (n node) follow(ref string) node {
	at := node{root: n.root, value: n.root}
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.member(unescape.Replace(name))
	}
	return at
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)
