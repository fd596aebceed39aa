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
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/userfields"
)

func TestMount(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler { return siteOver(t, service) },
		personalhttptest.WithGuardedPage("/app/hello"))
}

// siteOver returns the whole site over a service.
func siteOver(t *testing.T, service personal.Service) http.Handler {
	source, err := os.ReadFile("user-fields.json")
	if err != nil {
		t.Fatal(err)
	}
	fields, _, err := userfields.ParseJSON(source) // RequireField looks whether "role" is read-only
	if err != nil {
		t.Fatal(err)
	}
	api, err := personalhttp.New(service, personalhttp.Options{
		Log: slog.New(slog.DiscardHandler),
		UserFields: func(context.Context) (personal.Schema, error) {
			return personal.Schema{Revision: "1", Fields: fields}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	module := parts{api: api, service: service, mails: t.TempDir()}
	account, err := personalpages.New(module, personalpages.Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := personaladmin.New(module, personaladmin.Config{Layout: layout, Guard: administrator,
		Sections: []personaladmin.Section{personaladmin.SectionMailbox}})
	if err != nil {
		t.Fatal(err)
	}
	return site(api, account, admin)
}

// parts are a module without a plugin. Of the admin pages it has the captured mails.
type parts struct {
	personaladmin.Module
	api     *personalhttp.Handler
	service personal.Service
	mails   string
}

func (p parts) API() *personalhttp.Handler            { return p.api }
func (p parts) Service() personal.Service             { return p.service }
func (parts) Administration() personal.Administration { return &personaltest.Administration{} }
func (parts) Client() *rpc.Client                     { return nil }
func (p parts) CapturedMails() string                 { return p.mails }

// TestHello_GreetsWhoSignsInOnTheAccountPages is a test of a page of the CMS, with a service
// that has one account.
func TestHello_GreetsWhoSignsInOnTheAccountPages(t *testing.T) {
	sees := visit(t, 1, nil)
	sees("Sign in – My CMS", "/hello", nil)
	sees("Hello, anna!", signIn+"%2Fhello", url.Values{"login": {"anna"}, "password": {"correct horse"}})
}

// TestDrafts_AreForEditors is a test of the page that only editors may see.
func TestDrafts_AreForEditors(t *testing.T) {
	anna := url.Values{"login": {"anna"}, "password": {"correct horse"}}
	for role, want := range map[string]string{"editor": "There are no drafts.", "author": "This site does not accept this request."} {
		sees := visit(t, 1, []personal.ProfileField{{Name: "role", Value: role}})
		sees("Sign in – My CMS", "/drafts", nil)
		sees(want, signIn+"%2Fdrafts", anna)
	}
}

// TestAdminPages_AreForUser1 opens the admin pages as their administrator and as another user.
func TestAdminPages_AreForUser1(t *testing.T) {
	anna := url.Values{"login": {"anna"}, "password": {"correct horse"}}
	for id, want := range map[int64]string{1: "Mailbox – My CMS", 2: "This page is for administrators."} {
		sees := visit(t, id, nil)
		for _, path := range []string{"/admin", "/admin/", "/admin/mail"} {
			sees("Sign in – My CMS", path, nil)
		}
		sees(want, signIn+"%2Fadmin", anna)
		for _, path := range []string{"/admin", "/admin/", "/admin/mail"} {
			sees(want, path, nil)
		}
	}
}

const signIn = "/account/sign-in?next="

// visit returns a function that requests a page as a browser does, or posts a form, over a
// service that has one account with this id and these user fields. It checks what the page
// says, and that browsers and caches are told what they may do with it.
func visit(t *testing.T, id int64, fields []personal.ProfileField) func(want, path string, form url.Values) {
	session := personal.Credentials{UserID: id, UserHash: strings.Repeat("a", 43)}
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
		policy, cache := response.Header.Get("Content-Security-Policy"), response.Header.Get("Cache-Control")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || cache != "no-store" {
			t.Errorf("%s: got the policy %q and Cache-Control %q, want those of the site and no-store", path, policy, cache)
		}
	}
}
