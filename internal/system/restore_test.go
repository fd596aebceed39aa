package system

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// administer runs a command of the plugin's binary on a database.
func administer(t *testing.T, database string, args ...string) string {
	t.Helper()
	cmd := exec.Command(testkit.Binaries(t).Plugin, args...)
	cmd.Env = []string{"PERSONAL_DATABASE=" + database}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("personal %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// backups carries out docs/backup.md in a folder that has bin/personal and the data folder data.
type backups struct{ folder, data, database string }

// newBackups takes the database of a test; that of SQLite is another one, in the data folder.
func newBackups(t *testing.T, database string) *backups {
	t.Helper()
	b := &backups{folder: t.TempDir(), database: database}
	b.data = filepath.Join(b.folder, "data")
	if err := os.Mkdir(b.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(testkit.Binaries(t).Plugin), filepath.Join(b.folder, "bin")); err != nil {
		t.Fatal(err)
	}
	if b.onSQLite() {
		b.database = "sqlite://" + filepath.Join(b.data, "personal.db")
	}
	return b
}

func (b *backups) onSQLite() bool { return strings.HasPrefix(b.database, "sqlite:") }

// run runs the commands of the page, with the database in place of "cms", whose block has a text. The umask is 022.
func (b *backups) run(t *testing.T, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.database)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = ""
	for _, block := range regexp.MustCompile("(?s)```(?:sh|console)\n *(?:\\$ )?(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], text) {
			continue
		}
		commands, _, _ := strings.Cut(block[1], "\nThe backup is complete")
		cmd := exec.Command("sh", "-euc", "umask 022\n"+strings.ReplaceAll(commands, "--dbname=cms", "--dbname='"+u.String()+"'"))
		cmd.Dir = b.folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
		return
	}
	t.Fatalf("docs/backup.md has no command with %s", text)
}

// backUp backs up the database.
func (b *backups) backUp(t *testing.T) {
	t.Helper()
	if b.onSQLite() {
		b.run(t, "personal backup")
		return
	}
	b.run(t, "pg_dump")
}

// restore replaces the database by the backup.
func (b *backups) restore(t *testing.T) {
	t.Helper()
	if b.onSQLite() {
		b.run(t, "personal-backup.db data/")
		wantMode(t, filepath.Join(b.data, "personal.db"), 0o600)
		return
	}
	b.run(t, "pg_restore")
	for _, file := range []string{"personal.dump", "personal.sql"} {
		wantMode(t, filepath.Join(b.folder, file), 0o600)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("got the mode %v of %s, want %v", got, path, want)
	}
}

// TestRestore_TablesOfTheCMSRefer restores a backup although the CMS has tables that refer to those
// of the module, and revokes what the backup would bring back.
func TestRestore_TablesOfTheCMSRefer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	testkit.Databases(t, func(t *testing.T, database string) {
		b := newBackups(t, database)
		database = b.database
		do := func(statements string) {
			t.Helper()
			pools, err := dbconn.Open(database, dbconn.MigrationLimits)
			if err != nil {
				t.Fatal(err)
			}
			defer pools.Close()
			if _, err := pools.Write.ExecContext(ctx, statements); err != nil {
				t.Fatal(err)
			}
		}
		administer(t, database, "migrate")
		b.backUp(t)
		older := administer(t, database, "status")
		do("INSERT INTO personal_accounts (login, login_key, email, password_hash, credential_version, fields, disabled, created, updated) VALUES ('a', 'a', '', '!', 1, '{}', FALSE, 1, 1)")
		if newer := administer(t, database, "status"); newer == older {
			t.Errorf("got the status %s with an account, want another than before", newer)
		}
		do("CREATE TABLE pages (author BIGINT REFERENCES personal_accounts)")
		b.restore(t)
		if got := administer(t, database, "status"); got != older {
			t.Errorf("got the status %s, want that of the backup: %s", got, older)
		}
		empty := map[bool]string{true: "x''", false: "''"}[b.onSQLite()]
		for _, kind := range []string{"mail_of_a_newer_version", "event", "wrap"} {
			do("INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease) VALUES ('" + kind + "', " + empty + ", 0, 0, 0, 0)")
		}
		if out := administer(t, database, "revoke-all"); !strings.Contains(out, "waiting mails dropped   1\n") {
			t.Errorf("revoke-all: got %s, want the mail dropped, and neither event nor wrap", out)
		}
	})
}

// TestRestore_EndsSessionsAndVoidsMails carries out the procedure of docs/backup.md.
func TestRestore_EndsSessionsAndVoidsMails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		database func(testing.TB) string
		lost     bool // the data folder
	}{
		"SQLite":                     {testdb.SQLite, false},
		"SQLite, no data folder":     {testdb.SQLite, true},
		"PostgreSQL":                 {testdb.Postgres, false},
		"PostgreSQL, no data folder": {testdb.Postgres, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRestore(t, newBackups(t, test.database(t)), test.lost)
		})
	}
}

func testRestore(t *testing.T, b *backups, lost bool) {
	o := options{database: b.database, settings: cheap + unthrottled + unverified + twoFactor, data: b.data}
	first := start(t, o)
	u, changed, secured := first.newUser(t), first.newUser(t), first.newSecured(t)
	first.post(t, "recover/", params{"login": u.login}).want(t, "")
	recovery := first.mailTo(t, mailtext.Recovery, u.email).token(t)
	first.postAs(t, u.pair, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
	change := first.mailTo(t, mailtext.EmailChange, "new-"+u.email).token(t)
	first.stop(t)

	// Without a relay, mails wait.
	o.flags = []string{"--smtp", "smtp://127.0.0.1:1"}
	second := start(t, o)
	second.postAs(t, changed.pair, "email/", params{"password": changed.password, "email": "new-" + changed.email}).want(t, "")
	second.post(t, "recover/", params{"login": changed.login}).want(t, "")
	b.backUp(t)
	b.run(t, "tar -cf")
	unknown := second.newUser(t)
	second.stop(t)

	if lost {
		if err := os.RemoveAll(b.data); err != nil {
			t.Fatal(err)
		}
		b.run(t, "mkdir -p data")
		o.flags = []string{"--plugin="} // the copy has one
	} else {
		o.flags = nil
	}
	b.restore(t)
	wantMode(t, b.data, 0o700)
	wantMode(t, filepath.Join(b.data, "secret.key"), 0o600)
	out := administer(t, b.database, "revoke-all")
	// A mail that fails after its token was stored adds a token at each attempt.
	if !strings.HasPrefix(out, "sessions ended          3\nmailed tokens voided    ") ||
		!strings.HasSuffix(out, "\nwaiting mails dropped   2\n") {
		t.Errorf("revoke-all: got %s, want 3 sessions and 2 mails", out)
	}
	third := start(t, o)
	third.wantDead(t, "session of the backup", u.pair)
	third.wantDead(t, "session of the backup", changed.pair)
	third.post(t, "recover_confirm/", confirm(recovery, recovered)).want(t, "invalid_token")
	third.post(t, "email_confirm/", params{"token": change}).want(t, "invalid_token")
	third.wantAlive(t, "new session", third.signIn(t, u))
	third.attempt(t, secured, third.code(t, secured)).want(t, "") // with the key of the copy
	third.post(t, "auth/", params{"login": unknown.login, "password": unknown.password}).want(t, "invalid_credentials")
	// The mails that waited in the backup would be sent before this one.
	last := third.newUser(t)
	third.post(t, "recover/", params{"login": last.login}).want(t, "")
	third.mailTo(t, mailtext.Recovery, last.email)
	if n := len(third.mailsTo(t, mailtext.EmailChange, "new-"+changed.email)) + len(third.mailsTo(t, mailtext.Recovery,
		changed.email)); n != 0 {
		t.Errorf("got %d mails that waited in the backup, want 0", n)
	}
}
