package e2e

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
)

// evil are texts that would do something if they were markup.
var evil = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(2)>`,
	`'-alert(3)-'`,
	`</textarea><svg onload=alert(4)>`,
	`{{alert(5)}}`,
}

// evilFields are user fields with such texts as labels.
func evilFields(t *testing.T) []byte {
	t.Helper()
	label := func(i int) map[string]string { return map[string]string{"en": evil[i]} }
	schema, err := json.Marshal([]map[string]any{
		{"name": "first", "type": "text", "label": label(0)},
		{"name": "second", "type": "long_text", "label": label(1)},
		{"name": "third", "type": "enum", "label": label(2), "options": []any{map[string]any{"value": evil[0], "label": label(1)}}},
		{"name": "fourth", "type": "tags", "label": label(3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestTextsOfUsersAreNeverMarkup(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, evilFields(t))
	s.register(t, "anna")
	p := newTab(t, s.url, desk)
	p.open("/account/register")
	p.fillRegistration("boris")
	p.fill("Name", evil[0])
	p.fill(evil[0], evil[1])
	p.fill(evil[1], evil[3])
	p.set(evil[2], evil[0])
	p.fill(evil[3], evil[1]+"\n"+evil[4])
	p.press("Create an account")
	typed := map[string]string{"Name": evil[0], evil[0]: evil[1], evil[1]: evil[3], evil[2]: evil[0], evil[3]: evil[1] + "\n" + evil[4]}
	p.wantValues(typed)
	p.wantInert()
	p.open("/")
	p.see("Hello, " + evil[0] + "!")
	p.wantInert()
	p.open("/demo")
	p.wantInert()

	status, _, err := s.api("auth", map[string]any{"login": "boris", "password": password}, "User-Agent", evil[1])
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	p.open("/account/sessions")
	p.see(evil[1])
	p.wantInert()

	p.press("Sign out everywhere")
	p.signIn(evil[1], evil[0])
	p.wantStatus(401)
	p.wantValues(map[string]string{"Login or e-mail": evil[1]})
	p.wantInert()
	p.open("/account/sign-in?next=" + `%22><script>alert(6)</script>`)
	p.wantInert()
	p.open("/reference")
	p.wantInert()
}

func TestTextsOfUsersAreNeverMarkupForAdministratorsEither(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, evilFields(t))
	s.registerWith(t, "anna", map[string]any{"name": evil[0], "first": evil[1], "second": evil[3], "third": evil[0], "fourth": evil})
	status, _, err := s.api("auth", map[string]any{"login": "anna", "password": password}, "User-Agent", evil[0])
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	p := s.administrator(t, desk)
	for path, texts := range map[string][]string{
		"/admin/users":   {evil[0]},
		"/admin/users/1": {evil[0], evil[1], evil[2], evil[3]},
		"/admin/fields":  {evil[0], evil[1], evil[2], evil[3]},
	} {
		p.open(path)
		for _, text := range texts {
			p.see(text)
		}
		p.wantInert()
	}
	for _, path := range []string{
		"/admin/fields/edit/first", "/admin/fields/edit/third", "/admin/fields/json",
		"/admin/users?search=%22%3E%3Cscript%3Ealert(7)%3C/script%3E", "/admin/events?text=%22%3E%3Cscript%3Ealert(8)%3C/script%3E",
	} {
		p.open(path)
		p.wantInert()
	}
	p.open("/admin/users/1")
	p.wantValues(map[string]string{"Name": evil[0], evil[0]: evil[1], evil[1]: evil[3], evil[2]: evil[0]})
}

// wantInert checks that no element was made of a text. That no script of one ran
// shows when the tab is closed.
func (p *tab) wantInert() {
	p.t.Helper()
	const made = `document.querySelectorAll("[src=x], [onerror], [onload], script:not([src]), svg").length`
	if n := get(p, chromedp.Evaluate[int](made)); n != 0 {
		p.t.Errorf("%d elements were made of a text", n)
	}
}
