package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestWalk_EveryAdminPage looks at every admin page, empty and with content, as
// TestWalk_EveryAccountPage does at those of visitors.
func TestWalk_EveryAdminPage(t *testing.T) {
	t.Parallel()
	limited := strings.Replace(testSettings, "enabled = false", "enabled = true", 1)
	for language, l := range displays() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			s := startWith(t, limited+"[site]\nname = \"Sample CMS\"\n", "--bake=1s")
			out := newTab(t, s.url, l)
			out.album = "admin"
			out.walk(
				walk{name: "enter", path: "/admin/enter#code=x"},
				walk{name: "enter-refused", path: "/admin/enter", typed: map[string]string{"code": "x"}, status: http.StatusForbidden},
				walk{name: "not-signed-in", path: "/admin/users", status: http.StatusUnauthorized},
			)
			p := s.administrator(t, l)
			p.album = "admin"
			p.walk(
				walk{name: "overview-empty", path: "/admin"},
				walk{name: "users-empty", path: "/admin/users"},
				walk{name: "mail-empty", path: "/admin/mail"},
				walk{name: "events-none", path: "/admin/events?type=passkey_cloned"},
			)
			walkUsers(t, s, p)
			walkSupport(t, s, p)
			walkFields(t, p)
			walkPlugin(t, s, p)
			p.walk(
				walk{name: "overview", path: "/admin"},
				walk{name: "events", path: "/admin/events"},
				walk{name: "events-wrong", path: "/admin/events?user=nobody&since=yesterday", status: http.StatusUnprocessableEntity},
				walk{name: "mail", path: "/admin/mail"},
				walk{name: "not-found", path: "/admin/nowhere", status: http.StatusNotFound},
				walk{name: "reference", path: "/reference"},
			)
			p.open("/admin/mail")
			p.navigate(chromedp.Click("main .rows a"))
			p.do(chromedp.ScrollIntoView(chromedp.CSS("iframe.letter")))
			p.look("mail-message")
			p.open("/admin/events")
			p.do(chromedp.Click("main .events summary"))
			p.look("events-details")
		})
	}
}

func walkUsers(t *testing.T, s *site, p *tab) {
	t.Helper()
	for _, login := range []string{"anna", "boris", "vera", "gleb", "a_rather_long_login_that_nobody_would_like_to_type"} {
		s.register(t, login)
	}
	s.visitor(t, "anna", desktop)
	invalid := http.StatusUnprocessableEntity
	p.walk(
		walk{name: "users", path: "/admin/users"},
		walk{name: "users-filtered", path: "/admin/users?state=active&order=oldest&show=city"},
		walk{name: "users-nothing", path: "/admin/users?search=nemo"},
		walk{name: "users-wrong", path: "/admin/users?since=yesterday", status: invalid},
		walk{name: "user-new", path: "/admin/users/new"},
		walk{name: "user-new-wrong", path: "/admin/users/new", typed: map[string]string{"login": "a b"}, status: invalid},
		walk{name: "user", path: "/admin/users/1"},
		walk{name: "user-delete", path: "/admin/users/1/delete"},
		walk{name: "user-delete-wrong", path: "/admin/users/1/delete", typed: map[string]string{"login": "x"}, status: invalid},
		walk{name: "user-two-factor", path: "/admin/users/1/two-factor"},
		walk{name: "user-ways-in", path: "/admin/users/1/ways-in"},
		walk{name: "user-reset", path: "/admin/users/1/reset"},
		walk{name: "user-reset-wrong", path: "/admin/users/1/reset", typed: map[string]string{"email": "x"}, status: invalid},
		walk{name: "user-history", path: "/admin/users/1/events"},
		walk{name: "user-gone", path: "/admin/users/4711", status: http.StatusNotFound},
		walk{name: "users-delete", path: "/admin/users/delete?user=2&user=4"},
	)
	p.open("/admin/users")
	for _, id := range []string{"2", "3"} {
		p.do(chromedp.Click(chromedp.CSS(`input[name=user][value="` + id + `"]`)))
	}
	p.look("users-selected")
	p.navigate(chromedp.Click(`.selected button[value="disable"]`))
	p.look("users-disabled")
	p.open("/admin/users/1")
	p.navigate(chromedp.Click(`form[action="/admin/users/1/sessions/end"] button`))
	p.look("user-session-ended")
	p.open("/admin/users/2")
	p.look("user-disabled")
}

func walkSupport(t *testing.T, s *site, p *tab) {
	t.Helper()
	s.lockOut(t, "vera")
	p.walk(
		walk{name: "support", path: "/admin/support"},
		walk{name: "support-limited", path: "/admin/support?login=vera"},
		walk{name: "support-disabled", path: "/admin/support?login=boris"},
		walk{name: "support-nobody", path: "/admin/support?login=nemo"},
		walk{name: "support-fine", path: "/admin/support?login=gleb"},
		walk{name: "support-wrong", path: "/admin/support?login=vera&address=x", status: http.StatusUnprocessableEntity},
	)
	p.open("/admin/support?login=vera&address=127.0.0.1")
	p.screenshot("support", "header")
}

func walkFields(t *testing.T, p *tab) {
	t.Helper()
	p.walk(
		walk{name: "fields", path: "/admin/fields"},
		walk{name: "field-new", path: "/admin/fields/new"},
		walk{name: "field", path: "/admin/fields/edit/city"},
		walk{name: "fields-json", path: "/admin/fields/json"},
	)
	p.open("/admin/fields")
	p.screenshot("fields", "header")
	p.open("/admin/fields/json")
	p.set(p.text("label[for=field-source]"), "[\n  {\"name\": \"motto\",\n   \"type\": \"poem\"}\n]")
	p.navigate(chromedp.Click("main form button"))
	p.look("fields-json-wrong")
	p.open("/admin/fields/json")
	p.set(p.text("label[for=field-source]"), `[{"name": "motto", "type": "text", "label": {"en": "Motto", "ru": "Девиз"}, "required": true, "default": "none"}]`)
	p.navigate(chromedp.Click("main form button"))
	p.look("fields-ask")
	p.screenshot("fields-choices", "main")
}

func walkPlugin(t *testing.T, s *site, p *tab) {
	t.Helper()
	s.command(t, "plugin", "install", bundle(t, "9.0.0", ""))
	p.walk(walk{name: "plugin", path: "/admin/plugin"})
	p.navigate(chromedp.Click(`[id="use-9.0.0"]`))
	p.await("the switch", `document.querySelector("#plugin-now dd strong")?.textContent === "9.0.0" ? "yes" : ""`)
	p.await("the end of the swap", `document.querySelector("#plugin-now .steps") === null ? "yes" : ""`)
	p.look("plugin-swapped")
}

// lockOut enters wrong passwords until a limit is used up.
func (s *site) lockOut(t *testing.T, login string) {
	t.Helper()
	for range 100 {
		status, _, err := s.api("auth", map[string]any{"login": login, "password": "not the password"})
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusTooManyRequests {
			return
		}
	}
	t.Fatal("100 wrong passwords use up no limit")
}
