package personalhttp

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// furtherCodes are those of section 2 that an operation returns besides those that follow from
// its parameters and its row in [personal.Operations].
var furtherCodes = map[personal.OperationName]string{
	personal.OpAuthorize:          "invalid_credentials code_required invalid_code codes_blocked account_disabled email_unverified",
	personal.OpRegister:           "already_exists",
	personal.OpRecoverConfirm:     "invalid_token",
	personal.OpChangeEmail:        "already_exists",
	personal.OpConfirmEmail:       "invalid_token already_exists",
	personal.OpUndoDelete:         "invalid_token",
	personal.OpBeginTwoFactor:     "email_unverified two_factor_on",
	personal.OpConfirmTwoFactor:   "email_unverified two_factor_off",
	personal.OpRenewRecoveryCodes: "two_factor_off",
	personal.OpRemoveOwnTwoFactor: "two_factor_off",
	personal.OpBeginPasskey:       "unauthenticated", // of a proof
	personal.OpAuthorizePasskey:   "invalid_credentials code_required invalid_code codes_blocked account_disabled email_unverified",
	personal.OpAddPasskey:         "email_unverified too_many_passkeys",
	personal.OpConfirmPasskey:     "email_unverified too_many_passkeys",
	personal.OpRemovePasskey:      "last_way_in",

	personal.OpBeginMailedCode:     "unauthenticated", // of a proof
	personal.OpAuthorizeMailedCode: "code_required invalid_code codes_blocked",
}

const commonCodes = " malformed_request not_found too_large unsupported_media_type too_many_attempts internal unavailable"

// described is an operation in the document.
type described struct {
	OperationID string
	Security    []map[string][]string
	Parameters  []struct {
		Ref string `json:"$ref"`
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema describedSchema }
	}
	Responses map[string]describedResponse
}

type describedResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema describedSchema }
}

// describedSchema is a schema in the document.
type describedSchema struct {
	Ref        string `json:"$ref"`
	Const      any
	Enum       []string
	Properties map[string]describedSchema
	Required   []string
	Type       any
	Any        [][]string       `json:"x-required-any"` // sets of parameters of which one is required
	Examples   []map[string]any `json:"examples"`
}

type describedAPI struct {
	Paths      map[string]map[string]described
	Components struct {
		Responses map[string]describedResponse
		Schemas   map[string]describedSchema
	}
}

// readDocument returns the document of a handler, without user fields.
func readDocument(t *testing.T, origins []string) describedAPI {
	t.Helper()
	d, err := newDocument("/x", origins, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.with(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var api describedAPI
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	return api
}

func (a describedAPI) schema(s describedSchema) describedSchema {
	if s.Ref != "" {
		return a.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// codes returns the codes of a response.
func (a describedAPI) codes(r describedResponse) []string {
	if r.Ref != "" {
		r = a.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
	}
	return a.codesOf(r.Content["application/json"].Schema)
}

func (a describedAPI) codesOf(s describedSchema) []string {
	s = a.schema(s)
	var list []string
	if code, ok := a.schema(s.Properties["result"]).Properties["CODE"]; ok {
		list = append(list, code.Enum...)
		if one, ok := code.Const.(string); ok {
			list = append(list, one)
		}
	}
	return list
}

// body returns the schema of an operation's parameters, which is the same in every media type. Forms have the credential of a
// passkey as text: their schema has a name of its own.
func (a describedAPI) body(t *testing.T, op described) describedSchema {
	t.Helper()
	if op.RequestBody == nil {
		return describedSchema{}
	}
	want := []string{mediaJSON, mediaForm, mediaMultipart}
	if got := slices.Sorted(maps.Keys(op.RequestBody.Content)); !slices.Equal(got, want) {
		t.Errorf("%s: got media types %q, want %q", op.OperationID, got, want)
	}
	schema := op.RequestBody.Content["application/json"].Schema
	ofForm := strings.TrimSuffix(schema.Ref, "_parameters") + "_form_parameters"
	for mediaType, content := range op.RequestBody.Content {
		if content.Schema.Ref != schema.Ref && content.Schema.Ref != ofForm {
			t.Errorf("%s: got another schema for %s, want one for all media types", op.OperationID, mediaType)
		}
	}
	return a.schema(schema)
}

// Generators make a struct of an object, and nothing of a choice between anonymous schemas.
func TestOpenAPI_BodiesAreObjectsWithAnExample(t *testing.T) {
	if choice := regexp.MustCompile(`"(oneOf|anyOf|allOf)":`).Find(openapiJSON); choice != nil {
		t.Errorf("the document has %s, which some generators refuse: write one object", choice)
	}
	api := readDocument(t, nil)
	for path, operations := range api.Paths {
		for method, op := range operations {
			if op.RequestBody == nil {
				continue
			}
			body := api.body(t, op)
			if body.Type != "object" || len(body.Examples) != 1 {
				t.Errorf("%s %s: got a body of type %v and %d examples, want an object with an example", method, path, body.Type, len(body.Examples))
				continue
			}
			example := body.Examples[0]
			has := func(names []string) bool {
				return !slices.ContainsFunc(names, func(name string) bool { return example[name] == nil })
			}
			if !has(body.Required) || len(body.Any) > 0 && !slices.ContainsFunc(body.Any, has) {
				t.Errorf("%s %s: the example %v lacks a required parameter of %v, or one of %v", method, path, example, body.Required, body.Any)
			}
			for name := range example {
				if _, ok := body.Properties[name]; !ok {
					t.Errorf("%s %s: the example has %s, which is no parameter", method, path, name)
				}
			}
			for _, name := range slices.Concat(body.Any...) {
				if _, ok := body.Properties[name]; !ok {
					t.Errorf("%s %s: x-required-any has %s, which is no parameter", method, path, name)
				}
			}
		}
	}
}

func TestOpenAPI_DescribesExactlyTheRoutes(t *testing.T) {
	var routed []string
	for name, r := range newRoutes() {
		for method := range r.operations {
			routed = append(routed, strings.ToLower(method)+" "+name)
		}
	}
	slices.Sort(routed)
	for _, origins := range [][]string{nil, {"https://example.com"}} {
		var got []string
		ids := map[string]bool{}
		for path, item := range readDocument(t, origins).Paths {
			if canonical := (&route{name: strings.Trim(path, "/")}).path(); path != canonical {
				t.Errorf("got path %s, want %s", path, canonical)
			}
			for method, op := range item {
				if ids[op.OperationID] {
					t.Errorf("got operationId %s twice", op.OperationID)
				}
				ids[op.OperationID] = true
				if method != "options" {
					got = append(got, method+" "+strings.Trim(path, "/"))
				}
			}
			if _, preflight := item["options"]; preflight != (origins != nil) {
				t.Errorf("%s: got a preflight: %t, want %t", path, preflight, origins != nil)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, routed) {
			t.Errorf("got operations %q, want %q", got, routed)
		}
	}
}

// TestParameterNames_AreThoseOfTheDocument fails if an operation gets a new parameter. Add it
// to notReserved: a site may have a user field of that name.
func TestParameterNames_AreThoseOfTheDocument(t *testing.T) {
	notReserved := []string{"proof", "attempt", "credential", "purpose", "remove_other_ways_in", "mailed_code"}
	documented, err := parameterNames()
	if err != nil {
		t.Fatal(err)
	}
	want := append(personal.ParameterNames(), notReserved...)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(documented)); !slices.Equal(got, want) {
		t.Errorf("got the parameters %q in the document, want %q", got, want)
	}
}

// The table of what proves the user names each operation, unless the pair of the session is enough, and says
// which take a proof.
func TestContract_SaysForEveryOperationWhatProvesTheUser(t *testing.T) {
	contract, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(contract), "| operations | proved by |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var got, proven []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		for _, path := range strings.Split(strings.TrimSpace(cells[1]), ", ") {
			path = strings.TrimSuffix(path, "/")
			got = append(got, path)
			if strings.Contains(cells[2], "or a [proof]") || strings.Contains(cells[2], "or a proof") {
				proven = append(proven, path)
			}
		}
	}
	var want []string
	api := readDocument(t, nil)
	for path, item := range api.Paths {
		path = strings.Trim(path, "/")
		parameters := api.body(t, item["post"]).Properties
		if _, ok := parameters["proof"]; ok {
			want = append(want, path)
		}
		_, password := parameters["password"]
		for method, op := range item {
			if (len(op.Security) == 0 || len(op.Security) > 1 || password) && !slices.Contains(got, path) {
				t.Errorf("%s %s is not in the table, want what proves the user besides or in place of the pair", method, path)
			}
		}
	}
	slices.Sort(proven)
	slices.Sort(want)
	if !slices.Equal(proven, want) {
		t.Errorf("got a proof for %q in the table, want %q", proven, want)
	}
}

func TestOpenAPI_DescribesHeadersAndCodes(t *testing.T) {
	api := readDocument(t, nil)
	operations := map[string]personal.Operation{"get openapi.json": {}}
	for _, e := range Endpoints() {
		for _, o := range personal.Operations() {
			for _, method := range e.Methods {
				if o.Name == e.Operation {
					operations[strings.ToLower(method)+" "+e.Path] = o
				}
			}
		}
	}
	for name, operation := range operations {
		method, path, _ := strings.Cut(name, " ")
		path = (&route{name: path}).path()
		op := api.Paths[path][method]
		if want := operationID(method, path); op.OperationID != want {
			t.Errorf("%s: got operationId %s, want %s", name, op.OperationID, want)
		}
		optional := slices.ContainsFunc(op.Security, func(headers map[string][]string) bool { return len(headers) == 0 })
		if (len(op.Security) > 0 && !optional) != operation.Credentials {
			t.Errorf("%s: got security %v, want some: %t, as in personal.Operations", name, op.Security, operation.Credentials)
		}
		if len(op.Parameters) != 2 {
			t.Errorf("%s: got header parameters %v, want 2", name, op.Parameters)
		}

		body := api.body(t, op)
		if required := op.RequestBody != nil && op.RequestBody.Required; required != (len(body.Required)+len(body.Any) > 0) {
			t.Errorf("%s: got a required body: %t, want %t", name, required, !required)
		}

		want := map[string][]string{"200": nil}
		codes := furtherCodes[operation.Name] + commonCodes
		if len(body.Properties) > 0 {
			codes += " validation_failed"
		}
		if operation.Judged() {
			codes += " refused"
		}
		if method == "post" {
			codes += " cross_origin"
		}
		if operation.Credentials {
			codes += " unauthenticated"
		}
		for _, code := range strings.Fields(codes) {
			status := strconv.Itoa(statuses[personal.Code(code)])
			want[status] = append(want[status], code)
		}
		for _, list := range want {
			slices.Sort(list)
		}
		described := map[string][]string{}
		for status, r := range op.Responses {
			described[status] = slices.Sorted(slices.Values(api.codes(r)))
		}
		if diff := cmp.Diff(want, described); diff != "" {
			t.Errorf("%s: codes by status (-want +got):\n%s", name, diff)
		}
	}
}

// TestOpenAPI_DescribesReadParameters sends each parameter that is described, or that
// any operation reads, as a repeated one: an operation that reads it returns
// malformed_request.
func TestOpenAPI_DescribesReadParameters(t *testing.T) {
	api := readDocument(t, nil)
	names := map[string]bool{}
	for method := range reflect.TypeFor[personal.Service]().Methods() {
		for in := range method.Type.Ins() {
			if in.Kind() != reflect.Struct {
				continue
			}
			for f := range in.Fields() {
				names[parameterName(f.Name)] = true
			}
		}
	}
	for _, item := range api.Paths {
		for _, op := range item {
			for name := range api.body(t, op).Properties {
				names[name] = true
			}
		}
	}
	for _, r := range newRoutes() {
		for method, call := range r.operations {
			body := api.body(t, api.Paths[r.path()][strings.ToLower(method)])
			takesFields := method == http.MethodPost && (r.name == "register" || r.name == "profile")
			for name := range names {
				in := &input{params: params{name: {Kind: personal.InputRepeated}}}
				_, err := call(t.Context(), &personaltest.Service{}, in)
				reads := personal.CodeOf(err) == personal.CodeMalformedRequest
				reads = reads || name == "name" && takesFields // the service reads it
				if _, described := body.Properties[name]; reads != described {
					t.Errorf("%s %s: parameter %s: read: %t, described: %t", method, r.name, name, reads, described)
				}
			}
		}
	}
}

func TestOpenAPI_DescribesContractConstants(t *testing.T) {
	schemas := readDocument(t, nil).Components.Schemas
	types := constants[string](t, "../personal/fieldtypes.go", "FieldType")
	if got := schemas["field"].Properties["type"].Enum; !slices.Equal(got, types) {
		t.Errorf("got types of user fields %q, want %q", got, types)
	}
	for i, fieldType := range personal.FieldTypes() {
		if string(fieldType) != types[i] {
			t.Errorf("got the row of %s in fieldtypes.go, want that of %s", fieldType, types[i])
		}
	}
	for _, fieldType := range types {
		if typeSchema(personal.FieldType(fieldType))["type"] == nil {
			t.Errorf("type %s: got no JSON type", fieldType)
		}
	}
	fieldErrors := slices.DeleteFunc(constants[string](t, "../personal/error.go", "FieldErrorCode"), func(code string) bool {
		return code == "taken"
	})
	slices.Sort(fieldErrors)
	if got := schemas["field_error"].Properties["CODE"].Enum; !slices.Equal(got, fieldErrors) {
		t.Errorf("got codes of field errors %q, want %q", got, fieldErrors)
	}
	described := map[string]bool{}
	for name, schema := range schemas {
		if code := schema.Properties["result"].Properties["CODE"]; strings.HasPrefix(name, "error_") {
			if one, ok := code.Const.(string); ok {
				described[one] = true
				if name != "error_"+one {
					t.Errorf("%s: got code %s", name, one)
				}
			}
			for _, one := range code.Enum {
				described[one] = true
			}
		}
	}
	ofPages := []personal.Code{personal.CodeProfileIncomplete, personal.CodeTooManyIdentities} // of the host's own
	codes := slices.DeleteFunc(constants[string](t, "../personal/error.go", "Code"), func(code string) bool {
		return slices.Contains(ofPages, personal.Code(code))
	})
	if got := slices.Sorted(maps.Keys(described)); !slices.Equal(got, slices.Sorted(slices.Values(codes))) {
		t.Errorf("got codes %q, want %q", got, codes)
	}
}

func TestJSONPattern_PortablePatternsOnly(t *testing.T) {
	for re2, want := range map[string]string{
		``:                             ``,
		`[a-z]+`:                       `^(?:[a-z]+)$`,
		`\+?[0-9][0-9 ()-]{4,18}[0-9]`: `^(?:\+?[0-9][0-9 ()-]{4,18}[0-9])$`,
		`a|(?:b|c)d*`:                  `^(?:a|(?:b|c)d*)$`,
		`[^\]]\.\d`:                    `^(?:[^\]]\.\d)$`,
		`\(?x`:                         ``,
		`(?i)a`:                        ``,
		`(?P<year>[0-9]{4})`:           ``,
		`[[:alpha:]]`:                  ``,
		`\pL+`:                         ``,
		`\p{Greek}`:                    ``,
		`\s`:                           ``,
		`\Aa\z`:                        ``,
		`\Qa.b\E`:                      ``,
		`a{,3}`:                        ``,
		`]`:                            ``,
	} {
		if got := jsonPattern(re2); got != want {
			t.Errorf("%s: got %q, want %q", re2, got, want)
		}
	}
}
