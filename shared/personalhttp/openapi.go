package personalhttp

import (
	"bytes"
	"context"
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// openapiJSON is generated from openapi.yaml by make generate.
//
//go:embed openapi.json
var openapiJSON []byte

// document is the OpenAPI document as one handler serves it. The schemas that
// user fields belong to are completed for each request.
type document struct {
	start []byte // the document's JSON up to the schemas below, which are its end

	registerParameters *object
	profileParameters  *object
	userProfile        *object
}

// newDocument returns the document of a handler at the prefix. Without origins
// CORS is off.
func newDocument(prefix string, origins []string, alwaysOK bool) (*document, error) {
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
	if alwaysOK {
		answerOK(root, preflight.at("responses"))
	}
	if len(origins) > 0 {
		components.at("headers", "Access-Control-Allow-Origin", "schema").set("enum", origins)
		paths := root.at("paths")
		for _, path := range paths.names {
			operation := preflight.clone()
			operation.set("operationId", "options_"+strings.NewReplacer("/", "", ".", "_").Replace(path))
			paths.at(path).set("options", operation)
		}
	}
	schemas := components.at("schemas")
	d := &document{
		registerParameters: schemas.remove("register_parameters"),
		profileParameters:  schemas.remove("profile_parameters"),
		userProfile:        schemas.remove("user_profile"),
	}
	components.set("schemas", components.remove("schemas")) // now last
	root.set("components", root.remove("components"))
	whole, err := marshal(root)
	d.start = bytes.TrimSuffix(whole, []byte("}}}"))
	return d, err
}

// answerOK moves every response that has an envelope to HTTP 200.
func answerOK(root, preflight *object) {
	info, components := root.at("info"), root.at("components")
	info.set("description", info.text("description")+"\n\nThis site answers every envelope with HTTP 200, errors too.")
	components.at("headers", "Retry-After").set("required", false)
	paths := root.at("paths")
	for _, path := range paths.names {
		for _, method := range paths.at(path).names {
			gatherResponses(paths.at(path, method), components)
		}
	}
	preflight.set("200", preflight.remove("405"))
	responses := components.at("responses")
	for _, name := range slices.Clone(responses.names) {
		if name != "not_found" && name != "method_not_allowed" { // no operation refers to the others any more
			responses.remove(name)
		}
	}
}

// gatherResponses makes one response of all that an operation has, the success
// first.
func gatherResponses(operation, components *object) {
	responses := operation.at("responses")
	success := responses.at("200")
	descriptions := []string{success.text("description")}
	forms := []any{success.at("content", "application/json", "schema")}
	for _, status := range slices.Sorted(slices.Values(responses.names)) {
		if status == "200" {
			continue
		}
		name := strings.TrimPrefix(responses.at(status).text("$ref"), "#/components/responses/")
		failure := components.at("responses", name)
		descriptions = append(descriptions, failure.text("description"))
		forms = append(forms, failure.at("content", "application/json", "schema"))
		for _, header := range failure.at("headers").names {
			success.at("headers").set(header, failure.at("headers", header))
		}
		responses.remove(status)
	}
	name := operation.text("operationId") + "_response"
	components.at("schemas").set(name, map[string]any{"oneOf": forms})
	success.set("description", strings.Join(descriptions, "\n\n"))
	success.at("content", "application/json").set("schema", map[string]any{"$ref": "#/components/schemas/" + name})
}

// with returns the document with these user fields.
func (d *document) with(list []personal.Field, l *labels) ([]byte, error) {
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

// describe is the operation behind openapi.json.
func describe(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	if err != nil {
		return nil, err
	}
	d, err := in.document()
	if err != nil {
		return nil, err
	}
	whole, err := d.with(list, in.labels)
	return json.RawMessage(whole), err
}

// Document returns what openapi.json responds to the request: the API as an
// OpenAPI 3.1 document in JSON, with the user fields in force now and their
// labels in the caller's language. It is for pages that show the document. An
// error is the service's, for example [personal.CodeUnavailable].
func (h *Handler) Document(r *http.Request) (_ []byte, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	whole, err := describe(ctx, h.service, &input{labels: h.locales.labels(r), document: h.document})
	if err != nil {
		return nil, err
	}
	return whole.(json.RawMessage), nil
}
