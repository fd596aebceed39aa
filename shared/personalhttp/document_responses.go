package personalhttp

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// commonCodes are those that any operation may answer.
func commonCodes() []personal.Code {
	return []personal.Code{
		personal.CodeMalformedRequest, personal.CodeNotFound, personal.CodeTooLarge, personal.CodeUnsupportedMediaType,
		personal.CodeTooManyAttempts, personal.CodeInternal, personal.CodeUnavailable,
	}
}

// allCodes returns every code that the operation may answer.
func (op operation) allCodes() []personal.Code {
	codes := append(commonCodes(), op.codes...)
	if op.identified {
		codes = append(codes, personal.CodeUnauthenticated)
	}
	return codes
}

// responses describes the answers of an operation by status. Those that
// operations share are components.
func (d *describer) responses(op operation) openapi.Map[*openapi.Response] {
	byStatus := d.byStatus(op.allCodes())
	var m openapi.Map[*openapi.Response]
	m.Add(strconv.Itoa(http.StatusOK), d.success(op, byStatus[http.StatusOK]))
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		if status != http.StatusOK {
			m.Add(strconv.Itoa(status), refResponse(byStatus[status]))
		}
	}
	return m
}

// byStatus groups codes by the status they are answered with.
func (d *describer) byStatus(codes []personal.Code) map[int][]personal.Code {
	m := map[int][]personal.Code{}
	for _, code := range codes {
		status, _ := statusOf(code)
		if d.alwaysOK {
			status = http.StatusOK
		}
		m[status] = append(m[status], code)
	}
	return m
}

// success describes what is answered with HTTP 200: what was asked for, and the
// errors that are answered so too.
func (d *describer) success(op operation, codes []personal.Code) *openapi.Response {
	r := d.failure(codes)
	description := "Done."
	if op.done != "" {
		description = d.texts.done[op.done]
	}
	r.Description = strings.TrimSpace(description + "\n\n" + r.Description)
	r.Content = jsonContent(oneOf(append([]*openapi.Schema{d.successSchema(op)}, errorSchemas(codes)...)))
	return r
}

// failure describes the answer with any of these codes.
func (d *describer) failure(codes []personal.Code) *openapi.Response {
	descriptions := make([]string, 0, len(codes))
	for _, code := range codes {
		descriptions = append(descriptions, fmt.Sprintf("`%s`: %s", code, d.texts.codes[code]))
	}
	return &openapi.Response{
		Description: strings.Join(descriptions, "\n\n"),
		Headers:     d.answerHeaders(codes),
		Content:     jsonContent(oneOf(errorSchemas(codes))),
	}
}

func errorSchemas(codes []personal.Code) []*openapi.Schema {
	schemas := make([]*openapi.Schema, 0, len(codes))
	for _, code := range codes {
		schemas = append(schemas, refSchema(errorName(code)))
	}
	return schemas
}

func oneOf(schemas []*openapi.Schema) *openapi.Schema {
	if len(schemas) == 1 {
		return schemas[0]
	}
	return &openapi.Schema{OneOf: schemas}
}

func jsonContent(s *openapi.Schema) openapi.Map[openapi.MediaType] {
	return openapi.Map[openapi.MediaType]{{Name: "application/json", Value: openapi.MediaType{Schema: s}}}
}

// sharedResponses are the components that [describer.responses] refers to, and
// the answers where there is no operation.
func (d *describer) sharedResponses(routes []*route) openapi.Map[*openapi.Response] {
	groups := map[string][]personal.Code{}
	add := func(codes []personal.Code) { groups[responseName(codes)] = codes }
	add([]personal.Code{personal.CodeNotFound})
	add([]personal.Code{personal.CodeMethodNotAllowed})
	for _, r := range routes {
		for _, op := range r.operations {
			for status, codes := range d.byStatus(op.allCodes()) {
				if status != http.StatusOK {
					add(codes)
				}
			}
		}
	}
	var m openapi.Map[*openapi.Response]
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		m.Add(name, d.failure(groups[name]))
	}
	return m
}

func responseName(codes []personal.Code) string {
	names := make([]string, 0, len(codes))
	for _, code := range codes {
		names = append(names, string(code))
	}
	return strings.Join(names, "-or-")
}

func refResponse(codes []personal.Code) *openapi.Response {
	return &openapi.Response{Ref: "#/components/responses/" + responseName(codes)}
}

// preflight describes the method that browsers ask by what they may send.
func (d *describer) preflight(r *route) *openapi.Operation {
	granted := &openapi.Response{Description: "To a listed origin that asks what it may send."}
	for _, name := range slices.Concat(headersAlways(), headersOfCORS(), headersOfPreflight()) {
		granted.Headers.Add(name, refHeader(name))
	}
	op := &openapi.Operation{ID: operationID(r, http.MethodOptions), Summary: "CORS preflight"}
	op.Responses.Add(strconv.Itoa(http.StatusNoContent), granted)
	for status, codes := range d.byStatus([]personal.Code{personal.CodeMethodNotAllowed}) {
		op.Responses.Add(strconv.Itoa(status), refResponse(codes))
	}
	return op
}
