package system

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
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

// postgresTool runs a program of PostgreSQL on a database.
func postgresTool(t *testing.T, database, name string, args ...string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = ""
	cmd := exec.Command(name, append(args, "--dbname="+u.String())...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// backUp makes a backup as docs/deployment.md describes it. restore replaces the
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
	file := filepath.Join(t.TempDir(), "personal.dump")
	postgresTool(t, database, "pg_dump", "--format=custom", "--table=personal_*", "--file="+file)
	return func() {
		postgresTool(t, database, "pg_restore", "--clean", "--if-exists", "--single-transaction", file)
	}
}

// TestRestore_EndsSessionsAndVoidsMails carries out the procedure of docs/deployment.md.
func TestRestore_EndsSessionsAndVoidsMails(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		o := options{database: database, settings: cheap + unthrottled, data: filepath.Join(t.TempDir(), "data")}
		first := start(t, o)
		u, changed := first.newUser(t), first.newUser(t)
		first.post(t, "recover/", params{"login": u.login}).want(t, "")
		recovery := first.mailTo(t, u.email).token(t)
		first.postAs(t, u.pair, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
		change := first.mailTo(t, "new-"+u.email).token(t)
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
		if !strings.HasPrefix(out, "sessions ended          2\nmailed tokens voided    ") || !strings.HasSuffix(out, "\nwaiting mails dropped   2\n") {
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
		third.mailTo(t, last.email)
		if n := len(third.mailsTo(t, "new-"+changed.email)) + len(third.mailsTo(t, changed.email)); n != 0 {
			t.Errorf("got %d mails that waited in the backup, want 0", n)
		}
	})
}
