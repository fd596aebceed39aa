package e2e

import "testing"

// The technical name follows the first label until it is typed.
func TestFields_NameIsSuggested(t *testing.T) {
	t.Parallel()
	p := start(t).administrator(t, desktop)
	p.open("/admin/fields/new")
	p.fill("Label: Русский", "Любимый чай")
	p.wantValues(map[string]string{"Technical name": "lyubimyy_chay"})
	p.fill("Label: English", "Favourite tea")
	p.wantValues(map[string]string{"Technical name": "favourite_tea"})
	p.fill("Technical name", "tea")
	p.fill("Label: English", "Favourite teas")
	p.wantValues(map[string]string{"Technical name": "tea"})
}
