package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// startApp serves a page with the npm package on another origin than the API, and starts a host that lists it. Sessions
// are refreshed with each call, and an old hash is accepted for a second only.
func startApp(t *testing.T) (s *site, app string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /index.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../shared/personalclient/typescript/index.js")
	})
	html := func(text func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,">`+text())
		}
	}
	mux.HandleFunc("GET /elsewhere", html(func() string { return "<title>elsewhere</title>" }))
	mux.HandleFunc("GET /{$}", html(func() string {
		return `<title>app</title><script type="module">
			import { createClient } from "/index.js";
			window.signedOut = [];
			window.client = createClient({ base: "` + s.url + `/api/v1/personal", storage: () => localStorage, refreshEvery: 0,
				onSignedOut: (why) => signedOut.push(why) });
			window.ticks = 0;
			setInterval(() => ticks++, 20);
		</script>`
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	app = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	settings := testSettings + "[registration]\nemail_verification = \"off\"\n[session]\ngrace = \"1s\"\n" +
		fmt.Sprintf("[passkeys]\nrp_id = \"localhost\"\norigins = [%q]\n", app)
	return startWith(t, settings, "--cors-origin", app), app
}

// run runs the body of an asynchronous function in a tab, and returns the text that it returns.
func (p *tab) run(body string) string {
	p.t.Helper()
	return get(p, chromedp.Evaluate[string]("(async () => {"+body+"})()", chromedp.EvalAwaitPromise))
}

// wantSignedIn calls the API in a tab, whose user must not have been signed out.
func (p *tab) wantSignedIn(when string) {
	p.t.Helper()
	if got := p.run(`return [(await client.get("/profile/")).user_profile.login, ...signedOut].join()`); got != "anna" {
		p.t.Errorf("%s: got %q, want that anna is signed in", when, got)
	}
}

// freeze is what a browser does to a tab in the background, or on a machine that sleeps.
func (p *tab) freeze(frozen bool) {
	p.t.Helper()
	state := page.SetWebLifecycleStateStateActive
	if frozen {
		state = page.SetWebLifecycleStateStateFrozen
	}
	p.do(command(page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state}))
}

// pastGrace refreshes the session until the hashes that other tabs may have are old.
const pastGrace = `for (let i = 0; i < 3; i++) {
	await client.refresh();
	await new Promise((resolve) => setTimeout(resolve, 1500));
}
return "";`

func TestTypeScriptClient_TabsShareASession(t *testing.T) {
	t.Parallel()
	s, app := startApp(t)
	a := newTab(t, app, desktop)
	b := a.beside()
	for _, p := range []*tab{a, b} {
		p.expect(s.url) // the API is another site
		p.visit("/")
		p.await("the client", `window.client ? "yes" : ""`)
	}
	if got := a.run(`return String(typeof navigator.locks.request)`); got != "function" {
		t.Fatalf("the browser has no Web Locks: got %s", got)
	}
	a.run(fmt.Sprintf(`await client.post("/register/", { login: "anna", email: "anna@example.com", password: %[1]q, confirm_password: %[1]q });
		return "";`, password))

	const calls = `for (let round = 0; round < 10; round++) {
		const all = Array.from({ length: 10 }, () => client.get("/profile/"));
		for (const { user_profile } of await Promise.all(all)) if (user_profile.login !== "anna") return "another user";
	}
	return "";`
	a.run("window.calls = (async () => {" + calls + `})(); return "";`)
	if got := b.run(calls) + a.run(`return await calls`); got != "" {
		t.Errorf("ten calls at a time in both tabs: got %q", got)
	}
	for _, p := range []*tab{a, b} {
		p.wantSignedIn("after 200 calls")
	}

	a.run(fmt.Sprintf(`await client.post("/password/", { password: %[1]q, confirm_password: %[1]q }); return "";`, password+" new")) // by the proof
	b.wantSignedIn("after the other tab has changed the password")
	if got := b.run(`return String(client.proved)`); got != "false" {
		t.Errorf("proved in the other tab: got %s, want false", got)
	}

	a.freeze(true)
	before := get(a, chromedp.Evaluate[int]("ticks"))
	b.run(pastGrace)
	b.wantSignedIn("while the other tab is frozen")
	if after := get(a, chromedp.Evaluate[int]("ticks")); after-before > 10 {
		t.Errorf("a frozen tab has run %d timers", after-before)
	}
	a.freeze(false)
	a.wantSignedIn("after it was frozen")

	a.visit("/elsewhere")
	b.run(pastGrace)
	get(a, chromedp.Evaluate[string](`history.back(); ""`))
	a.await("the page from before", `window.client ? "yes" : ""`)
	a.wantSignedIn("after the way back")

	if got := b.run(`await client.signOut(); return signedOut.join()`); got != "signed_out" {
		t.Errorf("sign-out: got %q", got)
	}
	a.await("the sign-out in the other tab", `signedOut.join() === "elsewhere" && client.userId === null && localStorage.length === 0 ? "yes" : ""`)
	if strings.Contains(s.log.String(), "type=session_theft") {
		t.Error("a tab was taken for a thief")
	}
}

func TestTypeScriptClient_Passkeys(t *testing.T) {
	t.Parallel()
	s, app := startApp(t)
	p := newTab(t, app, desktop)
	p.expect(s.url)
	p.visit("/")
	p.await("the client", `window.client ? "yes" : ""`)
	p.addDevice(webauthn.AuthenticatorTransportInternal)
	got := p.run(fmt.Sprintf(`
		const seen = [];
		await client.post("/register/", { login: "anna", email: "anna@example.com", password: %[1]q, confirm_password: %[1]q });
		seen.push((await client.addPasskey("Laptop")).passkey.name);
		seen.push(await client.addPasskey("Again").catch((error) => error.name));
		await client.signOut();
		seen.push((await client.signInWithPasskey()).user_profile.login);
		await client.prove();
		seen.push(client.proved);
		return seen.join();`, password))
	if want := "Laptop,InvalidStateError,anna,true"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
