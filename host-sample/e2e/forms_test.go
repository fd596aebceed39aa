package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

func TestForms_ShowAPasswordOnDemand(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desktop)
	p.open("/account/sign-in")
	p.wantFocus("Login or e-mail")
	p.fill("Login or e-mail", "anna")
	p.fill("Password", password)
	wantType := func(want string) {
		t.Helper()
		p.await("a control of type "+want, fmt.Sprintf(`document.getElementById("field-password").type === %q ? "yes" : ""`, want))
	}
	wantType("password")
	p.do(chromedp.Click(p.named("Show: Password")))
	wantType("text")
	p.wantAccessible()
	p.do(chromedp.Click(p.named("Hide: Password")))
	wantType("password")
	p.do(chromedp.Click(p.named("Show: Password")))
	p.press("Sign in")
	p.see("You are signed in.")

	p.allowScripts(false)
	p.openProven("/account/password")
	if n := get(p, chromedp.Evaluate[int](`[...document.querySelectorAll(".reveal")].filter((e) => e.checkVisibility()).length`)); n != 0 {
		t.Errorf("got %d buttons that do nothing without scripts", n)
	}
}

func TestForms_PartOfADateIsNotSent(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.visitorOf(t, "anna")
	p.open("/account")
	p.do(chromedp.Click(p.control("Date of birth")))
	p.key("01")
	p.do(chromedp.Click(p.named("Save")))
	p.await("the focus on the date", `document.activeElement.name === "birth_date" ? "yes" : ""`)
	p.wantNoText("Your profile has been saved.")
}

// visitorOf registers a user and signs in.
func (s *site) visitorOf(t *testing.T, login string) *tab {
	t.Helper()
	s.register(t, login)
	return s.visitor(t, login, desktop)
}

func TestTabs_StayInTheirPlace(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := s.visitorOf(t, "anna")
	const places = `[...document.querySelectorAll(".tabs a")].map((a) => a.getBoundingClientRect().x).join()`
	p.open("/account")
	want := get(p, chromedp.Evaluate[string](places))
	for _, path := range []string{"/account/password", "/account/sessions", "/account/data"} {
		p.openProven(path)
		if got := get(p, chromedp.Evaluate[string](places)); got != want {
			t.Errorf("%s: got the tabs at %s, want %s", path, got, want)
		}
		if path == "/account/sessions" {
			p.await("a relative time", `/^(now|\d+ seconds? ago|\d minutes? ago)$/.test(document.querySelector("time[data-ago]").innerText) ? "yes" : ""`)
		}
	}
	for path, tab := range map[string]string{"/account/delete": "Profile", "/account/new-email": "Profile"} {
		p.openProven(path)
		if got := p.text(".tabs [aria-current]"); got != tab {
			t.Errorf("%s: got the tab %q, want %q", path, got, tab)
		}
	}
	p.emulate(desktop.onPhone())
	p.openProven("/account/data") // the last tab
	p.await("the current tab in view", `(() => {
		const box = document.querySelector(".tabs [aria-current]").getBoundingClientRect();
		return box.left >= 0 && box.right <= innerWidth ? "yes" : "";
	})()`)
}

func TestPhone_OneWidthAndUnbrokenWords(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	p := newTab(t, s.url, display{width: 390, height: 844, language: "en"})
	p.open("/account/register")
	const widths = `[...new Set([...document.querySelectorAll("main :is(input:not([type=checkbox], [type=radio], [type=hidden]), select, textarea)")].map((e) => e.offsetWidth))].join()`
	if got := get(p, chromedp.Evaluate[string](widths)); len(got) != len("308") {
		t.Errorf("got controls of the widths %s, want one", got)
	}
	for _, width := range []int64{320, 360, 390} {
		p.emulate(display{width: width, height: 844})
		for _, path := range []string{"/account/forgot", "/account/verify", "/account/email"} {
			p.open(path)
			const broken = `[...document.querySelectorAll(".unbroken")].filter((e) => e.getClientRects().length > 1).length`
			if n := get(p, chromedp.Evaluate[int](broken)); n != 0 {
				t.Errorf("%s at %d px: got %d broken words", path, width, n)
			}
		}
	}
}

func TestRecoveryCodes_AreCopiedAndDownloaded(t *testing.T) {
	t.Parallel()
	s := startWithTwoFactor(t)
	p := s.visitor(t, "anna", desktop)
	folder := p.downloads()
	p.setUp(&authenticator{})
	codes := p.recoveryCodes()
	c := chromedp.FromContext(p.ctx)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := cdp.Call(p.ctx, c.Browser, browserdomain.SetPermission, browserdomain.SetPermissionParams{
			BrowserContextID: c.BrowserContextID, Origin: p.base,
			Permission: &browserdomain.PermissionDescriptor{Name: name}, Setting: browserdomain.PermissionSettingGranted,
		})
		if err != nil {
			p.fatal(err)
		}
	}
	p.do(chromedp.Click(p.named("Copy")))
	p.see("Copied.")
	if copied := get(p, chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise)); copied != strings.Join(codes,
		"\n") {
		t.Errorf("got %q in the clipboard, want %q", copied, codes)
	}
	p.do(chromedp.Click(p.named("Download")))
	eventually(t, "the file is downloaded", func() bool {
		file, err := os.ReadFile(filepath.Join(folder, "recovery-codes.txt"))
		return err == nil && strings.HasSuffix(string(file), "\n\n"+strings.Join(codes, "\n")+"\n")
	})
	p.named("Print")
	p.wantAccessible()
}

// downloads makes the tab store what it downloads, and returns the folder.
func (p *tab) downloads() string {
	p.t.Helper()
	folder := p.t.TempDir()
	c := chromedp.FromContext(p.ctx)
	_, err := cdp.Call(p.ctx, c.Browser, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{
		Behavior: browserdomain.SetDownloadBehaviorBehaviorAllow, BrowserContextID: c.BrowserContextID, DownloadPath: folder,
	})
	if err != nil {
		p.fatal(err)
	}
	return folder
}
