package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// startWithPasskeys starts a host whose users can add passkeys, and signs one in, on a device that can hold them.
func startWithPasskeys(t *testing.T) (*tab, device) {
	t.Helper()
	s := startAtLocalhost(t, "[registration]\nemail_verification = \"off\"\n[two_factor]\nenabled = true\n")
	s.register(t, "anna")
	p := s.visitor(t, "anna", desktop)
	return p, p.addDevice(webauthn.AuthenticatorTransportInternal)
}

// startAtLocalhost starts a host with passkeys, and further settings, behind a proxy at the URL if one is
// given.
func startAtLocalhost(t *testing.T, more string, url ...string) *site {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	origin := fmt.Sprint("http://localhost:", address.Port)
	flags := []string{"--addr", address.String()}
	for _, public := range url {
		origin, flags = public, append(flags, "--url", public)
	}
	return startWith(t, testSettings+more+passkeysAt(origin), flags...)
}

// passkeysAt are the settings of passkeys for the pages of an origin at localhost.
func passkeysAt(origin string) string {
	return fmt.Sprintf("[passkeys]\nrp_id = \"localhost\"\norigins = [%q]\n", origin)
}

// device is an authenticator of a tab, whose user confirms everything.
type device struct {
	tab *tab
	id  webauthn.AuthenticatorID
}

// addDevice connects an authenticator to a tab.
func (p *tab) addDevice(transport webauthn.AuthenticatorTransport) device {
	p.t.Helper()
	p.do(command(webauthn.Enable, webauthn.EnableParams{}))
	added := get(p, call(webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21, Transport: transport,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}}))
	return device{p, added.AuthenticatorID}
}

// confirm sets whether the user confirms at once what the device asks.
func (d device) confirm(at bool) {
	d.tab.t.Helper()
	d.tab.do(command(webauthn.SetAutomaticPresenceSimulation, webauthn.SetAutomaticPresenceSimulationParams{AuthenticatorID: d.id,
		Enabled: at}))
}

// keys returns how many passkeys the device has.
func (d device) keys() int {
	d.tab.t.Helper()
	return len(get(d.tab, call(webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: d.id})).Credentials)
}

// fillPasskey types the name of a passkey.
func (p *tab) fillPasskey(name string) {
	p.t.Helper()
	get(p, chromedp.Evaluate[string](`document.querySelector('[name="name"]').value = ""`))
	p.do(chromedp.SendKeys(chromedp.CSS(`[name="name"]`), name))
}

// addPasskey adds a passkey, after the confirmation if that is asked for.
func (p *tab) addPasskey(name string) {
	p.t.Helper()
	p.open("/account/passkeys/add")
	if get(p, chromedp.Evaluate[string]("location.pathname")) == "/account/confirm" {
		p.submit(map[string]string{"password": password})
	}
	p.fillPasskey(name)
	p.submit(nil)
	p.wantStatus(http.StatusOK)
}

// usePasskey presses the button of the passkey, whatever its language.
func (p *tab) usePasskey() {
	p.t.Helper()
	p.navigate(chromedp.Click(`[data-passkey] form button`))
}

// attempted is an expression that says whether the page has started a sign-in by autofill.
const attempted = `performance.getEntriesByType("resource").some((e) => e.name.endsWith("/passkeys/begin") && e.responseEnd > 0) ? "yes" : ""`

func TestPasskeys_FromTheFirstToTheLast(t *testing.T) {
	t.Parallel()
	p, key := startWithPasskeys(t)
	p.open("/account/passkeys/add")
	p.fillPasskey(strings.Repeat("n", 65))
	p.submit(nil)
	p.wantStatus(http.StatusUnprocessableEntity)
	if n := key.keys(); n != 0 {
		t.Errorf("got %d passkeys on the device of a name that is refused, want none", n)
	}
	p.fillPasskey("Laptop")
	p.submit(nil)
	p.see("The passkey has been added.")
	p.signOut()

	key.confirm(false) // it would confirm autofill at once
	p.open("/account/sign-in?next=/account/sessions")
	p.await("an attempt of autofill", attempted) // a later one would be confirmed
	p.await("space between the two buttons", `(() => {
		const [first, second] = [...document.querySelectorAll(".card .button")].map((b) => b.getBoundingClientRect());
		return second.top - first.bottom >= 8 ? "yes" : "";
	})()`)
	key.confirm(true)
	p.usePasskey()
	p.see("with a passkey")

	p.open("/account/passkeys")
	p.navigate(chromedp.Click(`a[href*="remove"]`)) // the sign-in has given a proof
	p.submit(nil)
	p.await("the sign-in, because the passkey began the session", `location.pathname === "/account/sign-in" ? "yes" : ""`)

	// The device still has the passkey, with which autofill signs in at once.
	p.see("may have been removed")
	p.wantStatus(http.StatusUnauthorized)
	key.confirm(false)
	p.look("sign-in-passkey-refused")
}

func TestPasskeys_AutofillSignsIn(t *testing.T) {
	t.Parallel()
	p, key := startWithPasskeys(t)
	p.addPasskey("Laptop")
	p.signOut()

	key.confirm(false)
	p.open("/account/sign-in?next=/demo")
	p.await("an attempt", attempted)
	if got := get(p, chromedp.JavascriptAttribute[string](chromedp.CSS(`[name="login"]`), "autocomplete")); got != "username webauthn" {
		t.Errorf("got autocomplete %q, want username webauthn", got)
	}
	// The attempt is renewed before it expires: the user takes their time.
	key.confirm(true)
	p.navigate(evaluation(`(() => {
		const now = Date.now;
		Date.now = () => now() + 4 * 60 * 1000;
		document.dispatchEvent(new Event("visibilitychange"));
	})()`))
	p.see("You are signed in.")
	p.see("Members' page")
}

// evaluation is a script of which nothing is awaited.
func evaluation(script string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool](script+" === undefined")(ctx, t)
		return chromedp.Void{}, err
	}
}

func TestPasskeys_TwoDevices(t *testing.T) {
	t.Parallel()
	p, laptop := startWithPasskeys(t)
	p.addPasskey("Laptop")
	p.open("/account/passkeys/add")
	p.do(chromedp.Click(`main form button`))
	p.see("has a passkey for your account already")
	p.wantAccessible()

	laptop.confirm(false)
	stick := p.addDevice(webauthn.AuthenticatorTransportUsb)
	p.addPasskey("Stick")
	if laptop.keys() != 1 || stick.keys() != 1 {
		t.Fatalf("got %d and %d passkeys, want one on each device", laptop.keys(), stick.keys())
	}
	p.signOut()
	p.do(command(webauthn.RemoveVirtualAuthenticator, webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: laptop.id}))
	p.open("/account/sign-in")
	p.usePasskey()
	p.see("You are signed in.")
}

// A session that the password began proves with a passkey. It tells the browser which passkeys
// are left after one was removed.
func TestPasskeys_ProveThenChangeTheEmail(t *testing.T) {
	t.Parallel()
	p, key := startWithPasskeys(t)
	p.addPasskey("Laptop")
	p.signOut()
	key.confirm(false)
	p.signIn("anna", password)
	key.confirm(true)
	p.forgetProof()
	p.open("/account/new-email")
	p.see("Confirm that it is you")
	p.look("confirm-passkey")
	p.usePasskey()
	p.fill("New e-mail address", "new@example.com")
	p.press("Change the address")
	p.see("Check your mailbox")

	p.open("/account/password")
	p.see("Remove everything else that signs me in")
	p.signOut()
	key.confirm(false)
	p.signIn("anna", password)
	p.forgetProof()
	p.open("/account/passkeys")
	p.navigate(chromedp.Click(`a[href*="remove"]`))
	p.submit(map[string]string{"password": password})
	p.submit(nil)
	p.see("The passkey has been removed.")
	eventually(t, "the device has no passkey", func() bool { return key.keys() == 0 })
}

// A passkey that was added without a code does not replace the second factor.
func TestPasskeys_SecondFactor(t *testing.T) {
	t.Parallel()
	p, _ := startWithPasskeys(t)
	p.addPasskey("Laptop")
	var app authenticator
	p.open("/account/two-factor/set-up")
	p.submit(nil)
	app.secret = p.secret()
	p.submit(map[string]string{"code": app.code(t)})
	codes := p.recoveryCodes()
	p.signOut()
	p.visit("/account/sign-in") // and autofill
	p.see("Enter your code")
	p.submit(map[string]string{"code": codes[0]})
	p.see("You are signed in.")
	p.forgetProof()
	p.open("/account/data")
	p.usePasskey()
	p.wantStatus(http.StatusUnprocessableEntity)
	p.wantNoControl("Current password")
	p.look("confirm-passkey-code")
	p.submit(map[string]string{"code": codes[1]})
	p.see("Download the file")
}

// A keyboard alone, and no scripts at all.
func TestPasskeys_KeyboardNoScripts(t *testing.T) {
	t.Parallel()
	p, _ := startWithPasskeys(t)
	// The device would confirm what the browser offers in the field at once.
	get(p, call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "PublicKeyCredential.isConditionalMediationAvailable = undefined;"}))
	p.forgetProof()
	p.open("/account/passkeys")
	p.tabTo("Add a passkey")
	p.navigate(keyPresses(kb.Enter))
	p.wantFocus("Current password")
	p.key(password)
	p.navigate(keyPresses(kb.Enter))
	p.wantFocus("Name of the passkey")
	p.fillPasskey("Phone")
	p.navigate(keyPresses(kb.Enter))
	p.see("The passkey has been added.")
	p.signOut()
	p.open("/account/sign-in")
	p.wantFocus("Login or e-mail")
	p.tabTo("Sign in with a passkey")
	p.navigate(keyPresses(" "))
	p.see("You are signed in.")

	p.allowScripts(false)
	p.open("/account/passkeys/add")
	p.see("this page needs scripts")
	p.wantAccessibleAlone()
	p.signOut()
	p.open("/account/sign-in")
	p.see("Use your password instead.")
	p.wantNoText("Sign in with a passkey\n")
	p.wantAccessibleAlone()
}
