package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// unfit returns the texts that do not fit on the page: what is cut off, and buttons of more than two lines.
const unfit = `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => {
	const style = getComputedStyle(e), own = [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
	if (!own || style.display === "inline" || e.clientWidth < 4 || e.matches(".hidden") || !e.checkVisibility()) return false; // for screen readers only
	if (!["auto", "scroll"].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1) return true;
	return e.matches("button.button") && e.clientHeight > 2.5 * parseFloat(style.lineHeight) + parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
}).map((e) => e.tagName + ": " + e.textContent.trim().slice(0, 80)).join("\n")`

// TestLanguages_FitAPhone looks at pages in each built-in language.
func TestLanguages_FitAPhone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../shared/personalpages/texts/*.json")
	if err != nil || len(files) < 7 {
		t.Fatalf("got the languages %q (%v)", files, err)
	}
	var locales []string
	for _, file := range files {
		locales = append(locales, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	settings := strings.Replace(testSettings, "enabled = false", "enabled = true", 1) + "[site]\nname = \"Sample CMS\"\n[two_factor]\nenabled = true\n[sign_in]\nmailed_code = true\n[registration]\nenabled = true\n"
	s := startWith(t, settings, "--locales", strings.Join(locales, ","), "--bake=1s")
	s.register(t, "anna")
	s.lockOut(t, "anna")
	for _, locale := range locales {
		t.Run(locale, func(t *testing.T) {
			t.Parallel()
			phone := display{language: locale}.onPhone()
			look := func(p *tab, path string) {
				t.Helper()
				p.visit(path)
				if got := get(p, chromedp.Evaluate[string](`document.documentElement.lang + " " + getComputedStyle(document.body).direction`)); got != locale+" ltr" {
					t.Errorf("%s: got the language and direction %q, want %s ltr", path, got, locale)
				}
				p.await(path+" to fit", `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
				if got := get(p, chromedp.Evaluate[string](unfit)); got != "" {
					t.Errorf("%s: these texts do not fit:\n%s", path, got)
				}
				p.pictures(strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(strings.TrimPrefix(path, "/")))
			}
			out := newTab(t, s.url, phone)
			for _, path := range []string{"/", "/account/sign-in", "/account/register", "/account/forgot", "/account/recover", "/account/email", "/account/verify", "/account/sign-in/mail", "/account/undo-delete", "/reference"} {
				look(out, path)
			}
			login := "user_" + strings.ToLower(strings.ReplaceAll(locale, "-", "_"))
			s.register(t, login)
			p := s.visitor(t, login, phone)
			for _, path := range []string{"/account", "/account/password", "/account/new-email", "/account/two-factor", "/account/sessions", "/account/data", "/account/delete"} {
				look(p, path)
			}
			admin := s.administrator(t, phone)
			for _, path := range []string{"/admin", "/admin/users", "/admin/users/new", "/admin/users/1", "/admin/users/1/reset", "/admin/support", "/admin/support?login=anna", "/admin/fields", "/admin/fields/new", "/admin/events", "/admin/mail", "/admin/plugin"} {
				look(admin, path)
			}
		})
	}
}

// TestLanguages_RightToLeft shows the pages of a site with the Arabic texts of docs/examples/arabic.
func TestLanguages_RightToLeft(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("../../docs/examples/arabic")
	if err != nil {
		t.Fatal(err)
	}
	s := startCMS(t,
		`URL: "http://127.0.0.1:8080/account"}`, `URL: "http://127.0.0.1:8080/account", API: personalhttp.Options{Messages: os.DirFS("`+folder+`/messages")}}`,
		"personalpages.Config{", `personalpages.Config{Layout: template.Must(template.ParseFiles("layout.html")), Texts: os.DirFS("`+folder+`/texts"), `,
	)
	p := newTab(t, s.url, display{language: "ar"}.onPhone())
	p.visit("/account/register")
	p.see("إنشاء حساب")
	if got := get(p, chromedp.Evaluate[string](`document.documentElement.lang + " " + getComputedStyle(document.querySelector("main form")).direction`)); got != "ar rtl" {
		t.Errorf("got the language and direction %q, want ar rtl", got)
	}
	p.submit(map[string]string{"login": "anna", "email": "anna@example.com", "password": "1234567", "confirm_password": "7654321"})
	p.see("كلمتا المرور مختلفتان. أدخل الكلمة نفسها مرتين.")
	p.see("أدخل كلمة مرور أطول: 8 أحرف على الأقل.")
	p.look("arabic-register-wrong")
	// A control begins at the right, as its label does; its toggle is at the left.
	const mirrored = `(() => { const r = (q) => document.querySelector(q).getBoundingClientRect(); const input = r("#field-password"), toggle = r(".reveal");
		return Math.round(input.right) >= Math.round(r("label[for=field-password]").right) && toggle.left <= input.left + 1 ? "yes" : "" })()`
	if get(p, chromedp.Evaluate[string](mirrored)) != "yes" {
		t.Error("the form is not mirrored")
	}
	p.submit(map[string]string{"login": "anna", "email": "anna@example.com", "password": password, "confirm_password": password})
	p.see("تم إنشاء حسابك.")
	p.see("Sessions") // no Arabic text: the default language has it
	p.wantAccessibleOnPhone()
}
