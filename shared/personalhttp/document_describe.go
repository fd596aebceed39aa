package personalhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// describer makes the OpenAPI document in one language.
type describer struct {
	texts    texts
	origins  []string // that CORS lets in
	alwaysOK bool
}

// describe describes every operation of the routes.
func (d *describer) describe(prefix string, routes []*route) *document {
	made := &document{base: openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title:       "Personal account",
			Description: d.introduction(),
			Version:     "1",
		},
		Servers: []openapi.Server{{URL: prefix}},
		Components: openapi.Components{
			SecuritySchemes: securitySchemes(),
			Parameters:      requestHeaders(),
			Headers:         d.headers(),
			Responses:       d.sharedResponses(routes),
			Schemas:         d.schemas(),
		},
	}}
	for _, r := range routes {
		item := &openapi.PathItem{}
		for _, op := range r.operations {
			described := d.operation(r, op)
			switch op.method {
			case http.MethodGet:
				item.Get = described
			case http.MethodPost:
				item.Post = described
			}
			made.addBody(r, op)
		}
		if len(d.origins) > 0 {
			item.Options = d.preflight(r)
		}
		made.base.Paths.Add(r.path(), item)
	}
	return made
}

// introduction says what holds for all operations.
func (d *describer) introduction() string {
	paragraphs := []string{
		"Each path answers with and without its final slash, and never with a redirect. Any other path is answered by the response `not_found`, " +
			"any other method by `method_not_allowed`, HEAD included.",
		fmt.Sprintf("A body is a form, urlencoded or multipart without files (%d parts at most), or one JSON object; %d bytes at most, no Content-Encoding. "+
			"In a form every value is text and a list is a repeated name. In JSON a value that could stand as text in a form may be a text; null and an empty text are \"not set\". "+
			"The query string is never read.", maxParts, maxBody),
		"Errors are judged in this order: 404, 405, 415, 413, 400, 429, 401, 403, 422, 409; limits that need the session or the account follow the 401. " +
			"All field errors of a 422 are reported at once; 409 names the login if that is taken, and the e-mail only otherwise. " +
			"CODE is for programs, MESSAGE for people, in the language of Accept-Language.",
	}
	if d.alwaysOK {
		paragraphs = append(paragraphs, "This site answers every envelope with HTTP 200, errors too.")
	}
	return strings.Join(paragraphs, "\n\n")
}

func (d *describer) operation(r *route, op operation) *openapi.Operation {
	described := &openapi.Operation{
		ID:          operationID(r, op.method),
		Summary:     op.summary,
		Parameters:  []*openapi.Parameter{{Ref: "#/components/parameters/Accept-Language"}, {Ref: "#/components/parameters/X-Request-Id"}},
		RequestBody: requestBody(r, op),
		Responses:   d.responses(op),
	}
	if op.identified {
		described.Security = []map[string][]string{{headerUserID: {}, headerUserHash: {}}}
	}
	return described
}

func operationID(r *route, method string) string {
	return strings.ToLower(method) + "_" + strings.ReplaceAll(r.name, ".", "_")
}

func bodyName(r *route) string { return r.name + "_parameters" }

// addBody adds the schema of an operation's parameters, or notes that user fields
// are part of it.
func (d *document) addBody(r *route, op operation) {
	switch {
	case op.userFields != noFields:
		d.bodies = append(d.bodies, body{schema: bodyName(r), of: op})
	case len(op.parameters) > 0:
		d.base.Components.Schemas.Add(bodyName(r), bodySchema(op, nil, nil))
	}
}

// requestBody describes what may be sent, nil if there are no parameters.
func requestBody(r *route, op operation) *openapi.RequestBody {
	if len(op.parameters) == 0 {
		return nil
	}
	required := len(op.oneOf) > 0 || slices.ContainsFunc(op.parameters, func(p parameter) bool { return p.required })
	b := &openapi.RequestBody{Required: required}
	for _, mediaType := range mediaTypes() {
		b.Content.Add(mediaType, openapi.MediaType{Schema: refSchema(bodyName(r))})
	}
	return b
}

func requestHeaders() openapi.Map[*openapi.Parameter] {
	var m openapi.Map[*openapi.Parameter]
	for _, p := range []*openapi.Parameter{
		{Name: "Accept-Language", Description: "The languages of messages and labels, best first.", Schema: text(0, 0, "")},
		{Name: headerRequestID, Description: "Comes back, and stands in the site's logs. Another one is made unless it is of this form.", Schema: requestIDSchema()},
	} {
		p.In = "header"
		m.Add(p.Name, p)
	}
	return m
}

func securitySchemes() openapi.Map[openapi.SecurityScheme] {
	var m openapi.Map[openapi.SecurityScheme]
	add := func(header, description string) {
		m.Add(header, openapi.SecurityScheme{Type: "apiKey", In: "header", Name: header, Description: description})
	}
	add(headerUserID, "user_id, as signing in, registering or refreshing answered.")
	add(headerUserHash, "user_hash, of the same answer.")
	return m
}
