package system

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// envelope is the form of every answer (HTTP contract, section 2).
type envelope struct {
	Success int `json:"success"`
	Result  struct {
		Type    string           `json:"TYPE"`
		Message string           `json:"MESSAGE"`
		Code    string           `json:"CODE"`
		Fields  map[string]fault `json:"FIELDS"`
	} `json:"result"`
	Data map[string]json.RawMessage `json:"data"`
}

type fault struct {
	Code    string `json:"CODE"`
	Message string `json:"MESSAGE"`
}

// statusOf is the contract's table of codes.
var statusOf = map[string]int{
	"":                       http.StatusOK,
	"malformed_request":      http.StatusBadRequest,
	"invalid_credentials":    http.StatusUnauthorized,
	"unauthenticated":        http.StatusUnauthorized,
	"account_disabled":       http.StatusForbidden,
	"not_found":              http.StatusNotFound,
	"method_not_allowed":     http.StatusMethodNotAllowed,
	"already_exists":         http.StatusConflict,
	"too_large":              http.StatusRequestEntityTooLarge,
	"unsupported_media_type": http.StatusUnsupportedMediaType,
	"validation_failed":      http.StatusUnprocessableEntity,
	"invalid_token":          http.StatusUnprocessableEntity,
	"too_many_attempts":      http.StatusTooManyRequests,
	"internal":               http.StatusInternalServerError,
	"unavailable":            http.StatusServiceUnavailable,
}

var faultCodes = []string{"required", "too_short", "too_long", "invalid_format", "invalid_type", "not_in_list",
	"out_of_range", "mismatch", "taken", "too_common", "unknown_field", "read_only"}

// complaints collects what is wrong with an answer.
type complaints []error

func (c *complaints) expect(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// conform checks an answer against sections 1 and 2, whatever was asked for.
func (a *answer) conform(alwaysOK bool) error {
	var c complaints
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		c.expect(slices.Equal(a.Header.Values(name), []string{want}), "%s is %q, want %q", name, a.Header.Values(name), want)
	}
	ids := a.Header.Values("X-Request-Id")
	c.expect(len(ids) == 1 && ids[0] != "" && len(ids[0]) <= 128, "X-Request-Id is %q", ids)
	c.expect(a.Header.Get("Location") == "" && a.Status/100 != 3, "it redirects: %d", a.Status)
	if a.method == http.MethodHead {
		c.expect(len(a.Raw) == 0, "an answer to HEAD has a body")
		return errors.Join(c...)
	}
	if isDocument(a.Raw) {
		return errors.Join(c...) // it says itself what it is
	}
	top := keysOf(a.Raw)
	c.expect(isSubset(top, "success", "result", "data"), "the envelope has keys %q", top)
	var parts struct{ Result json.RawMessage }
	_ = json.Unmarshal(a.Raw, &parts) // the next line tells
	c.expect(isSubset(keysOf(parts.Result), "TYPE", "MESSAGE", "CODE", "FIELDS"), "result has keys %q", keysOf(parts.Result))
	if err := json.Unmarshal(a.Raw, &a.envelope); err != nil {
		return errors.Join(append(c, fmt.Errorf("no envelope: %w", err))...)
	}
	if a.Success == 1 {
		a.conformSuccess(&c)
	} else {
		a.conformError(&c, slices.Contains(top, "data"), alwaysOK)
	}
	return errors.Join(c...)
}

func (a *answer) conformSuccess(c *complaints) {
	c.expect(a.Status == http.StatusOK, "success with status %d", a.Status)
	c.expect(a.Result.Type == "OK", "success of TYPE %q", a.Result.Type)
	c.expect(a.Result.Code == "" && a.Result.Fields == nil, "success with CODE or FIELDS")
}

func (a *answer) conformError(c *complaints, data, alwaysOK bool) {
	code := a.Result.Code
	c.expect(bytes.Contains(a.Raw, []byte(`"success":0`)), "success is neither 1 nor 0")
	c.expect(!data, "an error with data")
	c.expect(a.Result.Type == "ERROR", "an error of TYPE %q", a.Result.Type)
	c.expect(a.Result.Message != "", "an error without MESSAGE")
	want, known := statusOf[code]
	c.expect(known && code != "", "an error of unknown CODE %q", code)
	if alwaysOK {
		want = http.StatusOK
	}
	c.expect(a.Status == want, "CODE %s with status %d, want %d", code, a.Status, want)
	c.expect((code == "method_not_allowed") == (a.Header.Get("Allow") != ""), "CODE %s with Allow %q", code, a.Header.Get("Allow"))
	if code == "too_many_attempts" || code == "unavailable" {
		seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
		c.expect(err == nil && seconds > 0, "CODE %s with Retry-After %q", code, a.Header.Get("Retry-After"))
	}
	mustName := code == "validation_failed" || code == "already_exists"
	c.expect(mustName == (len(a.Result.Fields) > 0), "CODE %s with FIELDS %v", code, a.Result.Fields)
	for name, f := range a.Result.Fields {
		c.expect(slices.Contains(faultCodes, f.Code) && f.Message != "", "FIELDS.%s is %+v", name, f)
		c.expect((f.Code == "taken") == (code == "already_exists"), "CODE %s with FIELDS.%s %s", code, name, f.Code)
	}
}

func keysOf(object []byte) []string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(object, &m) // what is no object has no keys
	return slices.Sorted(maps.Keys(m))
}

func isSubset(names []string, of ...string) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(of, name) })
}
