package site_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/host-sample/site"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// module is a [personalpages.Module].
type module struct {
	administration personaltest.Administration
	service        personaltest.Service
	api            *personalhttp.Handler
}

func (m *module) API() *personalhttp.Handler              { return m.api }
func (m *module) Service() personal.Service               { return &m.service }
func (m *module) Administration() personal.Administration { return &m.administration }

func TestSite_PagesByVisitor(t *testing.T) {
	var m module
	var profile personal.Profile
	m.service.ProfileFunc = func(context.Context, personal.Credentials) (personal.Profile, error) { return profile, nil }
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var err error
	if m.api, err = personalhttp.New(&m.service, personalhttp.Options{Log: logger}); err != nil {
		t.Fatal(err)
	}
	pages, err := site.New(site.Options{Module: &m, APIURL: "http://site.example", Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	anna := personal.Profile{Login: "anna", Email: "anna@example.com", EmailVerified: true}
	unverified, incomplete := anna, anna
	unverified.EmailVerified = false
	incomplete.Missing = []string{"country"}
	for _, tt := range []struct {
		profile        personal.Profile // nobody's if it is empty
		path, language string
		status         int
		want           string // in the page, or where it leads
	}{
		{personal.Profile{}, "/", "en", 200, `<a class="button" href="/account/register">Create an account</a>`},
		{personal.Profile{}, "/demo", "en", 303, "/account/sign-in?next=%2Fdemo"},
		{personal.Profile{}, "/nowhere", "en", 404, "There is no such page"},
		{anna, "/", "en", 200, `<a class="button quiet" href="/demo">`},
		{incomplete, "/", "en", 200, `<a href="/account/complete?`},
		{anna, "/demo", "en", 200, `href="/demo/complete"`},
		{anna, "/demo", "ru", 200, `href="/demo/verified"`},
		{anna, "/demo/verified", "en", 200, "anna@example.com"},
		{unverified, "/demo/verified", "ru", 403, "<h1>"},
		{anna, "/demo/complete", "en", 200, "Members with a complete profile"},
		{incomplete, "/demo/complete", "en", 303, "/account/complete?"},
	} {
		profile = tt.profile
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		r.Header.Set("Accept-Language", tt.language)
		if profile.Login != "" {
			value := "42." + strings.Repeat("aB3_-", 8) + "xy1." + strconv.FormatInt(time.Now().Unix(), 10)
			r.AddCookie(&http.Cookie{Name: "account", Value: value})
		}
		w := httptest.NewRecorder()
		pages.WithCall(pages).ServeHTTP(w, r)
		if got := w.Header().Get("Location") + w.Body.String(); w.Code != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s of %+v in %s: got %d %s, want %d with %q", tt.path, tt.profile, tt.language, w.Code, got, tt.status, tt.want)
		}
	}
	if strings.Contains(log.String(), "there is no text") {
		t.Errorf("a page uses a text that does not exist:\n%s", log.String())
	}
}
