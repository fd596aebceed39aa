package personalhttp

import (
	"fmt"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// headersAlways are on every answer.
func headersAlways() []string {
	return []string{headerRequestID, "Cache-Control", "Content-Security-Policy", "X-Content-Type-Options", "Vary"}
}

// headersOfCORS are on every answer to a listed origin.
func headersOfCORS() []string {
	return []string{"Access-Control-Allow-Origin", "Access-Control-Expose-Headers"}
}

func headersOfPreflight() []string {
	return []string{"Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Max-Age"}
}

// answerHeaders refers to the headers of an answer with one of these codes.
func (d *describer) answerHeaders(codes []personal.Code) openapi.Map[*openapi.Header] {
	names := headersAlways()
	if slices.Contains(codes, personal.CodeTooManyAttempts) || slices.Contains(codes, personal.CodeUnavailable) {
		names = append(names, "Retry-After")
	}
	if slices.Contains(codes, personal.CodeMethodNotAllowed) {
		names = append(names, "Allow")
	}
	if len(d.origins) > 0 {
		names = append(names, headersOfCORS()...)
	}
	var m openapi.Map[*openapi.Header]
	for _, name := range names {
		m.Add(name, refHeader(name))
	}
	return m
}

func refHeader(name string) *openapi.Header {
	return &openapi.Header{Ref: "#/components/headers/" + name}
}

// headers describes every header that an answer may have, beside those of HTTP
// itself.
func (d *describer) headers() openapi.Map[*openapi.Header] {
	var m openapi.Map[*openapi.Header]
	add := func(name string, required bool, schema *openapi.Schema) {
		m.Add(name, &openapi.Header{Required: required, Schema: schema})
	}
	exactly := func(value string) *openapi.Schema { return &openapi.Schema{Const: value} }

	add(headerRequestID, true, requestIDSchema())
	add("Cache-Control", true, exactly("no-store"))
	add("Content-Security-Policy", true, exactly(answerPolicy))
	add("X-Content-Type-Options", true, exactly("nosniff"))
	add("Vary", true, text(1, 0, "What of the request the answer depends on."))
	add("Retry-After", !d.alwaysOK, &openapi.Schema{Type: openapi.Types{"integer"}, Minimum: bound(1), Description: "Seconds. With `too_many_attempts` and `unavailable`, always."})
	add("Allow", true, text(1, 0, "The methods that the path has."))
	if len(d.origins) == 0 {
		return m
	}
	var origins []any
	for _, origin := range d.origins {
		origins = append(origins, origin)
	}
	add("Access-Control-Allow-Origin", false, &openapi.Schema{Enum: origins, Description: "Where the request is of this origin, and so for the other CORS headers."})
	add("Access-Control-Expose-Headers", false, exactly(exposedHeaders))
	add("Access-Control-Allow-Methods", true, text(1, 0, ""))
	add("Access-Control-Allow-Headers", true, exactly(allowedHeaders))
	add("Access-Control-Max-Age", true, exactly(preflightAge))
	return m
}

func requestIDSchema() *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Pattern: fmt.Sprintf("^[A-Za-z0-9._-]{1,%d}$", maxRequestID)}
}

func bound(n float64) *float64 { return &n }
