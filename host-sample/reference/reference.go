// Package reference renders the API reference as a page: the content of
// openapi.json, with a form to try every operation.
package reference

import (
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

//go:embed templates texts assets
var embedded embed.FS

// Path is the path of the page.
const Path = "/reference"

// Options are what the page needs.
type Options struct {
	API *personalhttp.Handler // what the page describes
	Log *slog.Logger
}

// New returns the handler of [Path] and of the assets below it.
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(embedded, "templates"), Texts: ui.Folder(embedded, "texts"), Assets: ui.Folder(embedded, "assets"),
		AssetPath: Path + "/assets/", LanguagePath: personalpages.LanguagePath, API: o.API, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("the API reference: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, r *http.Request) {
		text, err := o.API.Document(r) // fails while the plugin is unavailable
		var d document
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			x := o.API.ErrorResponse(r, err)
			pages.Problem(w, r, ui.Problem{Status: x.Status, Message: x.Message, Retry: true})
			return
		}
		pages.Render(w, r, http.StatusOK, "reference", ui.Page{Wide: true, Body: newBody(d, origin(o.API, r))})
	})
	return pages.Handler(mux), nil
}

// origin returns the origin of the site as the visitor's browser sees it.
func origin(api *personalhttp.Handler, r *http.Request) string {
	if api.OverHTTPS(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// body is what the page shows.
type body struct {
	Introduction [][]span // paragraphs
	Base         string   // prefix of the paths
	DocumentURL  string
	Operations   []operation
	Common       []statusResponse // of most operations, which leave them out
	Identity     members[scheme]
}

// operation is one method of one path.
type operation struct {
	ID         string
	Method     string
	Path       string
	Summary    []span
	Identified bool // needs credentials
	MediaTypes []string
	Properties []property // of the request body
	Sample     []string   // names of the properties that a sample sends
	Headers    []string   // of a success, and of other responses too
	Responses  []statusResponse
	Curl       string
}

// property is one parameter of a request, or one value of a response.
type property struct {
	schema
	ID       string // within the page; empty for responses
	Name     string
	Required bool
}

// statusResponse describes the responses with one status.
type statusResponse struct {
	Status  string
	Texts   [][]span
	Headers []string   // in addition to those of a success
	Data    []property // of a success
}

func newBody(d document, origin string) body {
	b := body{Introduction: paragraphs(d.Info.Description), Identity: d.Components.SecuritySchemes}
	if len(d.Servers) > 0 {
		b.Base = d.Servers[0].URL
	}
	b.DocumentURL = b.Base + "/openapi.json"
	url := b.Base
	if strings.HasPrefix(url, "/") {
		url = origin + url
	}
	for _, path := range d.Paths {
		for _, method := range path.Value {
			if method.Name != "options" { // sent by browsers only
				op := d.operation(strings.ToUpper(method.Name), path.Name, method.Value)
				op.Curl = op.curl(url)
				b.Operations = append(b.Operations, op)
			}
		}
	}
	b.Common = common(b.Operations)
	return b
}

// common returns the errors that more than half of the operations have, and removes them from
// these.
func common(operations []operation) (shared []statusResponse) {
	count := map[string]int{}
	for _, op := range operations {
		for _, r := range op.Responses {
			count[r.key()]++
		}
	}
	isCommon := func(r statusResponse) bool { return r.Data == nil && 2*count[r.key()] > len(operations) }
	for i := range operations {
		for _, r := range operations[i].Responses {
			if isCommon(r) && !slices.ContainsFunc(shared, func(s statusResponse) bool { return s.key() == r.key() }) {
				shared = append(shared, r)
			}
		}
		operations[i].Responses = slices.DeleteFunc(operations[i].Responses, isCommon)
	}
	slices.SortFunc(shared, func(a, b statusResponse) int { return strings.Compare(a.Status, b.Status) })
	return shared
}

// key identifies a response by its status and texts.
func (r statusResponse) key() string { return fmt.Sprint(r.Status, r.Texts, r.Headers) }

// curl returns a command that calls the operation with its required parameters, and with the first
// alternative of the others.
func (op operation) curl(base string) string {
	command := "curl " + base + op.Path
	if op.Identified {
		command += " \\\n  -H 'User-Id: 1' -H 'User-Hash: …'"
	}
	sent := false
	for _, p := range op.Properties {
		if slices.Contains(op.Sample, p.Name) {
			command, sent = command+" \\\n  -d "+p.Name+"=…", true
		}
	}
	if op.Method == http.MethodPost && !sent {
		command += " -X POST"
	}
	return command
}

func (d *document) operation(method, path string, described described) operation {
	op := operation{
		ID: described.OperationID, Method: method, Path: path, Summary: spans(described.Summary), Identified: len(described.Security) > 0,
	}
	for _, m := range described.RequestBody.Content {
		op.MediaTypes = append(op.MediaTypes, m.Name)
		op.Properties = d.properties(m.Value.Schema, "") // the same for all media types
		parameters := d.schema(m.Value.Schema)
		op.Sample = parameters.Required
		if len(parameters.Alternatives) > 0 {
			op.Sample = slices.Concat(op.Sample, parameters.Alternatives[0])
		}
	}
	for i := range op.Properties {
		op.Properties[i].ID = op.ID + "-" + op.Properties[i].Name
	}
	slices.SortFunc(described.Responses, func(a, b member[response]) int { return strings.Compare(a.Name, b.Name) })
	for _, m := range described.Responses {
		r := d.response(m.Value)
		shown := statusResponse{Status: m.Name, Texts: paragraphs(r.Description)}
		for _, h := range r.Headers {
			switch {
			case len(op.Responses) == 0:
				op.Headers = append(op.Headers, h.Name)
			case !slices.Contains(op.Headers, h.Name):
				shown.Headers = append(shown.Headers, h.Name)
			}
		}
		for _, m := range r.Content {
			shown.Data = d.data(m.Value.Schema)
		}
		op.Responses = append(op.Responses, shown)
	}
	return op
}

// data returns the values of a success, if it has any. If errors share its status,
// the success is the first of the alternatives.
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

// properties returns the properties of an object and, with names such as "a.b" and
// "a[].b", those of the objects in it.
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

// Kind returns the kind of the control for the value: a JSON type, or "choice",
// "secret" or "list".
func (p property) Kind() string {
	switch {
	case len(p.Enum) > 0:
		return "choice"
	case p.Format == "password":
		return "secret"
	case slices.Contains(p.Type, "array"):
		return "list"
	case len(p.Type) > 0:
		return p.Type[0]
	}
	return "string"
}

// Choices are the possible values except null.
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

// Bounds lists the limits of the value.
func (p property) Bounds() string {
	var list []string
	if p.MinLength > 1 {
		list = append(list, fmt.Sprint("≥ ", p.MinLength))
	}
	if p.MaxLength > 0 {
		list = append(list, fmt.Sprint("≤ ", p.MaxLength))
	}
	if p.Minimum != nil {
		list = append(list, "≥ "+strconv.FormatFloat(*p.Minimum, 'f', -1, 64))
	}
	if p.Maximum != nil {
		list = append(list, "≤ "+strconv.FormatFloat(*p.Maximum, 'f', -1, 64))
	}
	if p.Pattern != "" {
		list = append(list, "~ "+p.Pattern)
	}
	return strings.Join(list, ", ")
}

// Text is the value's description.
func (p property) Text() []span { return spans(p.Description) }

// span is a part of a text that is either code or not.
type span struct {
	Text string
	Code bool
}

// spans splits a text with code between backquotes.
func spans(text string) []span {
	var list []span
	for i, part := range strings.Split(text, "`") {
		if part != "" {
			list = append(list, span{Text: part, Code: i%2 == 1})
		}
	}
	return list
}

// paragraphs splits a text at blank lines.
func paragraphs(text string) [][]span {
	var list [][]span
	for _, p := range strings.Split(text, "\n\n") {
		if s := spans(p); s != nil {
			list = append(list, s)
		}
	}
	return list
}
