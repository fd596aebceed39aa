// Package openapitest holds the answers of an API against its own OpenAPI 3.1
// document: whatever the document does not say is a fault, of one or the other.
package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is where the compiler knows the document by.
const location = "openapi.json"

// Document is one that answers can be checked by. It is safe for concurrent use.
type Document struct {
	root   node
	prefix string // of all paths

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

// Parse reads a document that has one server.
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
		return nil, errors.New("the document has not one server")
	}
	server, _ := servers[0].(map[string]any)
	d.prefix, _ = server["url"].(string)
	return d, nil
}

// Answer is one that was given.
type Answer struct {
	Method string
	Path   string // as it was sent
	Status int
	Header http.Header
	Body   []byte
}

// Check says in what the answer is not as described.
func (d *Document) Check(a Answer) error {
	response, err := d.response(a)
	if err != nil {
		return err
	}
	return errors.Join(d.checkHeaders(response, a.Header), d.checkBody(response, a))
}

// response finds the description of the answer.
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

// httpHeaders are those that no document speaks of: they are about the connection.
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

// headerValue reads a header as the type that its schema wants.
func headerValue(schema node, text string) any {
	if schema.member("type").value != "integer" {
		return text
	}
	n, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text // which is of the wrong type
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
