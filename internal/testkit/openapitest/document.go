// Package openapitest checks the responses of an API against its OpenAPI 3.1 document.
// Anything that the document does not describe is an error.
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

// location is the name of the document in the compiler.
const location = "openapi.json"

// Document is a parsed OpenAPI document. It is safe for concurrent use.
type Document struct {
	root   node
	prefix string // of all paths

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by pointer
}

// Parse parses a document, which must name exactly one server.
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
		return nil, errors.New("the document must name exactly one server")
	}
	server, _ := servers[0].(map[string]any)
	d.prefix, _ = server["url"].(string)
	return d, nil
}

// Response is a response of the API to check.
type Response struct {
	Method string // of the request
	Path   string // of the request, as sent
	Status int
	Header http.Header
	Body   []byte
}

// Check returns an error for every difference between a response and its description.
func (d *Document) Check(r Response) error {
	described, err := d.description(r)
	if err != nil {
		return err
	}
	return errors.Join(d.checkHeaders(described, r.Header), d.checkBody(described, r))
}

// description returns the description of a response.
func (d *Document) description(r Response) (node, error) {
	item, known := d.item(r.Path)
	if !known {
		return d.root.member("components").member("responses").member("not_found"), nil
	}
	operation := item.member(strings.ToLower(r.Method))
	if !operation.exists() {
		return d.root.member("components").member("responses").member("method_not_allowed"), nil
	}
	response := operation.member("responses").member(fmt.Sprint(r.Status))
	if !response.exists() {
		return node{}, fmt.Errorf("status %d is not described", r.Status)
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

// httpHeaders are headers of the connection, which no document describes.
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

// headerValue converts a header to the type of its schema.
func headerValue(schema node, text string) any {
	if schema.member("type").value != "integer" {
		return text
	}
	n, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return text // validation then fails
	}
	return n
}

func (d *Document) checkBody(response node, r Response) error {
	content := response.member("content")
	switch {
	case r.Method == http.MethodHead:
		return nil
	case !content.exists() && len(r.Body) == 0:
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !content.member(mediaType).exists() {
		return fmt.Errorf("a body of type %q is not described", r.Header.Get("Content-Type"))
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Body))
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
