package personalhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp/openapi"
)

// document is the OpenAPI document in one language. Only what the user fields
// decide is made anew for each request.
type document struct {
	base    openapi.Document
	encoded func() ([]byte, error) // base as JSON, which is made once
	bodies  []body
}

// body is a request's body that user fields are part of.
type body struct {
	schema string // its name among the document's
	of     operation
}

// newDocuments describes the handler in every language of its messages.
func (h *Handler) newDocuments() map[string]*document {
	documents := map[string]*document{}
	for locale, t := range h.locales.texts {
		d := &describer{texts: t, origins: h.cors.origins(), alwaysOK: h.alwaysOK}
		made := d.describe(h.prefix, h.routes)
		made.encoded = sync.OnceValues(func() ([]byte, error) { return marshal(made.base) })
		documents[locale] = made
	}
	return documents
}

// documentIn returns the document of a locale, that of the default if the host
// put a locale of its own into the call.
func (h *Handler) documentIn(locale string) *document {
	return cmp.Or(h.documents[locale], h.documents[h.locales.standard])
}

// schemas are those that user fields are part of.
func (d *document) schemas(list []personal.Field, l *labels) openapi.Map[*openapi.Schema] {
	schemas := openapi.Map[*openapi.Schema]{{Name: schemaProfile, Value: profileSchema(list, l)}}
	for _, b := range d.bodies {
		schemas.Add(b.schema, bodySchema(b.of, list, l))
	}
	return schemas
}

// describe is the operation behind openapi.json.
func describe(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	if err != nil {
		return nil, err
	}
	members, err := marshal(in.document.schemas(list, in.labels))
	if err != nil {
		return nil, err
	}
	whole, err := in.document.encoded()
	if err != nil {
		return nil, err
	}
	const end = "}}}" // of the schemas, the components, and the document
	whole = bytes.TrimSuffix(whole, []byte(end))
	return json.RawMessage(fmt.Sprintf("%s,%s%s", whole, members[1:len(members)-1], end)), nil
}

// Document returns what openapi.json answers to the request: the API as an
// OpenAPI document, with the user fields in force now, in the caller's language.
// It is for pages that show the document; no part of it may be changed. An error
// is the service's, [personal.CodeUnavailable] say.
func (h *Handler) Document(r *http.Request) (_ *openapi.Document, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(r.Context(), h.timeout)
	defer cancel()
	list, err := h.service.Fields(ctx)
	if err != nil {
		return nil, err
	}
	d := h.documentIn(cmp.Or(personal.CallFrom(ctx).Locale, h.locales.choose(r)))
	whole := d.base
	whole.Components.Schemas = slices.Concat(d.base.Components.Schemas, d.schemas(list, h.locales.labels(r)))
	return &whole, nil
}
