package system

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// The languages that a host names are those of messages, pages and mails; the plugin learns them.
func TestLanguages_OfTheSite(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap, flags: []string{"--locales", "de,uk"}})
	for accepted, want := range map[string]struct{ message, page, subject string }{
		"uk":       {"Неправильний логін", `<html lang="uk">`, "Задайте новий пароль"},
		"de-AT,uk": {"Der Benutzername oder", `<html lang="de">`, "Neues Passwort festlegen"},
		"ru, ja":   {"Der Benutzername oder", `<html lang="de">`, "Neues Passwort festlegen"}, // built in, but not one of the site's
	} {
		u, header := s.newUser(t), http.Header{"Accept-Language": {accepted}}
		if r := s.do(t, call{path: "auth/", params: params{"login": u.login, "password": "wrong"}, header: header}).want(t, "invalid_credentials"); !strings.Contains(r.Result.Message, want.message) {
			t.Errorf("%s: got the message %q, want %q", accepted, r.Result.Message, want.message)
		}
		if _, page := s.web(t, http.MethodGet, "/account/sign-in", "", "Accept-Language", accepted); !strings.Contains(page, want.page) {
			t.Errorf("%s: got a page without %s:\n%s", accepted, want.page, page)
		}
		s.do(t, call{path: "recover/", params: params{"login": u.login}, header: header}).want(t, "")
		eventually(t, "a recovery mail with the subject "+want.subject, func() bool {
			return slices.ContainsFunc(s.mailsTo(t, "", u.email), func(m message) bool { return m.subject == want.subject })
		})
	}
}

// TestMailTemplates_AreCheckedByEveryStartAndSwap sends mails with the texts of the site.
// A swap and a start with an invalid template are refused; the running process keeps the
// texts that it has read. After a crash an invalid template does not keep the site down.
func TestMailTemplates_AreCheckedByEveryStartAndSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	template := func(subject, field string) {
		t.Helper()
		text := "Subject: " + subject + "\n\nIhr Code:\n\n{{." + field + "}}\n"
		if err := os.WriteFile(filepath.Join(dir, "recovery.de.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	template("Passwort", "Token")
	o := options{database: testdb.SQLite(t), settings: cheap + fmt.Sprintf("\n[mail]\ntemplates = %q\n", dir)}
	s := start(t, o)
	wantSubject := func(want, text string) {
		t.Helper()
		u := s.newUser(t)
		s.do(t, call{path: "recover/", params: params{"login": u.login}, header: http.Header{"Accept-Language": {"de-AT"}}}).want(t, "")
		eventually(t, "the recovery mail has the subject "+want, func() bool {
			recoveries := slices.Concat(s.mailsTo(t, "", u.email), s.mailsTo(t, mailtext.Recovery, u.email)) // the site's, built-in
			return slices.ContainsFunc(recoveries, func(m message) bool {
				return m.subject == want && strings.Contains(m.text, text) && strings.Contains(m.html, text)
			})
		})
	}
	const german, english = "Ihr Code:", "this long code"
	wantSubject("Passwort", german)

	template("Neues Passwort", "Tokn")
	version := s.plugin(t).Active.Version
	const reason = "recovery.de.txt:5:2: .Tokn does not exist: this mail has .Token"
	got, body := s.admin(t, http.MethodPost, "plugin/use", fmt.Sprintf(`{"version":%q}`, version), "Content-Type", jsonType)
	if got.StatusCode != http.StatusConflict || !strings.Contains(body, `"step":"preflight"`) ||
		!strings.Contains(body, "mail: mail.templates: "+dir+"/"+reason) {
		t.Errorf("swap with an invalid template: got %d %s, want a refusal that names file and line", got.StatusCode, body)
	}
	wantSubject("Passwort", german)

	process, err := os.FindProcess(s.plugin(t).Active.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process serves, with a warning", func() bool {
		return s.plugin(t).Active.PID != process.Pid && s.status("/readyz") == http.StatusOK &&
			len(s.log.linesWith("level=WARN msg=\"plugin preflight\"")) > 0
	})
	wantSubject("Set a new password", english)

	template("Neues Passwort", "Token")
	s.use(t, version)
	wantSubject("Neues Passwort", german)

	template("Neues Passwort", "Tokn")
	o.database = testdb.SQLite(t)
	wantRefusal(t, o, reason) // with its own data folder: its first start
}
