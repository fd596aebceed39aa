package reference_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cms-personal/personal/host-sample/reference"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// shown returns the page of a site with the given user fields.
func shown(t *testing.T, fields []personal.Field, err error) *httptest.ResponseRecorder {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	service := &personaltest.Service{FieldsFunc: func(context.Context) ([]personal.Field, error) { return fields, err }}
	api, newErr := personalhttp.New(service, personalhttp.Options{BasePath: "/cms", Log: log})
	if newErr != nil {
		t.Fatal(newErr)
	}
	page, newErr := reference.New(reference.Options{API: api, Log: log})
	if newErr != nil {
		t.Fatal(newErr)
	}
	w := httptest.NewRecorder()
	api.WithCall(page).ServeHTTP(w, httptest.NewRequest(http.MethodGet, reference.Path, nil))
	return w
}

func TestReference_EveryOperationCanBeTried(t *testing.T) {
	body := shown(t, nil, nil).Body.String()
	for _, e := range personalhttp.Endpoints() {
		for _, method := range e.Methods {
			if !strings.Contains(body, `data-method="`+method+`" data-url="/cms/api/v1/personal/`+e.Path+`/"`) {
				t.Errorf("%s %s: got no form to try it", method, e.Path)
			}
		}
	}
	for _, want := range []string{"/cms/api/v1/personal/openapi.json", "invalid_credentials", "Retry-After", "User-Hash", "user_profile"} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in the page", want)
		}
	}
}

func TestReference_ShowsUserFieldsEscaped(t *testing.T) {
	evil := "<script>alert(1)</script>"
	body := shown(t, []personal.Field{
		{Name: "city", Type: personal.TypeEnum, Label: personal.LocalText{"en": evil}, Options: []personal.Option{{Value: evil}, {Value: "kazan"}}},
		{Name: "newsletter", Type: personal.TypeBoolean},
		{Name: "interests", Type: personal.TypeTags},
	}, nil).Body.String()
	for _, want := range []string{
		`<select id="post_register-city" name="city" data-kind="choice">`, "<option>kazan</option>", "&lt;script&gt;",
		`name="newsletter" data-kind="boolean"`, `name="interests" data-kind="list"`,
		`name="password" data-kind="secret" type="password"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in the page", want)
		}
	}
	if strings.Contains(body, evil) {
		t.Error("a label is not escaped")
	}
}

func TestReference_WithoutPlugin(t *testing.T) {
	w := shown(t, nil, personal.NewError(personal.CodeUnavailable, errors.New("unavailable")))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Try again") {
		t.Errorf("got %d %s, want 503", w.Code, w.Body)
	}
}
