package personalpages_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// debtor is a module whose user lacks a country and has a size that the schema refuses.
// Its other fields are fine, or are none that a user can set.
func debtor() *module {
	m := newModule()
	m.fields = []personal.Field{
		{Name: "city", Type: personal.TypeText, Label: personal.LocalText{"en": "City"}},
		{Name: "country", Type: personal.TypeText, Required: true, Label: personal.LocalText{"en": "Country", "ru": "Страна"}},
		{Name: "size", Type: personal.TypeText, MaxLength: 2, Label: personal.LocalText{"en": "Size"}},
		{Name: "level", Type: personal.TypeInteger, ReadOnly: true, Label: personal.LocalText{"en": "Level"}},
	}
	m.profile.Fields = []personal.ProfileField{{Name: "city", Value: "Riga"}, {Name: "country"}, {Name: "size", Value: "xxl"},
		{Name: "level", Value: 3}}
	m.profile.Missing = []string{"country", "size"}
	m.UpdateProfileFunc = func(_ context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
		m.updates = append(m.updates, r.Fields)
		if r.Fields["country"].Text == "" {
			return personal.Profile{}, personal.FieldErrors{"country": personal.FieldErrorRequired}.Err()
		}
		m.profile.Missing = nil
		return m.profile, nil
	}
	return m
}

func TestSignIn_AsksForMissingFieldsAndGoesOn(t *testing.T) {
	m := debtor()
	b := newBrowser(t, m)
	ask := "/account/complete?" + url.Values{"next": {"/demo?a=1&b=2"}}.Encode()
	b.post("/account/sign-in?next="+url.QueryEscape("/demo?a=1&b=2"), "login", "anna", "password", "correct horse").leads(t, ask)
	page := b.get(ask)
	page.shows(t, 200, "You are signed in.", "<h1>Complete your profile</h1>", `<label for="field-country">Country`,
		`<label for="field-size">Size`,
		"Your current value, “xxl”, is no longer accepted.", `<a href="/demo?a=1&amp;b=2">`)
	for _, other := range []string{`name="city"`, "Level", "“”"} {
		if strings.Contains(page.body, other) {
			t.Errorf("want just the missing fields, got %q in\n%s", other, page.body)
		}
	}
	b.get(ask, "Accept-Language", "ru").shows(t, 200, "Дополните профиль", "Страна")

	b.post(ask, "country", "", "size", "m").shows(t, 422, `href="#field-country"`, "Please fill this in.", `value="m"`)
	b.post(ask, "country", "Latvia", "size", "m", "city", "Ventspils", "level", "9").leads(t, "/demo?a=1&b=2")
	b.get("/demo").shows(t, 200, "Your profile has been saved.")
	want := []map[string]personal.Input{
		{"country": personal.Text(""), "size": personal.Text("m")},
		{"country": personal.Text("Latvia"), "size": personal.Text("m")},
	}
	if diff := cmp.Diff(want, m.updates); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	b.post(ask, "country", "Estonia").leads(t, "/demo?a=1&b=2") // another tab
	if len(m.updates) != 2 {
		t.Errorf("got %d updates, want none for a profile that is complete", len(m.updates))
	}
	b.get(ask).shows(t, 200, "Your profile is complete.")
}

func TestSignIn_CompleteProfileIsNotAsked(t *testing.T) {
	b := newBrowser(t, newModule())
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account")
}

func TestCompletion_LeadsOnlyWithinTheSite(t *testing.T) {
	b := newBrowser(t, debtor())
	b.hold(first, 0)
	const ask = "/account/complete?next=https%3A%2F%2Fevil.example"
	b.get(ask).shows(t, 200, `No time now? <a href="/account">`)
	b.post(ask, "country", "Latvia", "size", "m").leads(t, "/account")
}

func TestCompletePage_NeedsACompleteProfile(t *testing.T) {
	m := debtor()
	b := newBrowser(t, m)
	b.hold(first, 0)
	refused := b.get("/demo/complete")
	ask := refused.Header.Get("Location")
	if u, err := url.Parse(ask); err != nil || u.Path != "/account/complete" || u.Query().Get("next") != "/demo/complete" {
		t.Fatalf("got %d to %q, want the page that asks and leads back", refused.StatusCode, ask)
	}
	page := b.get(ask)
	page.shows(t, 200, "Complete your profile", "The page that you have opened needs")
	if strings.Contains(page.body, `<a href="/demo/complete">`) {
		t.Errorf("got a way to do it later, which leads to this page again:\n%s", page.body)
	}
	b.post(ask, "country", "Latvia", "size", "m").leads(t, "/demo/complete")
	b.get("/demo/complete").shows(t, 200, "<h1>Our page</h1>")
}

func TestCompletion_KeepsWhatWasTypedWhileUnavailable(t *testing.T) {
	m := debtor()
	b := newBrowser(t, m)
	b.hold(first, 0)
	const ask = "/account/complete?next=%2Fdemo"
	b.get(ask).shows(t, 200, "Country")
	m.down = true
	b.post(ask, "country", "Latvia", "size", "m").shows(t, 503, `value="Latvia"`, `value="m"`)
	m.down = false
	b.post(ask, "country", "Latvia", "size", "m").leads(t, "/demo")
}

func TestAccount_LinksToMissingFields(t *testing.T) {
	m := debtor()
	b := newBrowser(t, m)
	b.hold(first, 0)
	link := `href="/account/complete`
	b.get("/").shows(t, 200, link)
	m.profile.Missing = nil
	if page := b.get("/"); strings.Contains(page.body, link) {
		t.Errorf("a complete profile: want no link:\n%s", page.body)
	}
}
