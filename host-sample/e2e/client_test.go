package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// startApp serves a page with the npm package on another origin than the API, and starts a host that lists it. Sessions
// are refreshed with each call. The settings are those of sessions.
func startApp(t *testing.T, session string) (s *site, app string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /index.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../shared/personalclient/typescript/index.js")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><title>app</title><script type="module">
			import { createClient } from "/index.js";
			window.signedOut = [];
			window.losses = []; // of the next refreshes: before or after the API has them
			window.open = (storage) => createClient({ base: "`+s.url+`/api/v1/personal", storage, refreshEvery: 0,
				onSignedOut: (why) => signedOut.push(why), fetch: async (url, init) => {
					const lost = url.endsWith("/auth_refresh/") && losses.shift();
					if (lost === "before") throw new TypeError("failed");
					const response = await fetch(url, init);
					if (lost === "after") throw new TypeError("failed");
					return response;
				} });
			window.client = open(() => localStorage);
			window.ticks = 0;
			setInterval(() => ticks++, 20);
		</script>`)
	})
	app = atLocalhost(t, mux)
	settings := testSettings + "[registration]\nemail_verification = \"off\"\n[session]\n" + session + "\n" + passkeysAt(app)
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

// signedInTabs returns two tabs of one profile, in which anna is signed in.
func signedInTabs(t *testing.T, s *site, app string) (a, b *tab) {
	t.Helper()
	a = newTab(t, app, desktop)
	b = a.beside()
	for _, p := range []*tab{a, b} {
		p.openApp(s)
	}
	a.run(registerAnna)
	return a, b
}

func (p *tab) openApp(s *site) {
	p.t.Helper()
	p.expect(s.url) // the API is another site
	p.visit("/")
	p.await("the client", clientIsThere)
}

const (
	clientIsThere = `window.client ? "yes" : ""`
	registerAnna  = `await client.post("/register/", { login: "anna", email: "anna@example.com", password: "` + password + `", confirm_password: "` + password + `" });
		return "";`
)

func wantNoTheft(t *testing.T, s *site) {
	t.Helper()
	if strings.Contains(s.log.String(), "type=session_theft") {
		t.Error("a tab was taken for a thief")
	}
}

func TestTypeScriptClient_TabThatSleepsStaysSignedIn(t *testing.T) {
	t.Parallel()
	s, app := startApp(t, `grace = "1s"`) // after which a hash is old
	a, b := signedInTabs(t, s, app)
	a.freeze(true)
	before := get(a, chromedp.Evaluate[int]("ticks"))
	b.run(pastGrace)
	b.wantSignedIn("while the other tab is frozen")
	if after := get(a, chromedp.Evaluate[int]("ticks")); after-before > 10 {
		t.Errorf("a frozen tab has run %d timers", after-before)
	}
	a.freeze(false)
	a.wantSignedIn("after it was frozen")

	a.do(chromedp.Navigate("about:blank"))
	b.run(pastGrace)
	get(a, chromedp.Evaluate[string](`history.back(); ""`))
	a.await("the page from before", clientIsThere)
	a.wantSignedIn("after the way back")
	wantNoTheft(t, s)
}

func TestTypeScriptClient_TabsShareASession(t *testing.T) {
	t.Parallel()
	s, app := startApp(t, "")
	s.command(t, "plugin", "install", bundle(t, "9.0.0", ""))
	a, b := signedInTabs(t, s, app)
	const calls = `for (let round = 0; round < 10; round++) {
		const all = Array.from({ length: 10 }, () => client.get("/profile/"));
		for (const { user_profile } of await Promise.all(all)) if (user_profile.login !== "anna") return "another user";
	}
	return typeof navigator.locks;`
	const lost = `for (const how of ["before", "after"]) {
		for (const n of [1, 3]) { // the client sends it three times
			losses.push(...Array(n).fill(how));
			await client.refresh().catch(() => {});
			losses.length = 0;
			await client.get("/profile/");
		}
	}
	return "";`
	for _, locks := range []string{"object", "undefined"} {
		if locks == "undefined" { // as in older browsers, and without HTTPS
			for _, p := range []*tab{a, b} {
				p.run(`Object.defineProperty(navigator, "locks", { value: undefined }); return "";`)
			}
		}
		a.run("window.calls = (async () => {" + calls + `})(); return "";`)
		if got, other := b.run(calls), a.run(`return await calls`); got != locks || other != locks {
			t.Errorf("ten calls at a time in both tabs: got %q and %q, want %q", got, other, locks)
		}
		a.run(lost)
		for _, p := range []*tab{a, b} {
			p.wantSignedIn("after 200 calls and lost refreshes, locks " + locks)
		}
	}

	a.run(fmt.Sprintf(`await client.post("/password/", { password: %[1]q, confirm_password: %[1]q }); return "";`, password+" new")) // by the proof
	b.wantSignedIn("after the other tab has changed the password")
	if got := b.run(`return String(client.proved)`); got != "false" {
		t.Errorf("proved in the other tab: got %s, want false", got)
	}

	if got := a.run(fmt.Sprintf(`
		const alone = open(() => { throw new Error("blocked"); });
		await alone.signIn({ login: "anna", password: %q });
		await alone.refresh();
		const { user_profile } = await alone.get("/profile/");
		return [user_profile.login, localStorage.length].join();`, password+" new")); got != "anna,1" {
		t.Errorf("with a storage that is blocked: got %q", got)
	}

	const forever = `window.going = true;
		window.answers = 0;
		window.failed = new Set();
		window.loop = (async () => {
			while (going) await client.get("/profile/").then(() => answers++, (error) => failed.add(error.code));
		})();
		return "";`
	wantAnswers := func(when string) {
		for _, p := range []*tab{a, b} {
			p.run(`window.answers = 0; return "";`)
			p.await("answers "+when, `answers > 10 ? "yes" : ""`)
		}
	}
	a.run(forever)
	b.run(forever)
	admin := s.administrator(t, desktop)
	admin.open("/admin/plugin")
	admin.press("Use 9.0.0")
	admin.see("Switched from")
	wantAnswers("after a swap")
	admin.do(chromedp.Navigate("about:blank")) // its polls would fail
	const failed = `return String(failed.has("network"))`
	s.restart(t, func() bool { return a.run(failed)+b.run(failed) == "truetrue" })
	wantAnswers("after a restart")
	for _, p := range []*tab{a, b} {
		if got := p.run(`going = false; await loop; failed.delete("unavailable"); return [...failed, ...signedOut].join()`); got != "network" {
			t.Errorf("during a swap and a restart: got %q, want calls that got no response", got)
		}
	}

	if got := b.run(`await client.signOut(); return signedOut.join()`); got != "signed_out" {
		t.Errorf("sign-out: got %q", got)
	}
	a.await("the sign-out in the other tab", `signedOut.join() === "elsewhere" && client.userId === null && localStorage.length === 0 ? "yes" : ""`)
	wantNoTheft(t, s)
}

func TestTypeScriptClient_Passkeys(t *testing.T) {
	t.Parallel()
	s, app := startApp(t, "")
	p := newTab(t, app, desktop)
	p.openApp(s)
	p.addDevice(webauthn.AuthenticatorTransportInternal)
	p.run(registerAnna)
	got := p.run(`
		const seen = [];
		seen.push((await client.addPasskey("Laptop")).passkey.name);
		seen.push(await client.addPasskey("Again").catch((error) => error.name));
		await client.signOut();
		seen.push((await client.signInWithPasskey()).user_profile.login);
		await client.prove();
		seen.push(client.proved);
		return seen.join();`)
	if want := "Laptop,InvalidStateError,anna,true"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
