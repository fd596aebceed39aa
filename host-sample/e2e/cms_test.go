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
			"personalpages.Config{", `personalpages.Config{Layout: template.Must(template.ParseFiles("layout.html")), `,
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
	if got := strings.Count(s.log.String(), `orders "`); got != 1 {
		t.Errorf("got %d orders, want one:\n%s", got, s.log)
	}

	p.setUp(&authenticator{})
	p.see("Your recovery codes")
	p.wantAccessibleOnPhone()

	p.emulate(display{width: 320, height: 640, dark: true})
	p.open("/account/register")
	p.wantAccessibleOnPhone()
	p.await("the page to fit", `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
}

// startCMSWithAdmin is startCMS with the lines of docs/admin-pages.md.
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
	p.emulate(display{width: 320, height: 640, dark: true})
	p.await("the page to fit", `document.documentElement.scrollWidth > document.documentElement.clientWidth ? "" : "yes"`)
}
