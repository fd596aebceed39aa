package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
	"github.com/cms-personal/personal/shared/personalpages"
)

func TestMount(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler { return siteOver(t, service) },
		personalhttptest.WithGuardedPage("/app/hello"))
}

// siteOver returns the whole site over a service.
func siteOver(t *testing.T, service personal.Service) http.Handler {
	api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	account, err := personalpages.New(parts{api, service}, personalpages.Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	return site(api, account)
}

// parts are a module without a plugin.
type parts struct {
	api     *personalhttp.Handler
	service personal.Service
}

func (p parts) API() *personalhttp.Handler            { return p.api }
func (p parts) Service() personal.Service             { return p.service }
func (parts) Administration() personal.Administration { return &personaltest.Administration{} }

// TestHello_GreetsWhoSignsInOnTheAccountPages is a test of a page of the CMS, with a service
// that has one account.
func TestHello_GreetsWhoSignsInOnTheAccountPages(t *testing.T) {
	sees := visit(t, nil)
	sees("Sign in – My CMS", "/hello", nil)
	sees("Hello, anna!", signIn+"%2Fhello", url.Values{"login": {"anna"}, "password": {"correct horse"}})
}

// TestDrafts_AreForEditors is a test of the page that only editors may see.
func TestDrafts_AreForEditors(t *testing.T) {
	anna := url.Values{"login": {"anna"}, "password": {"correct horse"}}
	for role, want := range map[string]string{"editor": "There are no drafts.", "author": "This site does not accept this request."} {
		sees := visit(t, []personal.ProfileField{{Name: "role", Value: role}})
		sees("Sign in – My CMS", "/drafts", nil)
		sees(want, signIn+"%2Fdrafts", anna)
	}
}

const signIn = "/account/sign-in?next="

// visit returns a function that requests a page as a browser does, or posts a form, over a
// service that has one account with these user fields, and checks what the page says.
func visit(t *testing.T, fields []personal.ProfileField) func(want, path string, form url.Values) {
	session := personal.Credentials{UserID: 1, UserHash: strings.Repeat("a", 43)}
	service := &personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{Credentials: session}, nil
		},
		ProfileFunc: func(context.Context, personal.Credentials) (personal.Profile, error) {
			return personal.Profile{Login: "anna", Fields: fields}, nil
		},
	}
	server := httptest.NewServer(siteOver(t, service))
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	return func(want, path string, form url.Values) {
		t.Helper()
		var response *http.Response
		var err error
		if form == nil {
			response, err = browser.Get(server.URL + path)
		} else {
			response, err = browser.PostForm(server.URL+path, form)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %d %s, %v, want %q", path, response.StatusCode, body, err, want)
		}
	}
}

// TestMount_RoutedAPIFails makes sure that the test finds what chi breaks when the API
// is one of its routes: it runs itself with such a mount.
func TestMount_RoutedAPIFails(t *testing.T) {
	const routed, check = "ROUTED_API", "unknown_methods"
	if os.Getenv(routed) != "" {
		personalhttptest.Run(t, func(service personal.Service) http.Handler {
			api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			router := chi.NewRouter()
			router.Mount("/api/v1/personal", api)
			return router
		})
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$/^"+check+"$")
	again.Env = append(os.Environ(), routed+"=yes")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+t.Name()+"/"+check) {
		t.Errorf("got %v, want that the check fails, from\n%s", err, out)
	}
}
