package personalpages_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// pages are the paths of all pages: public ones, and those for signed-in visitors.
var pages = [2][]string{
	{"/", "/account/sign-in", "/account/register", "/account/forgot", "/account/mailbox", "/account/recover", "/account/email", "/account/verify", "/account/undo-delete"},
	{"/account", "/account/password", "/account/new-email", "/account/sessions", "/account/data", "/account/delete",
		"/account/two-factor", "/account/two-factor/set-up", "/account/two-factor/codes", "/account/two-factor/switch-off", "/demo", "/demo/verified"},
}

func TestPages_BothLanguages(t *testing.T) {
	b := newBrowser(t, newModule())
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	for _, path := range append(pages[0], pages[1]...) {
		english, russian := b.get(path, "Accept-Language", "en"), b.get(path, "Accept-Language", "ru")
		english.shows(t, 200, `<html lang="en">`, "<h1>", "Skip to the content", "Sign out")
		russian.shows(t, 200, `<html lang="ru">`, "<h1>", "Перейти к содержимому", "Выйти")
		// Latin letters in a Russian heading are an untranslated text, or a name.
		_, main, _ := strings.Cut(russian.body, "<h1>")
		heading, _, _ := strings.Cut(main, "</h1>")
		if regexp.MustCompile("[A-Za-z]").MatchString(heading) {
			t.Errorf("%s: got Russian heading %q", path, heading)
		}
	}
}

func TestPages_LanguageWithFewTexts(t *testing.T) {
	b := newBrowserIn(t, newModule(),
		fstest.MapFS{"pl.json": {Data: []byte(`{"success.profile": "Zapisano profil."}`)}},
		fstest.MapFS{"pl.json": {Data: []byte(`{"own_name": "Polski", "sign_out": "Wyloguj się", "profile": "Profil"}`)}})
	for _, want := range []string{
		`msg="texts are missing: they are shown in another language" texts="messages of the API" language=pl`,
		`msg="texts are missing: they are shown in another language" texts="pages below /account/" language=pl`,
	} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("got the log\n%s\nwant %s", b.log, want)
		}
	}
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	for _, path := range append(pages[0], pages[1]...) {
		if !strings.HasPrefix(path, "/account") { // a page of the site
			continue
		}
		b.get(path, "Accept-Language", "pl").shows(t, 200, `<html lang="pl">`, "<h1>", "Skip to the content", "Wyloguj się", ">Polski</button>")
	}
	b.send("POST", "/account", url.Values{"name": {"Anna"}}, "Accept-Language", "pl")
	b.get("/account", "Accept-Language", "pl").shows(t, 200, "Zapisano profil.")
}

func TestPages_RefusePostsFromOtherSites(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, 0)
	for _, path := range []string{"/account", "/account/sign-out", "/account/password", "/account/sessions/end",
		"/account/sessions/end-others", "/account/delete", "/account/sign-in", "/account/sign-in/code",
		"/account/sign-in/mail", "/account/sign-in/mailed-code", "/account/confirm/mail", "/account/confirm/mailed-code",
		"/account/two-factor/set-up", "/account/two-factor/confirm", "/account/two-factor/codes", "/account/two-factor/switch-off", "/account/language"} {
		b.send("POST", path, map[string][]string{"all": {"true"}}, "Sec-Fetch-Site", "cross-site").shows(t, 403, "another site")
		b.send("POST", path, map[string][]string{"all": {"true"}}, "Origin", "https://evil.example").shows(t, 403, "another site")
	}
	if len(m.calls)+len(m.updates) != 0 {
		t.Errorf("got requests %v, want none", m.calls)
	}
}

func TestRegister_InvalidFormKeepsTypedValues(t *testing.T) {
	m := newModule()
	m.fields = []personal.Field{
		{Name: "city", Type: personal.TypeEnum, Label: personal.LocalText{"ru": "Город"}, Options: []personal.Option{{Value: "kazan", Label: personal.LocalText{"ru": "Казань"}}}},
		{Name: "size", Type: personal.TypeEnum, Default: personal.Text("m"), Options: []personal.Option{{Value: "m"}}},
		{Name: "news", Type: personal.TypeBoolean, Default: personal.Text("true")},
		{Name: "number", Type: personal.TypeText, ReadOnly: true},
	}
	b := newBrowser(t, m)
	b.headers = []string{"Accept-Language", "ru"}
	page := b.get("/account/register")
	page.shows(t, 200, "Город", "Казань", `name="news" type="checkbox" value="true" checked`, `<option value="m" selected>`)
	if n := strings.Count(page.body, `<option value=""`); n != 1 {
		t.Errorf("got %d empty choices, want one, of the field without a default", n)
	}
	a := b.post("/account/register", "login", "taken", "email", "a@example.com", "password", "hidden horse", "confirm_password",
		"hidden horse", "city", "kazan")
	a.shows(t, 409, "Ошибка: Регистрация", "Такая учётная запись уже есть.",
		`<a href="#field-login">Логин</a>: Этот логин занят. Выберите другой.`,
		`value="taken"`, `aria-invalid="true"`, `value="a@example.com"`, `<option value="kazan" selected>`)
	for _, unwanted := range []string{"hidden horse", "number", `value="true" checked`} {
		if strings.Contains(a.body, unwanted) {
			t.Errorf("the page contains %q", unwanted)
		}
	}
	b.post("/account/register", "login", "anna", "email", "a@example.com", "password", "p", "confirm_password", "q", "name", "Анна", "city",
		"kazan", "made_up", "x").leads(t, "/account")
	want := personal.RegisterRequest{Login: "anna", Email: "a@example.com", Password: "p", ConfirmPassword: "q",
		Fields: map[string]personal.Input{
			"name": personal.Text("Анна"), "city": personal.Text("kazan"), "news": personal.Text("false"),
		}}
	if diff := cmp.Diff([]any{want}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	b.get("/account").shows(t, 200, "Учётная запись создана.")
}

func TestProfile_SendsOnlyChanges(t *testing.T) {
	m := newModule()
	name := "Anna"
	m.fields = []personal.Field{
		{Name: "bio", Type: personal.TypeLongText}, {Name: "at", Type: personal.TypeDateTime}, {Name: "news", Type: personal.TypeBoolean},
		{Name: "tags", Type: personal.TypeTags}, {Name: "city", Type: personal.TypeText}, {Name: "number", Type: personal.TypeText, ReadOnly: true},
	}
	m.profile.Name = &name
	m.profile.Fields = []personal.ProfileField{
		{Name: "bio", Value: "a\nb"}, {Name: "at", Value: "2026-01-02T03:04:00.5Z"}, {Name: "tags", Value: []string{"x", "y"}},
		{Name: "city", Value: "Kazan"}, {Name: "number", Value: "n-17"},
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	page := b.get("/account")
	page.shows(t, 200, "n-17", "2026-01-02T03:04:00", "Kazan")
	m.profile.Fields[3].Value = "Moscow" // changed elsewhere while the page is open
	same := []string{"name", "Anna", "bio", "a\r\nb", "at", "2026-01-02T03:04", "tags", "x\r\ny", "city", "Kazan", "number", "n-18"}
	b.post("/account", append(same, page.hidden()...)...).leads(t, "/account")
	if len(m.updates) != 0 {
		t.Errorf("got updates %v, want none", m.updates)
	}
	other := []string{"name", "", "bio", "c", "at", "2026-01-02T03:05", "news", "true", "tags", "", "city", "Kazan"}
	b.post("/account", append(other, page.hidden()...)...).leads(t, "/account")
	want := []map[string]personal.Input{{
		"name": {}, "bio": personal.Text("c"), "at": personal.Text("2026-01-02T03:05:00Z"), "news": personal.Text("true"), "tags": {},
	}}
	if diff := cmp.Diff(want, m.updates); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
	b.get("/account").shows(t, 200, "Your profile has been saved.")
}

func TestPages_EscapeUserTexts(t *testing.T) {
	evil := `"><script>alert(1)</script>`
	m := newModule()
	m.profile = personal.Profile{Login: evil, Name: &evil, Email: evil,
		Fields: []personal.ProfileField{{Name: "a", Value: evil}, {Name: "b", Value: evil}}}
	m.fields = []personal.Field{
		{Name: "a", Type: personal.TypeText, Label: personal.LocalText{"en": evil}},
		{Name: "b", Type: personal.TypeLongText, Label: personal.LocalText{"en": evil}, ReadOnly: true},
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	for _, path := range append(pages[0], pages[1]...) {
		if a := b.get(path); strings.Contains(a.body, "<script>") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	b.get("/account").shows(t, 200, "&lt;script&gt;")
	a := b.post("/account/sign-in?next="+strings.ReplaceAll(evil, `"`, "%22"), "login", evil, "password", evil)
	a.shows(t, 401, "&lt;script&gt;")
	if strings.Contains(a.body, "<script>") {
		t.Error(a.body)
	}
}

func TestMailLinks_OpeningChangesNothing(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	for _, path := range []string{"/account/recover", "/account/email", "/account/undo-delete"} {
		for _, method := range []string{"GET", "HEAD"} {
			b.send(method, path+"?token=good", nil).shows(t, 200)
		}
		b.get(path).shows(t, 200, `data-script="token"`, `value=""`, "/assets/token.")
	}
	if len(m.calls) != 0 {
		t.Errorf("got requests %v, want none", m.calls)
	}
}

func TestRecover_SetsPassword(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.post("/account/forgot", "login", " anna@example.com").leads(t, "/account/mailbox?sent=recover")
	b.post("/account/forgot", "login", "anna").leads(t, "/account/mailbox?sent=recover")
	b.get("/account/mailbox?sent=recover").shows(t, 200, "<h1>Check your mailbox</h1>",
		"If the account exists, an e-mail with further instructions is on its way.", `<a href="/account/recover">Enter the code instead</a>`,
		`href="/account/forgot"`)
	b.post("/account/recover", "token", "bad", "password", "p", "confirm_password", "p").shows(t, 422, "not valid", `value="bad"`,
		`<details class="control" open>`)
	b.post("/account/recover", "token", "good", "password", "p", "confirm_password", "q").leads(t, "/account/sign-in")
	b.get("/account/sign-in").shows(t, 200, "Your password has been changed.")
	want := []any{
		personal.RecoverRequest{Email: "anna@example.com"}, personal.RecoverRequest{Login: "anna"},
		personal.RecoverConfirmRequest{Token: "good", Password: "p", ConfirmPassword: "q"},
	}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Only the code opens what a recovery would remove, and asking changes nothing.
func TestRecover_PreviewSaysWhatIsRemoved(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.get("/account/recover").shows(t, 200, `data-preview="/account/recover/preview"`, "everything else that signs in to your account is removed")
	b.post("/account/recover/preview", "token", "good").shows(t, 200, "will be removed: passkeys (2), accounts.google.com. If you can still sign in")
	b.post("/account/recover/preview", "token", "bare").shows(t, 200, `{"lead":""}`)
	b.post("/account/recover/preview", "token", "bad").shows(t, 204, "")
	b.send("POST", "/account/recover/preview", url.Values{"token": {"good"}}, "Sec-Fetch-Site", "cross-site").lacks(t, "accounts.google.com")
	if len(m.calls) != 0 {
		t.Errorf("got requests %v, want none", m.calls)
	}
}

func TestAccount_ChangePasswordAndEmail(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.post("/account/password", "old_password", "wrong").shows(t, 422,
		`<p class="fault" id="field-old_password-error">This is not your current password. Enter it again.</p>`)
	b.post("/account/password", "old_password", "correct horse", "password", "p", "confirm_password", "p").leads(t, "/account/password")
	if !strings.Contains(b.jar["account"].Value, second) {
		t.Errorf("got cookie %v, want the new hash", b.jar["account"])
	}
	b.get("/account/password").leads(t, "/account/confirm?next=%2Faccount%2Fpassword")
	b.get("/account/confirm").shows(t, 200, "Your password has been changed.")
	b.get("/account").shows(t, 200, `<a href="/account/new-email">Change<`)
	b.post("/account/new-email", "email", "b@example.com", "password", "p").leads(t, "/account/mailbox?sent=email")
	b.get("/account/mailbox?sent=email").shows(t, 200, "Please confirm the change", `<a href="/account/email">Enter the code instead</a>`)
	b.post("/account/email", "token", "t").leads(t, "/account")
	b.get("/account").shows(t, 200, "Your e-mail address has been confirmed.")
	credentials := personal.Credentials{UserID: 42, UserHash: second}
	if diff := cmp.Diff([]any{
		personal.ChangeEmailRequest{Credentials: credentials, Email: "b@example.com", Password: "p"},
		personal.ConfirmEmailRequest{Token: "t"},
	}, m.calls[1:]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestLanguage_AppliesToMessages(t *testing.T) {
	b := newBrowser(t, newModule())
	b.post("/account/language", "language", "ru", "next", "/account/sign-in").leads(t, "/account/sign-in")
	b.post("/account/sign-in", "login", "anna", "password", "x").shows(t, 401, `<html lang="ru">`, "Неверный логин или пароль.")
}

func TestLog_ContainsNoSecrets(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.post("/account/sign-in", "login", "anna", "password", "correct horse")
	b.hold(first, time.Hour)
	m.RefreshFunc = nil
	b.get("/account")
	m.down = true
	b.get("/account")
	b.post("/account/recover", "token", "secret-token", "password", "secret-word")
	r := httptest.NewRequest("POST", "/account/recover", strings.NewReader("token=secret-token&%ff"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	b.handler.ServeHTTP(httptest.NewRecorder(), r)
	if b.log.Len() == 0 {
		t.Error("got an empty log, want messages")
	}
	for _, secret := range []string{first, second, "correct horse", "secret"} {
		if strings.Contains(b.log.String(), secret) {
			t.Errorf("the log contains %q:\n%s", secret, b.log)
		}
	}
}

func TestPages_UnknownPathAndMethod(t *testing.T) {
	b := newBrowser(t, newModule())
	b.get("/nowhere").shows(t, 404, "There is no such page")
	if a := b.send("PUT", "/account/sign-in", nil); a.StatusCode != 405 || !strings.Contains(a.Header.Get("Allow"), "POST") {
		t.Errorf("got %d, Allow %q, want 405 and POST", a.StatusCode, a.Header.Get("Allow"))
	}
	r := httptest.NewRequest("POST", "/account/sign-in", strings.NewReader("login=%ff"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if b.handler.ServeHTTP(w, r); w.Code != 400 || !strings.Contains(w.Body.String(), "could not be read") {
		t.Errorf("got %d %s, want 400", w.Code, w.Body)
	}
}

// sized returns a form whose body has the given length.
func sized(bytes int) url.Values {
	return url.Values{"filler": {strings.Repeat("x", bytes-len("filler="))}}
}

func TestForms_BodyOver192KiBIsRefused(t *testing.T) {
	const limit = 192 << 10
	b := newBrowser(t, newModule())
	b.hold(first, time.Minute)
	for _, path := range []string{
		"/account/sign-in", "/account/register", "/account/forgot", "/account/recover", "/account/email",
		"/account", "/account/password", "/account/new-email", "/account/sessions/end", "/account/sessions/end-others", "/account/sign-out",
		"/account/verify", "/account/data", "/account/delete", "/account/undo-delete",
	} {
		b.send("POST", path, sized(limit+1)).shows(t, 413, "Too much data")
	}
	if a := b.send("POST", "/account/language", sized(limit+1)); a.StatusCode != 413 {
		t.Errorf("/language: got %d, want 413", a.StatusCode)
	}
	if a := b.send("POST", "/account/sign-in", sized(limit)); a.StatusCode == 413 {
		t.Error("a form of exactly 192 KiB: got 413")
	}
}

// Keyboards of phones begin a text with a capital letter and correct it, and some browsers send it to a spell checker
// elsewhere: also a password that is shown.
func TestForms_KeepWhatMustBeVerbatim(t *testing.T) {
	b := newBrowser(t, newModule())
	input := regexp.MustCompile(`<input id="field-(login|email|token|password|confirm_password|name)"[^>]*>`)
	for path, want := range map[string]int{"/account/sign-in": 2, "/account/register": 5, "/account/forgot": 1, "/account/recover": 3, "/account/email": 2} {
		inputs := input.FindAllStringSubmatch(b.get(path).body, -1)
		if len(inputs) != want {
			t.Errorf("%s: got %d inputs, want %d", path, len(inputs), want)
		}
		for _, found := range inputs {
			got := strings.Contains(found[0], ` autocapitalize="none" autocorrect="off" spellcheck="false"`)
			if isText := found[1] == "name"; got == isText {
				t.Errorf("%s: got %s", path, found[0])
			}
		}
	}
}
