package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// latencyHeader tells the proxy of [startSlow] how much longer the response to a post takes, in milliseconds.
const latencyHeader = "Latency"

// startSlow starts a host behind a proxy that holds responses to posts back.
func startSlow(t *testing.T, more string) *site {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		ModifyResponse: func(r *http.Response) error {
			if latency, _ := strconv.Atoi(r.Request.Header.Get(latencyHeader)); r.Request.Method == http.MethodPost {
				time.Sleep(time.Duration(latency) * time.Millisecond)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // the browser has hung up
	}
	server := httptest.NewUnstartedServer(proxy)
	url := fmt.Sprint("http://localhost:", server.Listener.Addr().(*net.TCPAddr).Port)
	s := startAtLocalhost(t, more, url)
	behind, err := neturl.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Rewrite = func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host
	}
	server.Start()
	t.Cleanup(server.Close)
	s.url = url
	return s
}

// slow makes the responses to posts of the tab take longer.
func (p *tab) slow(milliseconds int) {
	p.t.Helper()
	p.do(command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
		Headers: network.Headers{"Accept-Language": p.display.language, latencyHeader: strconv.Itoa(milliseconds)},
	}))
}

// clicks clicks a button twice, the second time while the first response is on its way.
func clicks(button string, latency int) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		at, err := chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => {
			const button = document.querySelector(%q);
			button.scrollIntoView({ block: "center", behavior: "instant" });
			const box = button.getBoundingClientRect();
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, button))(ctx, t)
		for i := 0; err == nil && i < 2; i++ {
			if i > 0 {
				time.Sleep(time.Duration(latency) * time.Millisecond / 2)
			}
			_, err = chromedp.MouseClickXY(at[0], at[1])(ctx, t)
		}
		return none, err
	}
}

// mainButton sends the form of a page.
const mainButton = `main form:not([hidden]) button:not([type="button"])`

// lackingBrowser removes the functions that scripts of the pages do without, and hostileBrowser makes them
// throw, as some extensions do.
const (
	lackingBrowser = `
		for (const name of ["parseCreationOptionsFromJSON", "parseRequestOptionsFromJSON", "signalAllAcceptedCredentials",
			"isConditionalMediationAvailable", "getClientCapabilities"]) delete PublicKeyCredential[name];
		for (const name of ["toJSON", "getClientExtensionResults"]) delete PublicKeyCredential.prototype[name];
		delete AuthenticatorAttestationResponse.prototype.getTransports;
		delete Element.prototype.checkVisibility;
		delete HTMLFormElement.prototype.requestSubmit;
		delete AbortSignal.prototype.throwIfAborted;
		delete Intl.RelativeTimeFormat;
		delete window.navigation;`
	hostileBrowser = `{
		const broken = () => { throw new TypeError("Illegal invocation"); };
		for (const name of ["parseCreationOptionsFromJSON", "parseRequestOptionsFromJSON", "signalAllAcceptedCredentials",
			"isConditionalMediationAvailable", "getClientCapabilities"]) PublicKeyCredential[name] = broken;
		for (const name of ["toJSON", "getClientExtensionResults"]) PublicKeyCredential.prototype[name] = broken;
		AuthenticatorAttestationResponse.prototype.getTransports = broken;
		Element.prototype.checkVisibility = broken;
		HTMLFormElement.prototype.requestSubmit = broken;
		AbortSignal.prototype.throwIfAborted = broken;
		Intl.RelativeTimeFormat = broken;
	}`
)

// Every form of the account pages, with a slow site, a browser that is not the newest, and a visitor who
// clicks twice.
func TestForms_DoubleClickShowsTheFirstOutcome(t *testing.T) {
	t.Parallel()
	s := startSlow(t, "[two_factor]\nenabled = true\n")
	latencies := []int{30, 200, 600}
	early := map[string]string{"anna": "anna2", "boris": "boris2", "carol": "carol2"} // who registered before the site had its user field
	for _, login := range early {
		s.register(t, login)
	}
	s.putFields(t, []byte(`[{"name":"street","type":"text","label":{"en":"Street"},"required":true}]`))
	for first, hostile := range []string{lackingBrowser, hostileBrowser, "{}"} { // each form gets each latency
		login := []string{"anna", "boris", "carol"}[first]
		newPassword := map[string]string{"password": password, "confirm_password": password}
		with := func(more map[string]string) map[string]string {
			for name, value := range newPassword {
				more[name] = value
			}
			return more
		}
		t.Run(login, func(t *testing.T) {
			t.Parallel()
			p, mail := newTab(t, s.url, desktop), login+"@example.com"
			key := p.addDevice(webauthn.AuthenticatorTransportInternal)
			key.confirm(false)
			get(p, call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hostile}))
			n := first
			click := func(button string) {
				t.Helper()
				latency := latencies[n%len(latencies)]
				n++
				p.slow(latency)
				p.navigate(clicks(button, latency))
			}
			twice := func(values map[string]string, see string) {
				t.Helper()
				for name, value := range values {
					p.assign(chromedp.CSS(`main [name="`+name+`"]`), value)
				}
				click(mainButton)
				p.see(see)
				p.wantStatus(200)
			}
			signIn := func() {
				p.open("/account/sign-in")
				twice(map[string]string{"login": login, "password": password}, "You are signed in.")
			}
			signOut := func() {
				click(`.site-header form[action="/account/sign-out"] button`)
				p.see("You are signed out.")
			}
			confirm := func() {
				if strings.HasPrefix(get(p, chromedp.Location()), s.url+"/account/confirm?") {
					twice(map[string]string{"password": password}, "")
				}
			}
			prove := func(path string) {
				p.open(path)
				confirm()
			}

			p.open("/account/register")
			twice(with(map[string]string{"login": login, "email": mail, "street": "Brivibas 1"}), "Your account has been created.")
			click(`form[action="/account/verify"] button`)
			p.see("an e-mail with further instructions is on its way")
			p.open("/account/verify")
			twice(map[string]string{"login": login}, "an e-mail with further instructions is on its way")
			p.openMailed(s.mailedLink(t, mail, "/account/email"))
			twice(nil, "Your e-mail address has been confirmed.")
			p.open("/account")
			twice(map[string]string{"name": "Anna"}, "Your profile has been saved.")
			signOut()
			p.open("/account/forgot")
			click(`form.languages button[value="ru"]`)
			p.see("Забыли пароль?")
			click(`form.languages button[value="en"]`)
			p.see("Forgot your password?")
			twice(map[string]string{"login": login}, "Check your mailbox")
			p.openMailed(s.mailedLink(t, mail, "/account/recover"))
			twice(newPassword, "Your password has been changed.")
			signIn()

			prove("/account/password")
			twice(newPassword, "Your password has been changed.")
			prove("/account/new-email")
			twice(map[string]string{"email": "new" + mail}, "Check your mailbox")
			prove("/account/passkeys/add")
			p.assign(`main [name="name"]`, "Laptop")
			key.confirm(true)
			click(mainButton)
			p.see("The passkey has been added.")
			signOut()
			p.open("/account/sign-in")
			click(`[data-passkey] form button`)
			p.see("You are signed in.")
			signOut()
			key.confirm(false) // it would sign in
			signIn()           // a session of the passkey would end with it
			p.open("/account/passkeys")
			p.navigate(chromedp.Click(`a[href*="rename"]`))
			twice(map[string]string{"name": "Old laptop"}, "Old laptop")
			p.navigate(chromedp.Click(`a[href*="remove"]`))
			confirm()
			twice(nil, "The passkey has been removed.")

			var app authenticator
			p.open("/account/two-factor/set-up")
			twice(nil, "Connect your app")
			app.secret = p.secret()
			twice(map[string]string{"code": app.code(t)}, "Two-factor sign-in is on.")
			codes := p.recoveryCodes()
			p.open("/account/two-factor/codes")
			twice(map[string]string{"password": password, "code": codes[0]}, "")
			twice(nil, "These are your new recovery codes.")
			codes = p.recoveryCodes()
			key.confirm(false) // it would sign in
			signOut()
			p.open("/account/sign-in")
			twice(map[string]string{"login": login, "password": password}, "Enter your code")
			twice(map[string]string{"code": codes[0]}, "You are signed in.")
			p.open("/account/two-factor/switch-off")
			twice(map[string]string{"password": password, "code": codes[1]}, "")
			twice(nil, "Two-factor sign-in is off.")

			s.visitor(t, login, desktop)
			p.open("/account/sessions")
			click(`form[action="/account/sessions/end"] button`)
			p.see("The session has been ended.")
			s.visitor(t, login, desktop)
			p.open("/account/sessions")
			click(`form[action="/account/sessions/end-others"] button`)
			p.see("You are signed out everywhere else.")

			folder := p.downloads()
			prove("/account/data")
			p.do(clicks(mainButton, 200))
			eventually(t, "the file is downloaded", func() bool {
				file, err := os.ReadFile(filepath.Join(folder, "account.json"))
				return err == nil && json.Valid(file)
			})
			p.see("Download the file")
			if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
				t.Errorf("got the files %v, error %v, want one", files, err)
			}
			p.open("/account/delete")
			twice(nil, "Your account is disabled and will be erased.")
			p.openMailed(s.mailedLink(t, mail, "/account/undo-delete"))
			twice(nil, "Your account will not be erased.")
			signIn()
			signOut()
			p.open("/account/sign-in")
			twice(map[string]string{"login": early[login], "password": password}, "Complete your profile")
			twice(map[string]string{"street": "Brivibas 2"}, "Your profile has been saved.")
		})
	}
}

// Some browsers send a form twice: the script must keep them from it.
func TestForms_SendOnceUntilShownAgain(t *testing.T) {
	t.Parallel()
	p := newTab(t, start(t).url, desktop)
	p.open("/account/forgot")
	// This listener is the last one: it says which of four clicks the others have let through.
	if got, want := get(p, chromedp.Evaluate[string](`(() => {
		const form = document.querySelector("main form"), button = form.querySelector("button"), sent = [];
		addEventListener("submit", (event) => { sent.push(!event.defaultPrevented); event.preventDefault(); });
		button.click();
		button.click();
		dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
		form.append(Object.assign(document.createElement("input"), { name: "method" }));
		button.click();
		button.click();
		return sent.join();
	})()`)), "true,false,true,false"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
