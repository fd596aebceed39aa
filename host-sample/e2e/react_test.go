//go:build extended

package e2e

import (
	"bytes"
	"cmp"
	"mime"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestReactExample_SignsInAndChangesTheName compiles and bundles the example as its page says, and uses it.
func TestReactExample_SignsInAndChangesTheName(t *testing.T) {
	const folder = "../../docs/examples/react"
	for _, args := range [][]string{{"ci"}, {"run", "check"}, {"run", "build"}} {
		npm := exec.Command("npm", append(args, "--silent")...)
		npm.Dir = folder
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("npm %q: %v\n%s", args, err, out)
		}
	}
	var s *site
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{file...}", func(w http.ResponseWriter, r *http.Request) {
		file := cmp.Or(r.PathValue("file"), "index.html")
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(filepath.Ext(file)))
		_, _ = w.Write(bytes.ReplaceAll(text, []byte("http://localhost:8080"), []byte(s.url)))
	})
	app := atLocalhost(t, mux)
	s = start(t, "--cors-origin", app)
	s.register(t, "anna")

	p := newTab(t, app, desktop)
	p.expect(s.url) // the API is another site, and refuses the first password
	p.visit("/")
	p.fill("Login or e-mail", "anna")
	p.fill("Password", "wrong")
	p.do(chromedp.Click(p.named("Sign in")))
	if got := p.await("the refusal", `document.querySelector("[role=alert]").textContent`); !strings.Contains(got, "password") {
		t.Errorf("after a wrong password: got %q", got)
	}
	p.set("Password", password)
	p.do(chromedp.Click(p.named("Sign in")))
	p.await("the profile", `document.querySelector("h1")?.textContent`)
	p.set("Your name", "Anna")
	p.do(chromedp.Click(p.named("Save")))
	p.await("the new name", `document.querySelector("h1").textContent === "Hello, Anna!" ? "yes" : ""`)
	p.visit("/")
	p.await("the name after a reload", `document.querySelector("h1")?.textContent === "Hello, Anna!" ? "yes" : ""`)
	p.do(chromedp.Click(p.named("Sign out")))
	p.await("the form", `document.querySelector("input[name=password]") ? "yes" : ""`)
}
