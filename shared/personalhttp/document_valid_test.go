package personalhttp_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// everyType is a schema with a field of every type, and of every other trait.
func everyType() []personal.Field {
	limit := func(n float64) *float64 { return &n }
	return []personal.Field{
		{Name: "phone", Type: personal.TypeText, Label: personal.LocalText{"en": "Phone", "ru": "Телефон"}, Required: true, MaxLength: 20, Pattern: `\+?[0-9 ]+`},
		{Name: "about", Type: personal.TypeLongText, Pattern: `(?i)hello.*`},
		{Name: "age", Type: personal.TypeInteger, Min: limit(0), Max: limit(150)},
		{Name: "height", Type: personal.TypeNumber},
		{Name: "letters", Type: personal.TypeBoolean, Required: true, Default: personal.Input{Kind: personal.InputBoolean, Text: "true"}},
		{Name: "born", Type: personal.TypeDate},
		{Name: "seen", Type: personal.TypeDateTime},
		{Name: "city", Type: personal.TypeEnum, Options: []personal.Option{{Value: "kazan", Label: personal.LocalText{"ru": "Казань"}}, {Value: "omsk"}}},
		{Name: "photo", Type: personal.TypeFile},
		{Name: "page", Type: personal.TypeLink},
		{Name: "friends", Type: personal.TypeLinkSet},
		{Name: "tags", Type: personal.TypeTags, Required: true, MaxLength: 10},
		{Name: "number", Type: personal.TypeText, ReadOnly: true},
	}
}

func withFields(list ...personal.Field) *personaltest.Service {
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) { return list, nil }
	return s
}

// shims are handlers whose documents differ by more than the user fields.
var shims = map[string]personalhttp.Options{
	"plain":               {},
	"in Russian":          {DefaultLocale: "ru"},
	"with CORS":           {CORSOrigins: []string{origin}, BasePath: "/x"},
	"always 200":          {AlwaysOK: true},
	"always 200 and CORS": {AlwaysOK: true, CORSOrigins: []string{origin}},
}

func TestTheDocumentIsValidOpenAPI(t *testing.T) {
	for name, o := range shims {
		for _, list := range [][]personal.Field{nil, everyType(), {{Name: "later", Type: "made_up_later"}, {Name: "needed", Type: "made_up_later", Required: true}}} {
			a := newSite(t, withFields(list...), o).do("GET", o.BasePath+prefix+"openapi.json", "", "")
			loaded, err := openapi3.NewLoader().LoadFromData([]byte(a.Body)) // it resolves the references
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := loaded.Validate(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestDocument_IsTheOneServed(t *testing.T) {
	h, err := personalhttp.New(withFields(everyType()...), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", prefix+"openapi.json", nil)
	r.Header.Set("Accept-Language", "ru")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	page, err := h.Document(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), w.Body.String()); diff != "" {
		t.Errorf("pages show (-) another document than is served (+):\n%s", diff)
	}
	if !strings.Contains(string(page), "Телефон") {
		t.Error("labels are not in the caller's language")
	}
}
