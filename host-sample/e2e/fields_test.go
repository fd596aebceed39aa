package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestFields_ChangeShowsInPreviewAndForm(t *testing.T) {
	t.Parallel()
	s := start(t)
	admin, visitor := s.administrator(t, desktop), newTab(t, s.url, desktop)
	admin.open("/admin/fields")
	admin.press("Add a field")
	admin.set("Type", "enum")
	admin.fill("Label: English", "Favourite tea")
	admin.wantValues(map[string]string{"Technical name": "favourite_tea"}) // suggested
	admin.fill("Label: Русский", "Любимый чай")
	admin.tick("Required")
	admin.fill("Value 1", "green")
	admin.fill("Label 1: English", "Green")
	admin.fill("Value 2", "black")
	admin.press("Preview")
	admin.see("It is not saved yet.")
	admin.wantPreview("en", "Favourite tea", "Green")
	admin.wantPreview("ru", "Любимый чай", "Green")
	admin.wantAccessible()
	visitor.open("/account/register")
	visitor.wantNoControl("Favourite tea")

	admin.press("Save")
	admin.see("The user fields have been saved.")
	admin.wantPreview("en", "Favourite tea", "Green")
	admin.screenshot("fields", "header")
	visitor.open("/account/register")
	visitor.fillRegistration("anna")
	visitor.press("Create an account")
	visitor.wantFieldError("Favourite tea", "Please fill this in.")
	visitor.fillRegistration("anna")
	visitor.set("Favourite tea", "black")
	visitor.press("Create an account")
	visitor.wantValues(map[string]string{"Favourite tea": "black"})

	admin.press("Favourite tea")
	admin.press("Remove favourite_tea")
	admin.see("The field has been removed.")
	visitor.open("/account")
	visitor.wantNoControl("Favourite tea")
}

func TestFields_InvalidFieldIsRefusedAtItsControl(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.administrator(t, desktop)
	p.open("/admin/fields/edit/phone")
	p.fill("Pattern", "[0-9")
	p.press("Save")
	p.wantStatus(422)
	p.see("This was not saved.")
	p.wantInvalid("Pattern")
	p.wantValues(map[string]string{"Technical name": "phone", "Pattern": "[0-9"})
	p.wantAccessible()
	p.open("/admin/fields/new")
	p.fill("Technical name", "Not Snake")
	p.press("Save")
	p.wantStatus(422)
	p.wantInvalid("Technical name")
	p.open("/admin/fields")
	p.see("Phone")
}

// wantPreview checks that the preview in a language has these texts.
func (p *tab) wantPreview(language string, texts ...string) {
	p.t.Helper()
	shown := get(p, chromedp.TextContent(chromedp.CSS(".preview[lang="+language+"]")))
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			p.t.Errorf("the preview in %s: got %q, want it to have %q", language, shown, text)
		}
	}
}
