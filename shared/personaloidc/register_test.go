package personaloidc_test

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// A registration by a provider is treated as one with a password: each condition gives the same status, errors and state of
// the account on a site that demands what sites can demand.
func TestRegister_ByTheProviderIsTreatedAsByThePage(t *testing.T) {
	fields := []personal.Field{{Name: "city", Type: personal.TypeText, Required: true, Label: personal.LocalText{"en": "City"}}}
	host := &personalFields{fields: fields}
	s, err := openSite(t.TempDir(), personalhost.Config{
		Host: host, Settings: settings(cheap + "[registration]\nemail_verification = \"required\"\nenabled = true\n"),
		API: personalhttp.Options{Transient: []string{"invite"}},
		Admission: &personal.Admission{Judge: func(ctx context.Context, r personal.AdmissionRequest) error {
			switch {
			case !r.Registers():
				return nil
			case !strings.HasSuffix(r.Email, "@company.example"):
				return personal.FieldErrors{"email": personal.FieldErrorMismatch}.Err()
			case personal.TransientFrom(ctx)["invite"] != "let me in":
				return personal.FieldErrors{"invite": personal.FieldErrorRequired}.Err()
			case r.Fields["city"].Text == "Atlantis":
				return personal.Refuse(personal.LocalText{"en": "Not from there."})
			}
			return nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.mails = &host.Host
	w := s.world(t, personalpages.Config{Inputs: []personalpages.Input{{Name: "invite", Label: personal.LocalText{"en": "Invite code"}}}})

	taken := "taken@company.example"
	if _, err := w.module.Client().CreateUser(t.Context(), personal.CreateUserRequest{Login: "taken", Email: taken}); err != nil {
		t.Fatal(err)
	}
	for condition, change := range map[string]map[string]string{
		"all is well": {}, "a domain of others": {"email": "ada@example.com"}, "no invite": {"invite": ""}, "a wrong invite": {"invite": "x"},
		"no required field": {"city": ""}, "a refused one": {"city": "Atlantis"}, "no e-mail": {"email": ""}, "no login": {"login": ""},
		"a taken login": {"login": "taken"}, "a taken e-mail": {"email": taken}, "an e-mail that is none": {"email": "@company.example"},
	} {
		t.Run(condition, func(t *testing.T) {
			w.t = t
			outcome := func(path, subject string) (string, string) {
				login := name("ada")
				form := url.Values{"login": {login}, "email": {login + "@company.example"}, "city": {"Oslo"}, "invite": {"let me in"}}
				b := w.browser()
				if subject == "" {
					form["password"], form["confirm_password"] = []string{password}, []string{password}
				} else {
					w.provider.is(subject, "")
					b.get(startPath)
					b.want(200, choosePath, "City", "Invite code")
				}
				for name, value := range change {
					form.Set(name, value)
				}
				b.post(path, form)
				return strings.Join(append(faults(b.page), b.at[strings.LastIndex(b.at, "/"):]), " | "), form.Get("login")
			}
			subject := name("subject")
			byPage, _ := outcome("/account/register", "")
			byProvider, login := outcome(choosePath, subject)
			if strings.Replace(byProvider, "/choose", "/register", 1) != byPage {
				t.Errorf("by the provider: %s\nby the page: %s", byProvider, byPage)
			}
			if len(change) == 0 {
				if byPage != "/mailbox" {
					t.Fatalf("got %s, want the page that says to look into the mailbox", byPage)
				}
				b := w.browser()
				b.get(startPath) // not before the e-mail is confirmed
				b.want(403, callbackPath, "confirm")
				w.confirm(login, login+"@company.example")
				b.get(startPath)
				b.want(200, "/account", login)
			}
		})
	}

	// Only the word of an authority for the domain, about just this address, spares the mail.
	for condition, test := range map[string]struct {
		authority, claim, typed string
		verified                bool
	}{
		"the authority's":            {"company.example", "grace@company.example", "grace@company.example", true},
		"another one was typed":      {"company.example", "grace@company.example", "hopper@company.example", false},
		"another domain":             {"other.example", "grace2@company.example", "grace2@company.example", false},
		"a subdomain of the claim's": {"example", "grace3@company.example", "grace3@company.example", false},
	} {
		t.Run(condition, func(t *testing.T) {
			w.t = t
			p := w.registered()
			p.Authoritative = []string{test.authority}
			w.mount(personalpages.Config{}, p)
			subject := name("subject")
			w.provider.is(subject, test.claim)
			b := w.browser()
			b.get(startPath)
			b.post(choosePath, url.Values{"login": {name("grace")}, "email": {test.typed}, "city": {"Oslo"}, "invite": {"let me in"}})
			at := "/account/mailbox"
			if test.verified {
				at = "/account"
			}
			b.want(200, at)
		})
	}
}

// personalFields is a host with user fields.
type personalFields struct {
	personaltest.Host
	fields []personal.Field
}

func (f *personalFields) UserFields(context.Context) (personal.Schema, error) {
	return personal.Schema{Fields: f.fields, Revision: "1"}, nil
}

// faults returns the errors that a page shows.
func faults(page string) (found []string) {
	shown := map[string]bool{}
	for _, mark := range []string{`class="fault"`, `role="alert"`} {
		for _, part := range strings.Split(page, mark)[1:] {
			text, _, _ := strings.Cut(part[strings.Index(part, ">")+1:], "</p>")
			shown[strings.TrimSpace(tags.Replace(text))] = true
		}
	}
	return slices.Sorted(maps.Keys(shown))
}

var tags = strings.NewReplacer("<p>", "", "<strong>", "", "</strong>", "")
