package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// look checks a page with axe-core as the tab displays it, and takes pictures of it.
func (p *tab) look(name string) {
	p.t.Helper()
	p.loadAxe()
	p.wantNoViolation("in the walk", "document")
	p.pictures(name)
}

// pictures takes a picture of a whole page in four displays: in light and dark mode, on a desktop
// and on a phone. They are stored in the folder of the tab's album.
func (p *tab) pictures(name string) {
	p.t.Helper()
	if screenshotFolder() == "" {
		return
	}
	folder := filepath.Join(screenshotFolder(), p.album)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		p.t.Fatal(err)
	}
	l := p.display
	for suffix, d := range map[string]display{
		"light-1280": {width: 1280, height: 800}, "light-390": {width: 390, height: 844},
		"dark-1280": {width: 1280, height: 800, dark: true}, "dark-390": {width: 390, height: 844, dark: true},
	} {
		p.emulate(d)
		picture := get(p, chromedp.FullScreenshot(100))
		file := strings.Join([]string{name, l.language, suffix}, "-") + ".png"
		if err := os.WriteFile(filepath.Join(folder, file), picture, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	p.emulate(l)
}

// withCountry are user fields that profiles of the sample lack.
const withCountry = `[
  {"name":"size","type":"text","label":{"en":"Size","ru":"Размер"},"max_length":2},
  {"name":"country","type":"text","label":{"en":"Country","ru":"Страна"},"required":true,"default":"Latvia"},
  {"name":"street","type":"text","label":{"en":"Street","ru":"Улица"},"required":true}
]`

// walk is a page to open, what to type into its form, and the status of the response.
type walk struct {
	name, path string
	typed      map[string]string // nil: the form is not sent
	status     int               // 0: 200
}

func (p *tab) walk(steps ...walk) {
	p.t.Helper()
	for _, s := range steps {
		p.visit(s.path)
		if s.typed != nil {
			p.submit(s.typed)
		}
		if s.status == 0 {
			s.status = http.StatusOK
		}
		p.wantStatus(s.status)
		p.look(s.name)
	}
}

// TestWalk_EveryAccountPage looks at every account page, empty and with errors: in English on a
// desktop, in Russian on a phone in dark mode.
func TestWalk_EveryAccountPage(t *testing.T) {
	t.Parallel()
	limited := strings.Replace(testSettings, "enabled = false", "enabled = true\nguess = { burst = 2, every = \"10m\" }", 1)
	for language, l := range displays() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			s := startAtLocalhost(t, "[site]\nname = \"Sample CMS\"\n[two_factor]\nenabled = true\n[sign_in]\nmailed_code = true\n")
			walkSignedOut(t, s, l)
			walkSecondFactor(t, s, l)
			walkPasskeys(t, s, l)
			walkAccount(t, s, l)
			walkMails(t, s, l)
			s = startWith(t, limited+"[registration]\nemail_verification = \"required\"\nenabled = true\n")
			p := newTab(t, s.url, l)
			p.walk(
				walk{name: "mailbox-registered", path: "/account/register", typed: registration("anna")},
				walk{name: "sign-in-unconfirmed", path: "/account/sign-in", typed: map[string]string{"login": "anna", "password": password},
					status: http.StatusForbidden},
				walk{name: "email-waiting", path: "/account/email"},
			)
			p.walk(
				walk{name: "email-wrong-login", path: "/account/email", typed: map[string]string{"token": s.mailed(t, "anna@example.com", mailedCode),
					"login": "x"}, status: http.StatusUnprocessableEntity},
			)
			wrong := map[string]string{"login": "olga", "password": "wrong"}
			for range 2 {
				p.open("/account/sign-in")
				p.submit(wrong)
			}
			p.walk(walk{name: "sign-in-limited", path: "/account/sign-in", typed: wrong, status: http.StatusTooManyRequests})
		})
	}
}

func registration(login string) map[string]string {
	return map[string]string{"login": login, "email": login + "@example.com", "password": password, "confirm_password": password}
}

func walkSignedOut(t *testing.T, s *site, l display) {
	none, invalid := map[string]string{}, http.StatusUnprocessableEntity
	p := newTab(t, s.url, l)
	p.walk(
		walk{name: "home", path: "/"},
		walk{name: "sign-in", path: "/account/sign-in"},
		walk{name: "sign-in-next", path: "/account/sign-in?next=/demo"},
		walk{name: "sign-in-wrong", path: "/account/sign-in", typed: map[string]string{"login": "anna", "password": "wrong"},
			status: http.StatusUnauthorized},
		walk{name: "register", path: "/account/register"},
		walk{name: "register-empty", path: "/account/register", typed: none, status: invalid},
		walk{name: "register-wrong", path: "/account/register", typed: map[string]string{"login": "a b", "email": "anna", "password": "123",
			"confirm_password": "124", "phone": "x"}, status: invalid},
		walk{name: "forgot", path: "/account/forgot"},
		walk{name: "forgot-empty", path: "/account/forgot", typed: none, status: invalid},
		walk{name: "forgot-wrong", path: "/account/forgot", typed: map[string]string{"login": "anna@"}, status: invalid},
		walk{name: "mailbox-recover", path: "/account/forgot", typed: map[string]string{"login": "anna"}},
		walk{name: "recover", path: "/account/recover"},
		walk{name: "recover-empty", path: "/account/recover", typed: none, status: invalid},
		walk{name: "email", path: "/account/email"},
		walk{name: "email-bad-code", path: "/account/email", typed: map[string]string{"token": "abc"}, status: invalid},
		walk{name: "verify", path: "/account/verify"},
		walk{name: "mailbox-resend", path: "/account/verify", typed: map[string]string{"login": "anna"}},
		walk{name: "undo-delete", path: "/account/undo-delete"},
		walk{name: "undo-delete-bad-code", path: "/account/undo-delete", typed: map[string]string{"token": "abc"}, status: invalid},
		walk{name: "not-found", path: "/account/nowhere", status: http.StatusNotFound},
		walk{name: "sign-in-mail", path: "/account/sign-in/mail"},
		walk{name: "sign-in-mailed-code", path: "/account/sign-in/mail", typed: map[string]string{"login": "anna"}},
		walk{name: "sign-in-mailed-code-wrong", path: "/account/sign-in/mailed-code", typed: map[string]string{"mailed_code": "0000-0000"}, status: invalid},
		walk{name: "registered", path: "/account/register", typed: registration("olga")},
		walk{name: "two-factor-unconfirmed", path: "/account/two-factor/set-up"},
		walk{name: "demo-unconfirmed", path: "/demo/verified", status: http.StatusForbidden},
	)
	link := s.mailedLink(t, "olga@example.com", "/account/email")
	p.openMailed(link)
	p.look("email-linked-signed-in")
	out := newTab(t, s.url, l)
	out.openMailed(link)
	out.look("email-linked")
	out.walk(walk{name: "mailbox-recover-sent", path: "/account/forgot", typed: map[string]string{"login": "olga"}})
	link = s.mailedLink(t, "olga@example.com", "/account/recover")
	out.openMailed(link)
	out.look("recover-linked")
	out.submit(map[string]string{"password": "123", "confirm_password": "123"})
	out.look("recover-linked-short")
}

func walkSecondFactor(t *testing.T, s *site, l display) {
	p := newTab(t, s.url, l)
	p.open("/account/register")
	p.submit(registration("vera"))
	p.openMailed(s.mailedLink(t, "vera@example.com", "/account/email"))
	p.submit(nil)
	p.look("email-confirmed")
	p.walk(walk{name: "demo-confirmed", path: "/demo/verified"})
	p.forgetProof()
	invalid := http.StatusUnprocessableEntity
	p.walk(
		walk{name: "two-factor-off", path: "/account/two-factor"},
		walk{name: "confirm-mail", path: "/account/confirm/mail"},
		walk{name: "confirm-mailed-code", path: "/account/confirm/mail", typed: map[string]string{}},
		walk{name: "confirm", path: "/account/two-factor/set-up"},
		walk{name: "confirm-wrong", path: "/account/two-factor/set-up", typed: map[string]string{"password": "wrong"}, status: invalid},
		walk{name: "two-factor-set-up", path: "/account/two-factor/set-up", typed: map[string]string{"password": password}},
		walk{name: "two-factor-secret", path: "/account/two-factor/set-up", typed: map[string]string{}},
	)
	app := authenticator{secret: p.secret()}
	p.submit(map[string]string{"code": "000000"})
	p.look("two-factor-secret-wrong")
	p.submit(map[string]string{"code": app.code(t)})
	p.look("recovery-codes")
	codes := p.recoveryCodes()
	p.walk(
		walk{name: "two-factor-on", path: "/account/two-factor"},
		walk{name: "confirm-with-code", path: "/account/two-factor/codes"},
		walk{name: "confirm-with-code-wrong", path: "/account/two-factor/codes", typed: map[string]string{"password": password, "code": "1"},
			status: invalid},
		walk{name: "two-factor-codes", path: "/account/two-factor/codes", typed: map[string]string{"password": password, "code": codes[7]}},
		walk{name: "two-factor-switch-off", path: "/account/two-factor/switch-off"},
	)
	p.signOut()
	p.look("signed-out")
	for _, code := range codes[:7] { // until few are left
		p.open("/account/sign-in")
		p.submit(map[string]string{"login": "vera", "password": password})
		if code == codes[0] {
			p.look("sign-in-code")
			p.submit(map[string]string{"code": "1"})
			p.look("sign-in-code-wrong")
			p.walk(walk{name: "sign-in-recovery-code", path: "/account/sign-in/code?recovery=true"})
		}
		p.submit(map[string]string{"code": code})
		p.wantStatus(http.StatusOK)
		p.signOut()
	}
	p.open("/account/sign-in")
	p.submit(map[string]string{"login": "vera", "password": password})
	p.submit(map[string]string{"code": app.code(t)})
	p.look("last-sign-in")
	p.walk(walk{name: "two-factor-few-codes", path: "/account/two-factor"})
}

func walkPasskeys(t *testing.T, s *site, l display) {
	p, invalid := newTab(t, s.url, l), http.StatusUnprocessableEntity
	p.open("/account/register")
	p.submit(registration("petra"))
	p.walk(walk{name: "passkeys-unconfirmed", path: "/account/passkeys"})
	p.openMailed(s.mailedLink(t, "petra@example.com", "/account/email"))
	p.submit(nil)
	p.forgetProof()
	device := p.addDevice(webauthn.AuthenticatorTransportInternal)
	p.walk(
		walk{name: "passkeys-none", path: "/account/passkeys"},
		walk{name: "passkeys-confirm", path: "/account/passkeys/add"},
		walk{name: "passkeys-confirm-wrong", path: "/account/passkeys/add", typed: map[string]string{"password": "wrong"}, status: invalid},
	)
	p.addPasskey("Laptop")
	p.look("passkeys-added")
	id := strings.TrimPrefix(get(p, chromedp.JavascriptAttribute[string](chromedp.CSS(`a[href*="/rename"]`), "search")), "?")
	device.confirm(false)
	p.walk(walk{name: "passkeys-add", path: "/account/passkeys/add"})
	p.fillPasskey("")
	p.submit(nil)
	p.wantStatus(invalid)
	p.look("passkeys-add-empty")
	p.walk(
		walk{name: "passkeys-rename", path: "/account/passkeys/rename?" + id},
		walk{name: "passkeys-rename-long", path: "/account/passkeys/rename?" + id, typed: map[string]string{"name": strings.Repeat("n", 65)},
			status: invalid},
		walk{name: "passkeys-remove", path: "/account/passkeys/remove?" + id},
		walk{name: "password-with-passkeys", path: "/account/password"},
	)
	p.signOut()
	p.walk(walk{name: "sign-in-passkeys", path: "/account/sign-in"})
}

func walkAccount(t *testing.T, s *site, l display) {
	other := newTab(t, s.url, l)
	other.open("/account/register")
	other.submit(registration("anna"))
	p, invalid := newTab(t, s.url, l), http.StatusUnprocessableEntity
	p.walk(walk{name: "profile-signed-in", path: "/account/sign-in", typed: map[string]string{"login": "anna", "password": password}})
	p.forgetProof()
	p.walk(
		walk{name: "password", path: "/account/password", typed: map[string]string{"password": password}},
		walk{name: "password-wrong", path: "/account/password", typed: map[string]string{"password": "12345678", "confirm_password": "1"},
			status: invalid},
		walk{name: "new-email", path: "/account/new-email"},
		walk{name: "new-email-wrong", path: "/account/new-email", typed: map[string]string{"email": "x"}, status: invalid},
		walk{name: "mailbox-new-email", path: "/account/new-email", typed: map[string]string{"email": "petrova@example.com"}},
		walk{name: "sessions", path: "/account/sessions"},
		walk{name: "data", path: "/account/data"},
		walk{name: "delete", path: "/account/delete"},
	)
	p.open("/account")
	p.do(chromedp.SendKeys(chromedp.CSS(`main [name="phone"]`), "many"))
	p.navigate(chromedp.Click(`form[action="/account"] .actions button`))
	p.wantStatus(invalid)
	p.look("profile-wrong")
	p.open("/account/sessions")
	p.navigate(chromedp.Click("main .row form button"))
	p.look("sessions-one")
	s.putFields(t, []byte(withCountry))
	p.walk(
		walk{name: "complete", path: "/account/complete?next=/demo"},
		walk{name: "complete-empty", path: "/account/complete?next=/demo", typed: map[string]string{}, status: invalid},
		walk{name: "complete-demanded", path: "/demo/complete"},
		walk{name: "deleted", path: "/account/delete", typed: map[string]string{}},
		walk{name: "sign-in-deleted", path: "/account/sign-in", typed: map[string]string{"login": "anna", "password": password},
			status: http.StatusForbidden},
	)
	p.openMailed(s.mailedLink(t, "anna@example.com", "/account/undo-delete"))
	p.look("undo-delete-linked")
	p.submit(nil)
	p.look("undo-deleted")
}

// walkMails looks at the HTML of the mails that the walk has caused.
func walkMails(t *testing.T, s *site, l display) {
	p := s.administrator(t, l)
	p.open("/admin/mail")
	const bySubject = `Object.entries(Object.fromEntries([...document.querySelectorAll("main .rows a")].map((a) => [a.textContent, a.getAttribute("href")]))).sort().map(([, path]) => path)`
	for i, path := range get(p, chromedp.Evaluate[[]string](bySubject)) {
		p.open(path + "/html")
		p.pictures(fmt.Sprint("mail-", i))
	}
}
