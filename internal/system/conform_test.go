package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
)

// envelope is the form of every response (HTTP contract, section 2).
type envelope struct {
	Success int `json:"success"`
	Result  struct {
		Type    string                `json:"TYPE"`
		Message string                `json:"MESSAGE"`
		Code    string                `json:"CODE"`
		Fields  map[string]fieldError `json:"FIELDS"`
	} `json:"result"`
	Data map[string]json.RawMessage `json:"data"`
}

type fieldError struct {
	Code    string `json:"CODE"`
	Message string `json:"MESSAGE"`
}

// statusOf is the contract's table of codes.
var statusOf = map[string]int{
	"":                       http.StatusOK,
	"malformed_request":      http.StatusBadRequest,
	"invalid_credentials":    http.StatusUnauthorized,
	"unauthenticated":        http.StatusUnauthorized,
	"code_required":          http.StatusUnauthorized,
	"invalid_code":           http.StatusUnauthorized,
	"codes_blocked":          http.StatusUnauthorized,
	"account_disabled":       http.StatusForbidden,
	"email_unverified":       http.StatusForbidden,
	"profile_incomplete":     http.StatusForbidden,
	"refused":                http.StatusForbidden,
	"cross_origin":           http.StatusForbidden,
	"not_found":              http.StatusNotFound,
	"method_not_allowed":     http.StatusMethodNotAllowed,
	"already_exists":         http.StatusConflict,
	"two_factor_on":          http.StatusConflict,
	"two_factor_off":         http.StatusConflict,
	"too_many_passkeys":      http.StatusConflict,
	"too_many_identities":    http.StatusConflict,
	"last_way_in":            http.StatusConflict,
	"too_large":              http.StatusRequestEntityTooLarge,
	"unsupported_media_type": http.StatusUnsupportedMediaType,
	"validation_failed":      http.StatusUnprocessableEntity,
	"invalid_token":          http.StatusUnprocessableEntity,
	"too_many_attempts":      http.StatusTooManyRequests,
	"internal":               http.StatusInternalServerError,
	"unavailable":            http.StatusServiceUnavailable,
}

var fieldErrorCodes = []string{"required", "too_short", "too_long", "invalid_format", "invalid_type", "not_in_list",
	"out_of_range", "mismatch", "taken", "too_common", "unknown_field", "read_only"}

// violations are the rules that a response breaks.
type violations []error

func (v *violations) expect(ok bool, format string, args ...any) {
	if !ok {
		*v = append(*v, fmt.Errorf(format, args...))
	}
}

// conform checks a response against sections 1 and 2 of the contract.
func (r *response) conform(alwaysOK bool) error {
	var v violations
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		v.expect(slices.Equal(r.Header.Values(name), []string{want}), "%s is %q, want %q", name, r.Header.Values(name), want)
	}
	ids := r.Header.Values("X-Request-Id")
	v.expect(len(ids) == 1 && ids[0] != "" && len(ids[0]) <= 128, "X-Request-Id is %q", ids)
	v.expect(r.Header.Get("Location") == "" && r.Status/100 != 3, "it redirects: %d", r.Status)
	if r.method == http.MethodHead {
		v.expect(len(r.Raw) == 0, "a response to HEAD has a body")
		return errors.Join(v...)
	}
	if isDocument(r.Raw) {
		return errors.Join(v...) // described checks it
	}
	top := keysOf(r.Raw)
	v.expect(isSubset(top, "success", "result", "data"), "the envelope has keys %q", top)
	var parts struct{ Result json.RawMessage }
	_ = json.Unmarshal(r.Raw, &parts) // the next line checks it
	v.expect(isSubset(keysOf(parts.Result), "TYPE", "MESSAGE", "CODE", "FIELDS"), "result has keys %q", keysOf(parts.Result))
	if err := json.Unmarshal(r.Raw, &r.envelope); err != nil {
		return errors.Join(append(v, fmt.Errorf("not an envelope: %w", err))...)
	}
	if r.Success == 1 {
		r.conformSuccess(&v)
	} else {
		r.conformError(&v, slices.Contains(top, "data"), alwaysOK)
	}
	return errors.Join(v...)
}

func (r *response) conformSuccess(v *violations) {
	v.expect(r.Status == http.StatusOK, "success with status %d", r.Status)
	v.expect(r.Result.Type == "OK", "success of TYPE %q", r.Result.Type)
	v.expect(r.Result.Code == "" && r.Result.Fields == nil, "success with CODE or FIELDS")
}

func (r *response) conformError(v *violations, data, alwaysOK bool) {
	code := r.Result.Code
	v.expect(bytes.Contains(r.Raw, []byte(`"success":0`)), "success is neither 1 nor 0")
	v.expect(!data, "an error with data")
	v.expect(r.Result.Type == "ERROR", "an error of TYPE %q", r.Result.Type)
	v.expect(r.Result.Message != "", "an error without MESSAGE")
	want, known := statusOf[code]
	v.expect(known && code != "", "an error of unknown CODE %q", code)
	if alwaysOK {
		want = http.StatusOK
	}
	v.expect(r.Status == want, "CODE %s with status %d, want %d", code, r.Status, want)
	v.expect((code == "method_not_allowed") == (r.Header.Get("Allow") != ""), "CODE %s with Allow %q", code, r.Header.Get("Allow"))
	if code == "too_many_attempts" || code == "unavailable" {
		seconds, err := strconv.Atoi(r.Header.Get("Retry-After"))
		v.expect(err == nil && seconds > 0, "CODE %s with Retry-After %q", code, r.Header.Get("Retry-After"))
	}
	named := code == "validation_failed" || code == "already_exists"
	v.expect(named == (len(r.Result.Fields) > 0), "CODE %s with FIELDS %v", code, r.Result.Fields)
	for name, f := range r.Result.Fields {
		v.expect(slices.Contains(fieldErrorCodes, f.Code) && f.Message != "", "FIELDS.%s is %+v", name, f)
		v.expect((f.Code == "taken") == (code == "already_exists"), "CODE %s with FIELDS.%s %s", code, name, f.Code)
	}
}

func keysOf(object []byte) []string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(object, &m) // any other JSON has no keys
	return slices.Sorted(maps.Keys(m))
}

func isSubset(names []string, of ...string) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(of, name) })
}

func (r *response) asDescribed(request *http.Request) openapitest.Response {
	return openapitest.Response{Method: request.Method, Path: request.URL.EscapedPath(), Status: r.Status, Header: r.Header, Body: r.Raw}
}

// errNoDocument means that the plugin, which knows the user fields, is unavailable.
var errNoDocument = errors.New("openapi.json is unavailable")

// described checks a response of the API against openapi.json. The document is
// requested at the first response, and again when a response does not match it: the
// schema of user fields may have changed. A site that sends HTTP 200 only describes the
// status of each CODE.
func (s *system) described(a openapitest.Response) error {
	if !strings.HasPrefix(s.url+a.Path, strings.TrimSuffix(s.api, "/")) {
		return nil
	}
	if s.alwaysOK {
		var envelope struct{ Result struct{ Code string } }
		_ = json.Unmarshal(a.Body, &envelope) // preflights have no body
		if code := envelope.Result.Code; code != "" {
			a.Status = statusOf[code]
		}
	}
	var mismatch error
	if known := s.document.Load(); known != nil {
		if mismatch = known.Check(a); mismatch == nil {
			return nil
		}
	}
	fresh, err := s.fetchDocument()
	switch {
	case errors.Is(err, errNoDocument) && mismatch == nil:
		return nil
	case err != nil:
		return errors.Join(mismatch, err)
	}
	s.document.Store(fresh)
	return fresh.Check(a)
}

func (s *system) fetchDocument() (*openapitest.Document, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.api+"openapi.json", nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDocument, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !isDocument(body) {
		return nil, fmt.Errorf("%w: got %d %s, %v", errNoDocument, response.StatusCode, body, err)
	}
	if known, ok := documents.Load(string(body)); ok {
		return known.(*openapitest.Document), nil
	}
	parsed, err := openapitest.Parse(body)
	if err == nil {
		documents.Store(string(body), parsed)
	}
	return parsed, err
}

// documents are the parsed API documents by their text: most hosts have the same, and a document
// compiles each schema at the first response that has it.
var documents sync.Map

// isDocument reports whether a body is the API document, the one response of the API
// that is not an envelope.
func isDocument(body []byte) bool { return bytes.HasPrefix(body, []byte(`{"openapi":`)) }
