package personalpages_test

import (
	"context"
	"fmt"
	"html"
	"image/color"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/boombuler/barcode/qr"
	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	secretURI = "otpauth://totp/personal:anna?issuer=personal&secret=JBSWY3DPEHPK3PXP"
	rightCode = "123456"
)

// withTwoFactor adds the second factor to a module.
func withTwoFactor(m *module) *module {
	judge := func(password, code string) error {
		var fields personal.FieldErrors
		switch {
		case password != "correct horse":
			fields.Add("password", personal.FieldErrorMismatch)
		case code == "":
			fields.Add("code", personal.FieldErrorRequired)
		case code != rightCode:
			fields.Add("code", personal.FieldErrorMismatch)
		}
		return fields.Err()
	}
	codes := []string{"AAAA-BBBB-CCCC-DDDD-EEEE-FFFF", "2222-3333-4444-5555-6666-7777"}
	m.BeginTwoFactorFunc = func(_ context.Context, r personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
		return personal.TwoFactorSecret{Secret: "JBSWY3DPEHPK3PXP", URI: secretURI}, judge(r.Password, rightCode)
	}
	m.ConfirmTwoFactorFunc = func(_ context.Context, r personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error) {
		if m.profile.TwoFactor {
			return personal.ConfirmedTwoFactor{}, personal.NewError(personal.CodeTwoFactorOff, nil) // no secret waits
		}
		err := judge("correct horse", r.Code)
		m.profile.TwoFactor = err == nil
		return personal.ConfirmedTwoFactor{Credentials: m.renewed(r.Credentials, err), RecoveryCodes: codes}, err
	}
	m.RenewRecoveryCodesFunc = func(_ context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
		return codes, judge(r.Password, r.Code)
	}
	m.RemoveOwnTwoFactorFunc = func(_ context.Context, r personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error) {
		err := judge(r.Password, r.Code)
		m.profile.TwoFactor = err != nil
		return m.renewed(r.Credentials, err), err
	}
	signIn := m.AuthorizeFunc
	m.AuthorizeFunc = func(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
		in, err := signIn(ctx, r)
		switch {
		case err != nil || r.Code == rightCode:
			return in, err
		case r.Code == "":
			return personal.SignedIn{}, personal.NewError(personal.CodeCodeRequired, nil)
		case r.Code == "throttled":
			return personal.SignedIn{}, &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: 30 * time.Second}
		case r.Code == "blocked":
			return personal.SignedIn{}, personal.NewError(personal.CodeCodesBlocked, nil)
		}
		return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCode, nil)
	}
	return m
}

var (
	qrPath = regexp.MustCompile(`<svg class="qr" role="img" aria-label="[^"]+" viewBox="0 0 (\d+) \d+"[^>]*>.*<path d="([^"]*)"`)
	qrRun  = regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`)
)

// wantQR expects the QR code of a text in the page.
func (r reply) wantQR(t *testing.T, text string) {
	t.Helper()
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		t.Fatal(err)
	}
	found := qrPath.FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("got no QR code:\n%s", r.body)
	}
	const quietZone = 4
	size := code.Bounds().Dx()
	if want := fmt.Sprint(size + 2*quietZone); found[1] != want {
		t.Errorf("got a view box of %s, want %s", found[1], want)
	}
	dark := map[[2]int]bool{}
	for _, run := range qrRun.FindAllStringSubmatch(found[2], -1) {
		var x, y, width, back int
		_, err := fmt.Sscan(strings.Join(run[1:], " "), &x, &y, &width, &back)
		if err != nil || back != width {
			t.Errorf("got the run %s: %v", run[0], err)
		}
		for i := range width {
			dark[[2]int{x - quietZone + i, y - quietZone}] = true
		}
	}
	for x := range size {
		for y := range size {
			if want := code.At(x, y) == color.Black; dark[[2]int{x, y}] != want {
				t.Fatalf("module %d,%d: got dark %t, want %t", x, y, !want, want)
			}
			delete(dark, [2]int{x, y})
		}
	}
	if len(dark) > 0 {
		t.Errorf("got %d dark modules outside the code", len(dark))
	}
}

func TestTwoFactor_SetUpShowsTheSecretAndTheCodesOnce(t *testing.T) {
	m := withTwoFactor(newModule())
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.get("/account/two-factor").shows(t, 200, ">Off<", `href="/account/two-factor/set-up"`)
	b.post("/account/two-factor/set-up", "password", "wrong").shows(t, 422,
		`id="field-password-error">This is not your current password. Enter it again.`)
	shown := b.post("/account/two-factor/set-up", "password", "correct horse")
	shown.shows(t, 200, "JBSW Y3DP EHPK 3PXP", `inputmode="numeric"`, `autocomplete="one-time-code"`,
		`href="`+html.EscapeString(secretURI)+`"`)
	shown.wantQR(t, secretURI)

	again := b.post("/account/two-factor/confirm", append(shown.hidden(), "code", "654321")...)
	again.shows(t, 422, "JBSW Y3DP EHPK 3PXP", `id="field-code-error">This code is wrong or has been used.`)
	again.wantQR(t, secretURI)
	if strings.Contains(again.body, "654321") {
		t.Error("the page repeats the wrong code")
	}
	codes := b.post("/account/two-factor/confirm", append(again.hidden(), "code", rightCode)...)
	codes.shows(t, 200, "AAAA-BBBB-CCCC-DDDD-EEEE-FFFF", "2222-3333-4444-5555-6666-7777", "Two-factor sign-in is on.",
		`href="/account/two-factor"`)
	codes.shows(t, 200, `href="data:text/plain;charset=utf-8,Your%20recovery%20codes:%20anna%0A%0AAAAA-BBBB-CCCC-DDDD-EEEE-FFFF%0A2222-3333-4444-5555-6666-7777%0A" download="recovery-codes.txt"`,
		`data-script="copy" hidden`, `data-script="print" hidden`)
	if strings.Contains(codes.body, "JBSW") {
		t.Error("the page of the recovery codes has the secret")
	}

	b.post("/account/two-factor/confirm", append(again.hidden(), "code", rightCode)...).leads(t, "/account/two-factor") // a reload
	b.get("/account/two-factor/confirm").leads(t, "/account/two-factor")
	overview := b.get("/account/two-factor")
	overview.shows(t, 200, ">On<", "Recovery codes are shown only once", `href="/account/two-factor/codes"`,
		`href="/account/two-factor/switch-off"`)
	if strings.Contains(overview.body, "AAAA") {
		t.Error("the overview has recovery codes")
	}
	for name := range b.jar {
		if name != "account" && name != "notice" {
			t.Errorf("got the cookie %q", name)
		}
	}
}

func TestTwoFactor_ConfirmRefusesOtherLinks(t *testing.T) {
	b := newBrowser(t, withTwoFactor(newModule()))
	b.hold(first, 0)
	for _, uri := range []string{
		"", "javascript:alert(1)//?secret=A", "javascript://totp/%0aalert(1)?secret=A", "https://evil.example/?secret=A", "otpauth://hotp/a?secret=A", "otpauth://totp/a", "otpauth://totp/%zz?secret=A",
		"otpauth://totp/a?secret=" + strings.Repeat("A", 3000),
	} {
		page := b.post("/account/two-factor/confirm", "uri", uri, "code", "1")
		page.shows(t, http.StatusBadRequest)
		if uri != "" && strings.Contains(page.body, html.EscapeString(uri)) {
			t.Errorf("the error page repeats %q", uri)
		}
	}
}

func TestTwoFactor_DrawsWhatIsShown(t *testing.T) {
	m := withTwoFactor(newModule())
	b := newBrowser(t, m)
	b.hold(first, 0)
	for size, drawn := range map[int]bool{512: true, 513: false, 4000: false} {
		uri := "otpauth://totp/" + strings.Repeat("a", size-len("otpauth://totp/?secret=JBSWY3DP")) + "?secret=JBSWY3DP"
		page := b.post("/account/two-factor/confirm", "uri", uri, "code", "1")
		page.shows(t, 422, "JBSW Y3DP")
		if shown := strings.Contains(page.body, "<svg") && strings.Contains(page.body, "Scan this QR code"); shown != drawn {
			t.Errorf("%d bytes: got a QR code: %t, want %t", size, shown, drawn)
		}
	}
	m.down = true // so that nothing has been checked
	page := b.post("/account/two-factor/confirm", "uri", secretURI, "code", "1")
	page.shows(t, 503, "JBSW Y3DP")
	page.lacks(t, "<svg")
}

func TestTwoFactor_NewCodesAndSwitchingOff(t *testing.T) {
	m := withTwoFactor(newModule())
	m.profile.TwoFactor = true
	b := newBrowser(t, m)
	b.hold(first, 0)
	for _, path := range []string{"/account/two-factor/codes", "/account/two-factor/switch-off"} {
		b.post(path, "password", "correct horse").shows(t, 422, `id="field-code-error">Enter the code that your authenticator app shows.`)
		b.post(path, "password", "correct horse", "code", "1").shows(t, 422, `id="field-code-error">This code is wrong or has been used.`)
	}
	b.post("/account/two-factor/codes", "password", "correct horse", "code", rightCode).
		shows(t, 200, "2222-3333-4444-5555-6666-7777", "The earlier ones no longer work.")
	b.post("/account/two-factor/switch-off", "password", "correct horse", "code", rightCode).leads(t, "/account/two-factor")
	b.get("/account/two-factor").shows(t, 200, "Two-factor sign-in is off.", ">Off<")
}

func TestTwoFactor_NotOfferedIsSaid(t *testing.T) {
	m := newModule()
	none := personal.NewError(personal.CodeNotFound, nil)
	m.BeginTwoFactorFunc = func(context.Context, personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
		return personal.TwoFactorSecret{}, none
	}
	m.RemoveOwnTwoFactorFunc = func(context.Context, personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error) {
		return personal.Credentials{}, none
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	for _, path := range []string{"/account/two-factor/set-up", "/account/two-factor/switch-off"} {
		b.post(path, "password", "correct horse", "code", rightCode).shows(t, 404, "This site does not offer two-factor sign-in")
	}
}

func TestTwoFactor_UnverifiedEmailOffersTheMail(t *testing.T) {
	m := newModule()
	m.BeginTwoFactorFunc = func(context.Context, personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
		return personal.TwoFactorSecret{}, personal.NewError(personal.CodeEmailUnverified, nil)
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	page := b.post("/account/two-factor/set-up", "password", "correct horse")
	page.shows(t, 403, "Please confirm your e-mail address first", `name="login" value="anna"`)
}

func TestTwoFactor_FormsAskForTheCode(t *testing.T) {
	m := newModule()
	m.profile.TwoFactor = true
	var codes []string
	note := func(code string) error {
		codes = append(codes, code)
		return nil
	}
	m.ChangePasswordFunc = func(_ context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
		return personal.Credentials{UserID: 42, UserHash: second}, note(r.Code)
	}
	m.ChangeEmailFunc = func(_ context.Context, r personal.ChangeEmailRequest) error { return note(r.Code) }
	m.ExportFunc = func(_ context.Context, r personal.ExportRequest) (personal.Export, error) {
		return personal.Export{}, note(r.Code)
	}
	m.DeleteFunc = func(_ context.Context, r personal.DeleteRequest) (time.Time, error) { return time.Time{}, note(r.Code) }
	paths := []string{"/account/password", "/account/new-email", "/account/data", "/account/delete"}
	b := newBrowser(t, m)
	for _, path := range paths {
		b.hold(first, 0)
		b.post(path, "code", "for"+path)
	}
	var want []string
	for _, path := range paths {
		want = append(want, "for"+path)
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	m.profile.TwoFactor = false
	b.hold(first, 0)
	for _, path := range paths {
		if page := b.get(path); strings.Contains(page.body, `name="code"`) {
			t.Errorf("%s asks for a code without a second factor", path)
		}
	}
}

func TestSignIn_SecondPageAsksForTheCode(t *testing.T) {
	m := withTwoFactor(newModule())
	b := newBrowser(t, m)
	codePath := "/account/sign-in/code?" + url.Values{"next": {"/demo"}}.Encode()
	b.post("/account/sign-in?next=%2Fdemo", "login", "anna", "password", "correct horse").leads(t, codePath)
	held := b.jar["sign_in"]
	if held == nil || !held.HttpOnly || held.SameSite != http.SameSiteStrictMode || held.MaxAge != 300 {
		t.Fatalf("got the cookie %+v, want one for 300 s that scripts cannot read", held)
	}
	if b.jar["account"] != nil {
		t.Error("got a session before the code")
	}
	b.get(codePath).shows(t, 200, "Enter your code", `autocomplete="one-time-code"`, `inputmode="numeric"`, "recovery=true",
		"ask the site’s administrator to reset the access")
	b.get(codePath+"&recovery=true").shows(t, 200, "Recovery code", "A code from the app works here, too.")
	b.post(codePath, "code", "").shows(t, 401, "Please enter the code that your authenticator app shows")
	b.post(codePath, "code", "654321").shows(t, 401, "This code is wrong or has been used.")
	b.post(codePath, "code", "throttled").shows(t, 429, "Try again in 30 s.")
	b.post(codePath, "code", "blocked").leads(t, codePath+"&recovery=true")
	b.get(codePath+"&recovery=true").shows(t, 200, "Too many wrong codes were entered", "Recovery code")
	b.post(codePath, "code", rightCode).leads(t, "/demo")
	if b.jar["sign_in"] != nil || b.jar["account"] == nil {
		t.Errorf("got the cookies %v, want a session and no password", b.jar)
	}
	want := personal.AuthorizeRequest{Login: "anna", Password: "correct horse", Code: rightCode}
	if diff := cmp.Diff(want, m.calls[len(m.calls)-1]); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestSignIn_CodeWithoutTheFirstPageStartsAgain(t *testing.T) {
	m := withTwoFactor(newModule())
	b := newBrowser(t, m)
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account/sign-in/code")
	other := newBrowser(t, m) // another node, or the host after a restart
	other.jar["sign_in"] = b.jar["sign_in"]
	calls := len(m.calls)
	other.get("/account/sign-in/code").leads(t, "/account/sign-in?again=true")
	other.post("/account/sign-in/code?next=%2Fdemo", "code", rightCode).leads(t, "/account/sign-in?again=true&next=%2Fdemo")
	other.get("/account/sign-in?again=true&next=%2Fdemo").shows(t, 200, "Please sign in again")
	for _, value := range []string{"", "x", "!", strings.Repeat("A", 200)} {
		other.jar["sign_in"] = &http.Cookie{Name: "sign_in", Value: value}
		other.get("/account/sign-in/code").leads(t, "/account/sign-in?again=true")
	}
	if len(m.calls) != calls {
		t.Errorf("got requests %v, want none", m.calls[calls:])
	}

	m.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCredentials, nil)
	}
	b.post("/account/sign-in/code", "code", rightCode).leads(t, "/account/sign-in?again=true") // a new password
	if b.jar["sign_in"] != nil {
		t.Error("the cookie with the wrong password was kept")
	}
}
