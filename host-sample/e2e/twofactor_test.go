package e2e

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// authenticator is an app that shows codes (RFC 6238).
type authenticator struct {
	secret string // base32
	last   int64  // the time step of the last code
}

// code returns a code that has not been used: that of now, or the next one.
func (a *authenticator) code(t *testing.T) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(a.secret)
	if err != nil {
		t.Fatal(err)
	}
	a.last = max(a.last+1, time.Now().Unix()/30)
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, a.last) // never fails
	sum := mac.Sum(nil)
	number := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) & (1<<31 - 1)
	return fmt.Sprintf("%06d", number%1_000_000)
}

// startWithTwoFactor starts a host whose users can switch a second factor on.
func startWithTwoFactor(t *testing.T) *site {
	t.Helper()
	s := startWith(t, testSettings+"[registration]\nemail_verification = \"off\"\n[two_factor]\nenabled = true\n")
	s.register(t, "anna")
	return s
}

// setUp switches the second factor on, up to the page of the recovery codes.
func (p *tab) setUp(a *authenticator) {
	p.t.Helper()
	eventually(p.t, "second factors are offered", func() bool { // pages ask every 5 s
		p.open("/account/two-factor/set-up")
		return get(p, chromedp.Location()) != p.base+"/account/two-factor"
	})
	p.openProven("/account/two-factor/set-up")
	p.submit(nil)
	a.secret = p.secret()
	p.submit(map[string]string{"code": a.code(p.t)})
}

// secret returns the secret that the page shows.
func (p *tab) secret() string { return strings.ReplaceAll(p.text(".secret"), " ", "") }

// recoveryCodes returns the codes that the page shows.
func (p *tab) recoveryCodes() []string {
	p.t.Helper()
	return strings.Fields(p.await("recovery codes", `[...document.querySelectorAll(".codes code")].map((e) => e.innerText).join(" ")`))
}

// allowScripts sets whether pages may run scripts.
func (p *tab) allowScripts(allow bool) {
	p.t.Helper()
	p.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !allow}))
}

// wantAccessibleAlone is wantAccessible for a page without scripts, of which axe is one.
func (p *tab) wantAccessibleAlone() {
	p.t.Helper()
	p.allowScripts(true)
	p.wantAccessible()
	p.allowScripts(false)
}

// signOut presses the button in the header, whatever its language.
func (p *tab) signOut() {
	p.t.Helper()
	p.navigate(chromedp.Click(`.site-header form[action="/account/sign-out"] button`))
}

func TestTwoFactor_KeyboardAndPrint(t *testing.T) {
	t.Parallel()
	s := startWithTwoFactor(t)
	p := s.visitor(t, "anna", desktop)
	p.forgetProof()
	var app authenticator
	p.press("Two-factor sign-in")
	p.tabTo("Set up two-factor sign-in")
	p.navigate(keyPresses("\r"))
	p.wantFocus("Current password")
	p.key(password)
	p.navigate(keyPresses("\r"))
	p.tabTo("Continue")
	p.navigate(keyPresses(" "))
	app.secret = p.secret()
	p.tabTo("Open it in the app")
	p.tabTo("Code from your app")
	p.key(app.code(t))
	p.tabTo("Switch on")
	p.navigate(keyPresses(" "))
	codes := p.recoveryCodes()

	p.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
	printed := strings.Fields(p.text("body"))
	if want := append([]string{"Sample", "CMS"}, codes...); strings.Join(printed, " ") != strings.Join(want, " ") {
		t.Errorf("got the print %q, want %q", printed, want)
	}
	p.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}))
	p.navigate(command(page.Reload, page.ReloadParams{}))
	p.see("Recovery codes are shown only once")
	p.wantNoText(codes[0])
	p.press("New recovery codes")
}
