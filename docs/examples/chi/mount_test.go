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
	session := personal.Credentials{UserID: 1, UserHash: strings.Repeat("a", 43)}
	service := &personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{Credentials: session}, nil
		},
		ProfileFunc: func(context.Context, personal.Credentials) (personal.Profile, error) {
			return personal.Profile{Login: "anna"}, nil
		},
	}
	server := httptest.NewServer(siteOver(t, service))
	defer server.Close()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	sees := func(want string) func(*http.Response, error) {
		return func(response *http.Response, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(body), want) {
				t.Errorf("got %d %s, %v, want %q", response.StatusCode, body, err, want)
			}
		}
	}
	sees("Sign in – My CMS")(browser.Get(server.URL + "/hello"))
	sees("Hello, anna!")(browser.PostForm(server.URL+"/account/sign-in?next=%2Fhello", url.Values{"login": {"anna"}, "password": {"correct horse"}}))
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
