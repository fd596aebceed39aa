package reference_test

import (
	"context"
	"errors"
	"html"
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

func TestReference_CommonErrorsAreShownOnce(t *testing.T) {
	body := shown(t, nil, nil).Body.String()
	if got := strings.Count(body, `href="#common"`); got < len(personalhttp.Endpoints()) {
		t.Errorf("got %d links to the common errors, want one for each operation", got)
	}
	_, common, _ := strings.Cut(body, `id="common"`)
	if got := strings.Count(common, "too_large"); got == 0 || strings.Count(body, "too_large") != got {
		t.Errorf("got too_large %d times among the common errors and %d times in all, want it there alone", got, strings.Count(body, "too_large"))
	}
}

func TestReference_OperationsHaveACommand(t *testing.T) {
	body := html.UnescapeString(shown(t, nil, nil).Body.String())
	for _, want := range []string{
		"curl http://example.com/cms/api/v1/personal/auth/ \\\n  -d login=… \\\n  -d password=…</code>",
		"curl http://example.com/cms/api/v1/personal/recover/ \\\n  -d login=…</code>",
		"curl http://example.com/cms/api/v1/personal/profile/ \\\n  -H 'User-Id: 1' -H 'User-Hash: …'</code>",
		"curl http://example.com/cms/api/v1/personal/logout/ \\\n  -H 'User-Id: 1' -H 'User-Hash: …' -X POST</code>",
	} {
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
		`<select id="postRegister-city" name="city" data-kind="choice">`, "<option>kazan</option>", "&lt;script&gt;",
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
