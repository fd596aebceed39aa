package personaladmin_test

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// module is a module without a plugin, whose host keeps user fields and mails elsewhere.
type module struct{ api *personalhttp.Handler }

func (m module) API() *personalhttp.Handler      { return m.api }
func (m module) Client() *rpc.Client             { return rpc.NewClient(nil, nil) }
func (m module) Manager() *manager.Manager       { return nil }
func (m module) Catalogue() *catalogue.Catalogue { return nil }
func (m module) Uploads() *adminapi.Uploads      { return nil }
func (m module) EventLog() *adminapi.EventLog    { return nil }
func (m module) Fields() *fieldstore.Store       { return nil }
func (m module) CapturedMails() string           { return "" }

func newModule(t *testing.T) module {
	t.Helper()
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{
		Log: slog.New(slog.DiscardHandler), UserFields: func(context.Context) (personal.Schema, error) { return personal.Schema{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return module{api}
}

func TestNew_RefusesAnInvalidConfig(t *testing.T) {
	for want, c := range map[string]personaladmin.Config{
		"Config.Guard is missing":          {},
		"plugin needs Config.Versions":     {Guard: guard, Sections: []personaladmin.Section{personaladmin.SectionVersions}},
		"fields needs a personalhost.Host": {Guard: guard, Sections: []personaladmin.Section{personaladmin.SectionFields}},
		`there is no section "secrets"`:    {Guard: guard, Sections: []personaladmin.Section{"secrets"}},
		"Config.Sections is empty":         {Guard: guard, Sections: []personaladmin.Section{}},
		`it has no block "body"`:           {Guard: guard, Layout: template.Must(template.New("").Parse(`{{block "title" .}}{{end}}{{block "head" .}}{{end}}`))},
	} {
		if _, err := personaladmin.New(newModule(t), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want %q", err, want)
		}
	}
}

func TestNew_DefaultSectionsHaveSomethingToShow(t *testing.T) {
	pages, err := personaladmin.New(newModule(t), personaladmin.Config{Guard: guard})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range pages.Routes() {
		for _, without := range []string{"/fields", "/mail", "/plugin"} {
			if strings.Contains(pattern, personaladmin.Path+without) {
				t.Errorf("got the route %s, want none: there is nothing to show, or it was not chosen", pattern)
			}
		}
	}
}

// A site has some Polish messages: its admin pages are shown, in English.
func TestPages_LanguageWithFewTexts(t *testing.T) {
	b := open(t)
	b.locale = "pl"
	for _, pattern := range b.pages.Routes() {
		path, get := strings.CutPrefix(pattern, "GET ")
		if !get || strings.Contains(path, "{") {
			continue
		}
		w := b.get(path)
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && strings.Contains(w.Body.String(), "<html") {
			wantAll(t, w.Body.String(), `<html lang="pl">`, "Skip to the content", "Administration", `value="pl" lang="pl" aria-pressed="true">pl</button>`)
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
}

// Visitors of this site speak Polish and Ukrainian, its administrators German and English.
func TestNew_LanguagesOfTheirOwn(t *testing.T) {
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{
		Log: slog.New(slog.DiscardHandler), Locales: []string{"uk"}, Messages: fstest.MapFS{"pl.json": {Data: []byte(`{"code.not_found": "Nie znaleziono."}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := personaladmin.New(module{api}, personaladmin.Config{Guard: guard, Locales: []string{"en", "de"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, handler := range map[string]http.Handler{"alone": pages, "behind a call": api.WithCall(pages)} {
		for accepted, want := range map[string][]string{
			"de-AT, pl": {`<html lang="de">`, ">Benutzer hinzufügen</h1>", `value="uk"`, `value="pl"`, `lang="de" aria-pressed="true">Deutsch</button>`},
			"pl":        {`<html lang="en">`, ">Add a user</h1>", `value="uk"`, `lang="en" aria-pressed="true">English</button>`},
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, personaladmin.Path+"/users/new", nil)
			r.Header.Set("Accept-Language", accepted)
			r.Header.Set("Administrator", "boris")
			handler.ServeHTTP(w, r)
			for _, want := range want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s, %s: got %d %s, want %s", name, accepted, w.Code, w.Body, want)
				}
			}
		}
	}
	if got := api.Locales(); !slices.Equal(got, []string{"uk", "pl"}) {
		t.Errorf("got the site's languages %q, want uk, pl", got)
	}
	none, err := personaladmin.New(module{api}, personaladmin.Config{Guard: guard, Locales: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, personaladmin.Path+"/users/new", nil)
	r.Header.Set("Accept-Language", "pl")
	r.Header.Set("Administrator", "boris")
	if none.ServeHTTP(w, r); !strings.Contains(w.Body.String(), `<html lang="pl">`) {
		t.Errorf("an empty list: got %d %s, want the languages of the API", w.Code, w.Body)
	}
	if _, err := personaladmin.New(module{api}, personaladmin.Config{Guard: guard, Locales: []string{"ja"}}); err == nil ||
		!strings.Contains(err.Error(), `Config.Locales: personalhttp: locales: there are no messages in "ja"`) {
		t.Errorf("got the error %v", err)
	}
}

func TestGuardUser_AdmitsSomeSignedInUsers(t *testing.T) {
	service := &personaltest.Service{ProfileFunc: func(_ context.Context, c personal.Credentials) (personal.Profile, error) {
		return personal.Profile{Login: map[int64]string{1: "anna", 2: "boris"}[c.UserID]}, nil
	}}
	api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	admits := personaladmin.GuardUser(func(u personalhttp.User) bool { return u.ID == 1 })
	for id, want := range map[string]string{"1": "anna", "2": "", "": ""} {
		got := "not asked"
		page := api.OptionalUser(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			name, err := admits(r)
			if got = name; (err == nil) != (want != "") {
				t.Errorf("user %q: got the error %v, want one: %t", id, err, want == "")
			}
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if id != "" {
			r.Header.Set("User-Id", id)
			r.Header.Set("User-Hash", strings.Repeat("0", 43))
		}
		page.ServeHTTP(httptest.NewRecorder(), r)
		if got != want {
			t.Errorf("user %q: got the name %q, want %q", id, got, want)
		}
	}
}
