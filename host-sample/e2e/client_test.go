package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTypeScriptClient_TabsShareASession uses the npm package in two frames of a page on another origin: they share the
// storage, the locks and the messages of the browser, as tabs do.
func TestTypeScriptClient_TabsShareASession(t *testing.T) {
	t.Parallel()
	var api string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /index.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../shared/personalclient/typescript/index.js")
	})
	html := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, text)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		html(w, `<!doctype html><title>app</title><link rel="icon" href="data:,"><iframe src="/frame"></iframe><iframe src="/frame"></iframe>`)
	})
	mux.HandleFunc("GET /frame", func(w http.ResponseWriter, _ *http.Request) {
		html(w, `<!doctype html><title>tab</title><script type="module">
			import { createClient } from "/index.js";
			window.signedOut = [];
			window.client = createClient({ base: "`+api+`", storage: () => localStorage, refreshEvery: 0, onSignedOut: (why) => signedOut.push(why) });
		</script>`)
	})
	app := httptest.NewServer(mux)
	t.Cleanup(app.Close)
	s := start(t, "--cors-origin", app.URL)
	api = s.url + "/api/v1/personal"

	p := newTab(t, app.URL, desktop)
	p.expect(s.url) // the API is another site
	p.visit("/")
	p.await("both clients", `frames[0].client && frames[1].client ? "yes" : ""`)
	const conversation = `(async () => {
		const [a, b] = [frames[0], frames[1]], password = %[1]q;
		if (!navigator.locks) return "no locks";
		await a.client.post("/register/", { login: "anna", email: "anna@example.com", password, confirm_password: password });
		for (let round = 0; round < 10; round++) {
			const all = [a, b].flatMap((tab) => Array.from({ length: 10 }, () => tab.client.get("/profile/")));
			for (const { user_profile } of await Promise.all(all)) if (user_profile.login !== "anna") return "another user";
		}
		await a.client.post("/password/", { password: %[2]q, confirm_password: %[2]q }); // by the proof of the registration
		if (b.client.proved) return "the proof reached the other tab";
		await b.client.get("/sessions/");
		return [a.signedOut, b.signedOut, a.client.userId === b.client.userId].join("|");
	})()`
	if got := get(p, chromedp.Evaluate[string](fmt.Sprintf(conversation, password, password+" new"), chromedp.EvalAwaitPromise)); got != "||true" {
		t.Errorf("got %q, want both tabs signed in", got)
	}
	if got := get(p, chromedp.Evaluate[string](`frames[1].client.signOut().then(() => frames[1].signedOut.join())`, chromedp.EvalAwaitPromise)); got != "signed_out" {
		t.Errorf("sign-out: got %q", got)
	}
	p.await("the sign-out in the other tab", `frames[0].signedOut.join() === "elsewhere" && frames[0].client.userId === null && localStorage.length === 0 ? "yes" : ""`)
}
