package e2e

import "testing"

const (
	withSize    = `[{"name":"size","type":"text","label":{"en":"Size","ru":"Размер"}}]`
	withCountry = `[
  {"name":"size","type":"text","label":{"en":"Size","ru":"Размер"},"max_length":2},
  {"name":"country","type":"text","label":{"en":"Country","ru":"Страна"},"required":true,"default":"Latvia"},
  {"name":"street","type":"text","label":{"en":"Street","ru":"Улица"},"required":true}
]`
)

// TestMissingFields_ChosenByTheAdministratorAndFilledInByTheUser works without scripts.
func TestMissingFields_ChosenByTheAdministratorAndFilledInByTheUser(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, []byte(withSize))
	s.registerWith(t, "anna", map[string]any{"size": "xxl"})
	s.registerWith(t, "boris", map[string]any{"size": "m"})
	admin := s.administrator(t, desktop.onPhone())
	admin.allowScripts(false)
	propose := func() {
		admin.open("/admin/fields/json")
		admin.fill("Schema", withCountry)
		admin.press("Save")
		admin.see("Nothing is saved yet.")
	}
	propose()
	admin.see("2 of 2 users lack a value that the new fields need")
	admin.see("Country: no value")
	admin.wantAccessibleAlone()
	admin.screenshot("fields-choices", "main")
	admin.press("Do not save")
	admin.wantNoText("Street")
	propose()
	admin.press("Save, and fill in the defaults")
	admin.see("The defaults are being filled in")
	admin.see("Street")

	p := newTab(t, s.url, desktop.onPhone())
	p.allowScripts(false)
	p.signIn("anna", password)
	p.see("Complete your profile")
	p.see("Your current value, “xxl”, is no longer accepted.")
	for _, language := range []string{"Русский", "English"} {
		p.press(language)
		p.wantAccessibleAlone()
	}
	p.press("Fill this in later")
	p.control("Name")
	p.open("/demo")
	p.press("Members with a complete profile")
	p.see("The page that you have opened needs some more details about you.")
	p.wantNoText("No time now?")
	p.press("Save")
	p.wantStatus(422)
	p.wantFieldError("Street", "Please fill this in.")
	p.fill("Size", "m")
	p.fill("Street", "Brivibas 1")
	p.press("Save")
	p.see("Only visitors with a complete profile can see this page.")
	p.open("/account")
	p.wantValues(map[string]string{"Size": "m", "Country": "Latvia", "Street": "Brivibas 1"})

	admin.open("/admin/fields")
	admin.see("Users whose defaults were filled in: 2 of 2.")
	admin.press("Country")
	admin.press("Remove country")
	admin.see("The field country was removed.")
	admin.press("Undo")
	admin.see("The field is back.")
}
