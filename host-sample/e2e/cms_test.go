package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// policy is what a site with its own strict policy sends; a meta element is how the
// layout of this one does.
const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'">`

// settingsSource makes hashing cheap, switches two factors on, and rehearsals off, which take longer than a test
// of a page.
const settingsSource = `package main

import "github.com/cms-personal/personal/shared/plugins/manager"

var options = manager.Options{Rehearse: manager.RehearseOff}

func settings() ([]byte, error) {
	return []byte("[two_factor]\nenabled = true\n[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false\n"), nil
}
`

// startCMS builds the program of the README in an empty folder, with the layout, under a
// strict policy, and the page of docs/embedding.md, and starts it. Its texts are replaced as
// further says, in pairs of old and new.
func startCMS(t *testing.T, further ...string) *site {
	t.Helper()
	block := func(page, kind, begin string) string { return blockOf(t, page, kind, begin) }
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": strings.NewReplacer(append(further, "127.0.0.1:8080", address, `Plugin: "bin/personal",`, `Plugin: "bin/personal", Settings: settings, Manager: options,`,
			"\t\"fmt\"\n", "\t\"fmt\"\n\t\"html/template\"\n",
			"personalpages.Config{}", `personalpages.Config{Layout: template.Must(template.ParseFiles("layout.html"))}`,
			"\tpages.Handle(\"GET /hello\"", "\tpages.Handle(\"/orders\", account.RequireUser(http.HandlerFunc(orders)))\n\tpages.Handle(\"GET /hello\"",
		)...).Replace(block("README.md", "go", "package main")),
		"settings.go": strings.NewReplacer(further...).Replace(settingsSource),
		"orders.go":   block("docs/embedding.md", "go", "// orders.go"),
		"layout.html": strings.Replace(block("docs/embedding.md", "html", ""), "<head>", "<head>\n"+policy, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("bash", "-e", "-c", `go mod init example.com/cms
		go mod edit -replace github.com/cms-personal/personal="$0"
		go mod tidy
		cp "$1" bin/personal
		go build -o cms .`, root, program(t, "personal"))
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	s := &site{url: "http://" + address, data: filepath.Join(dir, "data"), log: &buffer{}}
	cmd := exec.Command("./cms")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopping the program: %v", err)
		}
		if t.Failed() {
			t.Logf("the program's log:\n%s", s.log)
		}
	})
	eventually(t, "the program listens", func() bool {
		response, err := http.Get(s.url + "/account/sign-in")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

// blockOf returns a block of code of a page of the documentation.
func blockOf(t *testing.T, page, kind, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n```" + kind + "\n(" + begin + ".*?)```\n").FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no block of type %s that begins with %s", page, kind, begin)
	}
	return string(found[1])
}

// TestCMS_HasAccountPagesInItsLayout drives the program of the README as a visitor.
func TestCMS_HasAccountPagesInItsLayout(t *testing.T) {
	t.Parallel()
	s := startCMS(t)
	p := newTab(t, s.url, desktop)

	p.visit("/hello")
	p.see("My CMS")
	p.wantAccessibleOnPhone()
	p.press("Register")
	p.submit(map[string]string{"login": "anna", "email": "anna@example.com", "password": password, "confirm_password": password})
	p.see("Hello, anna!") // the page that asked for the sign-in
	p.open("/account")
	p.see("Your account has been created.")
	p.wantAccessibleOnPhone()
	p.openMailed(s.mailedLink(t, "anna@example.com", "/account/email"))
	p.press("Confirm the address")
	p.see("Your e-mail address has been confirmed.")
	p.open("/orders")
	p.see("Orders of anna")
	p.wantAccessibleOnPhone()
	p.fill("Item", "a kite")
	p.press("Order")
	p.see("Orders of anna")
	s.wantOrders(t, 1)

	var app authenticator
	p.setUp(&app)
	p.see("Your recovery codes")
	recovery := p.recoveryCodes() // those of the app are new every 30 seconds only
	p.wantAccessibleOnPhone()
	p.open("/account")
	p.press("Sign out")
	p.visit("/hello")
	p.submit(map[string]string{"login": "anna", "password": password})
	p.submit(map[string]string{"code": app.code(t)})
	p.see("Hello, anna!")

	p.openProven("/account/password", recovery[0])
	p.submit(map[string]string{"password": "another horse", "confirm_password": "another horse"})
	p.see("Your password has been changed.")
	p.press("Sign out")
	p.open("/account/sign-in")
	p.press("Set a new one")
	p.submit(map[string]string{"login": "anna"})
	p.openMailed(s.mailedLink(t, "anna@example.com", "/account/recover"))
	p.submit(map[string]string{"password": password, "confirm_password": password})
	p.see("Your password has been changed.")
	p.submit(map[string]string{"login": "anna", "password": password})
	p.submit(map[string]string{"code": recovery[1]})

	p.openProven("/account/delete", recovery[2])
	p.submit(nil)
	p.visit("/hello")
	p.control("Password") // signed out
	p.openMailed(s.mailedLink(t, "anna@example.com", "/account/undo-delete"))
	p.press("Keep the account")
	p.see("You can sign in again.")

	p.emulate(display{width: 320, height: 640, dark: true})
	p.open("/account/register")
	p.wantAccessibleOnPhone()
	p.await("the page to fit", `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
}

// wantOrders counts the orders in the program's log.
func (s *site) wantOrders(t *testing.T, want int) {
	t.Helper()
	if got := strings.Count(s.log.String(), `orders "`); got != want {
		t.Errorf("got %d orders, want %d:\n%s", got, want, s.log)
	}
}

// TestCMS_RefusesOtherSites posts to pages of the CMS from elsewhere, in the browser of a
// user, and without one.
func TestCMS_RefusesOtherSites(t *testing.T) {
	t.Parallel()
	s := startCMS(t)
	p, other := newTab(t, s.url, desktop), otherSite(t)
	p.visit("/orders")
	p.control("Password") // its visitors sign in
	p.open("/account/register")
	p.submit(map[string]string{"login": "anna", "email": "anna@example.com", "password": password, "confirm_password": password})
	p.expect(other.URL)
	for _, path := range []string{"/orders", "/account", "/account/sign-out"} {
		p.do(chromedp.Navigate(other.URL + "?to=" + s.url + path))
		p.press("Win a prize")
		p.wantStatus(http.StatusForbidden)
		p.see("The request came from a page of another site")
		p.see("My CMS")
	}
	p.open("/orders")
	p.see("Orders of anna")
	s.wantOrders(t, 0)
	for _, path := range []string{"/account/sign-in", "/account/register", "/account/sign-out", "/account/delete", "/account/language",
		"/orders"} {
		r, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader("login=anna"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d, want 403", path, response.StatusCode)
		}
	}
}

// startCMSWithAdmin is startCMS with the lines of docs/admin-pages.md, and with limits.
func startCMSWithAdmin(t *testing.T) *site {
	t.Helper()
	lines := blockOf(t, "docs/admin-pages.md", "go", "\tadmin, err")
	if n := strings.Count(lines, "\n"); n > 10 {
		t.Errorf("got %d lines that mount the admin pages, want 10 at most", n)
	}
	layout := `layout := template.Must(template.ParseFiles("layout.html"))`
	return startCMS(t,
		"\taccount, err :=", "\t"+layout+"\n\taccount, err :=",
		"\t\"github.com/cms-personal/personal/shared/personalhost\"\n",
		"\t\"github.com/cms-personal/personal/shared/personaladmin\"\n\t\"github.com/cms-personal/personal/shared/personalhost\"\n",
		"\tif err := module.Serve", lines+"\tif err := module.Serve",
		`[throttle]\nenabled = false`, `[throttle]\nenabled = true`,
	)
}

// TestCMS_HasAdminPagesInItsLayout drives the program of the README with the lines of
// docs/admin-pages.md as its administrator, and as an editor, who is none.
func TestCMS_HasAdminPagesInItsLayout(t *testing.T) {
	t.Parallel()
	s := startCMSWithAdmin(t)
	p, boris := newTab(t, s.url, desktop), newTab(t, s.url, desktop)
	p.visit("/admin/")
	p.control("Password") // its visitors sign in
	for _, visitor := range []struct {
		tab   *tab
		login string
	}{{p, "anna"}, {boris, "boris"}} {
		visitor.tab.open("/account/register")
		visitor.tab.submit(map[string]string{"login": visitor.login, "email": visitor.login + "@example.com", "password": password,
			"confirm_password": password})
	}
	p.open("/admin/")
	p.see("My CMS")
	p.see("Registrations")
	p.wantAccessibleOnPhone()
	p.album = "admin"
	p.pictures("cms-overview")

	// An editor is made, who is no administrator.
	p.press("User fields")
	p.press("Edit as JSON")
	p.set("Schema", `[{"name": "role", "type": "enum", "read_only": true, "label": {"en": "Role"}, "options": [{"value": "editor", "label": {"en": "Editor"}}]}]`)
	p.press("Save")
	p.see("The user fields have been saved.")
	p.press("Users")
	p.press("boris")
	p.set("Role", "editor")
	p.press("Save")
	p.see("The profile has been saved.")
	boris.open("/account")
	boris.see("Editor")
	p.open("/admin/users?is=role%3Deditor&show=role")
	p.see("boris")
	p.wantNoText("anna@example.com")
	p.pictures("cms-users")
	for _, path := range []string{"/admin/", "/admin/users", "/admin/plugin", "/admin/events"} {
		boris.visit(path)
		boris.wantStatus(http.StatusForbidden)
		boris.see("This page is for administrators.")
		boris.see("My CMS")
	}

	// A user is locked out, and let in again.
	out := newTab(t, s.url, desktop)
	s.lockOut(t, "boris")
	out.open("/account/sign-in")
	out.submit(map[string]string{"login": "boris", "password": password})
	out.wantStatus(http.StatusTooManyRequests)
	p.open("/admin/support")
	p.fill("Login, e-mail or id", "boris")
	p.press("Check")
	p.see("Too many wrong passwords for boris from 127.0.0.1.")
	p.wantAccessibleOnPhone()
	p.press("Lift the limits")
	p.see("The limits of the account have been lifted.")
	out.open("/account/sign-in")
	out.submit(map[string]string{"login": "boris", "password": password})
	out.wantStatus(http.StatusOK)

	// A version is swapped, and rolled back.
	s.command(t, "plugin", "install", bundle(t, "9.0.0", ""))
	p.open("/admin/plugin")
	before := p.text("#plugin-now dd strong")
	p.press("Use 9.0.0")
	p.await("the switch", `document.querySelector("#plugin-now dd strong")?.textContent === "9.0.0" ? "yes" : ""`)
	p.see("Roll back to " + before)
	p.wantAccessibleOnPhone()
	p.press("Roll back to " + before)
	p.see("Rolled back from 9.0.0 to " + before)
	p.press("Events")
	p.see("Plugin: rolled back")
	p.see("by anna")
	p.emulate(display{width: 320, height: 640, dark: true})
	p.await("the page to fit", `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
}
