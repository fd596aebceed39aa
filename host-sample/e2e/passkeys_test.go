package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// startWithPasskeys starts a host whose users can add passkeys.
func startWithPasskeys(t *testing.T) *site {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "settings.toml")
	text := fmt.Sprintf("%s[registration]\nemail_verification = \"off\"\n[two_factor]\nenabled = true\n"+
		"[passkeys]\nrp_id = \"localhost\"\norigins = [\"http://localhost:%d\"]\n", testSettings, address.Port)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWithDefaults(t, "--settings", settings, "--addr", address.String())
	s.register(t, "anna")
	return s
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
	d.tab.do(command(webauthn.SetAutomaticPresenceSimulation, webauthn.SetAutomaticPresenceSimulationParams{AuthenticatorID: d.id, Enabled: at}))
}

// keys returns how many passkeys the device has.
func (d device) keys() int {
	d.tab.t.Helper()
	return len(get(d.tab, call(webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: d.id})).Credentials)
}

// addPasskey adds a passkey, after the confirmation if that is asked for.
func (p *tab) addPasskey(name string) {
	p.t.Helper()
	p.open("/account/passkeys/add")
	if get(p, chromedp.Evaluate[string]("location.pathname")) == "/account/confirm" {
		p.submit(map[string]string{"password": password})
	}
	get(p, chromedp.Evaluate[string](`document.querySelector('[name="name"]').value = ""`))
	p.submit(map[string]string{"name": name})
	p.wantStatus(http.StatusOK)
}

func TestPasskeys_FromTheFirstToTheLast(t *testing.T) {
	t.Parallel()
	s := startWithPasskeys(t)
	p := s.visitor(t, "anna", desktop)
	key := p.addDevice(webauthn.AuthenticatorTransportInternal)
	p.open("/account/passkeys")
	p.see("You have no passkeys yet.")
	p.wantAccessible()
	p.addPasskey("Laptop")
	p.see("The passkey has been added.")
	p.see("Laptop")
	p.wantAccessible()
	p.signOut()

	// The device would confirm the autofill at once.
	key.confirm(false)
	p.open("/account/sign-in?next=/demo")
	p.wantAccessible()
	key.confirm(true)
	p.press("Sign in with a passkey")
	p.see("You are signed in.")
	p.open("/account/sessions")
	p.see("with a passkey")

	p.open("/account/passkeys")
	p.press("Rename: Laptop")
	p.submit(map[string]string{"name": " of mine"})
	p.see("Laptop of mine")
}
