package system

import (
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

// deploymentCommands returns the command of docs/backup.md, with the database in
// place of "cms", that names a program.
func deploymentCommands(t *testing.T, database, program string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = ""
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], program) {
			return strings.ReplaceAll(block[1], "--dbname=cms", "--dbname='"+u.String()+"'")
		}
	}
	t.Fatalf("docs/backup.md has no command with %s", program)
	return ""
}

// inFolder runs a command of the shell with the umask 022.
func inFolder(t *testing.T, folder, command string) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", "umask 022\n"+command)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// backUp makes a backup as docs/backup.md describes it. restore replaces the
// database by the backup.
func backUp(t *testing.T, database string) (restore func()) {
	t.Helper()
	if path, ok := strings.CutPrefix(database, "sqlite://"); ok {
		file := filepath.Join(t.TempDir(), "personal-backup.db")
		administer(t, database, "backup", file)
		return func() {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.RemoveAll(path + suffix); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("cp", file, path).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v\n%s", err, out)
			}
		}
	}
	folder := t.TempDir()
	inFolder(t, folder, deploymentCommands(t, database, "pg_dump"))
	replace := deploymentCommands(t, database, "pg_restore")
	return func() {
		inFolder(t, folder, replace)
		for _, file := range []string{"personal.dump", "personal.sql"} {
			info, err := os.Stat(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o600 {
				t.Errorf("got the mode %v of %s, want 0600", info.Mode(), file)
			}
		}
	}
}

// TestRestore_TablesOfTheCMSRefer restores a backup although the CMS has tables that refer to those
// of the module, and revokes what the backup would bring back.
func TestRestore_TablesOfTheCMSRefer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	testkit.Databases(t, func(t *testing.T, database string) {
		dialect, _, _ := strings.Cut(database, ":")
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
		restore := backUp(t, database)
		older := administer(t, database, "status")
		do("INSERT INTO personal_accounts (login, login_key, email, password_hash, credential_version, fields, disabled, created, updated) VALUES ('a', 'a', '', '!', 1, '{}', FALSE, 1, 1)")
		if newer := administer(t, database, "status"); newer == older {
			t.Errorf("got the status %s with an account, want another than before", newer)
		}
		do("CREATE TABLE pages (author BIGINT REFERENCES personal_accounts)")
		restore()
		if got := administer(t, database, "status"); got != older {
			t.Errorf("got the status %s, want that of the backup: %s", got, older)
		}
		empty := map[string]string{"sqlite": "x''", "postgres": "''"}[dialect]
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
	testdb.Databases(t, func(t *testing.T, database string) {
		o := options{database: database, settings: cheap + unthrottled + unverified, data: filepath.Join(t.TempDir(), "data")}
		first := start(t, o)
		u, changed := first.newUser(t), first.newUser(t)
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
		restore := backUp(t, database)
		lost := second.newUser(t)
		second.stop(t)

		restore()
		out := administer(t, database, "revoke-all")
		// A mail that fails after its token was stored adds a token at each attempt.
		if !strings.HasPrefix(out, "sessions ended          2\nmailed tokens voided    ") ||
			!strings.HasSuffix(out, "\nwaiting mails dropped   2\n") {
			t.Errorf("revoke-all: got %s, want 2 sessions and 2 mails", out)
		}
		o.flags = nil
		third := start(t, o)
		third.wantDead(t, "session of the backup", u.pair)
		third.wantDead(t, "session of the backup", changed.pair)
		third.post(t, "recover_confirm/", confirm(recovery, recovered)).want(t, "invalid_token")
		third.post(t, "email_confirm/", params{"token": change}).want(t, "invalid_token")
		third.wantAlive(t, "new session", third.signIn(t, u))
		third.post(t, "auth/", params{"login": lost.login, "password": lost.password}).want(t, "invalid_credentials")
		// The mails that waited in the backup would be sent before this one.
		last := third.newUser(t)
		third.post(t, "recover/", params{"login": last.login}).want(t, "")
		third.mailTo(t, mailtext.Recovery, last.email)
		if n := len(third.mailsTo(t, mailtext.EmailChange, "new-"+changed.email)) + len(third.mailsTo(t, mailtext.Recovery,
			changed.email)); n != 0 {
			t.Errorf("got %d mails that waited in the backup, want 0", n)
		}
	})
}
