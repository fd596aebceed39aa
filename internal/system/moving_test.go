//go:build extended

package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// movedPasswords are those of the users of other systems, in the order in which these make them; the list is repeated.
var movedPasswords = []string{"correct horse battery", `it's "so" \ simple`, "Grüße & <3; $1 ", " 'пароль' €9", "\"&amp;\" <b>;", "🦊 foxes' den\\"}

// passwordsJSON returns movedPasswords for the scripts that make users.
func passwordsJSON(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(movedPasswords)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startMariaDB starts a MariaDB that only this test reaches, with an empty database, and returns its
// socket.
func startMariaDB(t *testing.T, database string) (socket string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "personal-mariadb-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	data := filepath.Join(folder, "data")
	tool(t, "mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+data, "--auth-root-authentication-method=normal",
		"--skip-test-db")
	socket = filepath.Join(folder, "s")
	server := exec.Command("mariadbd", "--no-defaults", "--user=root", "--datadir="+data, "--socket="+socket, "--skip-networking",
		"--innodb-flush-log-at-trx-commit=0")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	eventually(t, "MariaDB is up", func() bool {
		return exec.Command("mariadb-admin", "--no-defaults", "--user=root", "--socket="+socket, "ping").Run() == nil
	})
	tool(t, "mariadb", "--no-defaults", "--user=root", "--socket="+socket, "--execute=CREATE DATABASE "+database)
	return socket
}

// tool runs a program and returns its output.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(cmd.Environ(), "MW_CONFIG_FILE="+os.Getenv("MW_CONFIG_FILE"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// playMoving carries out what docs/moving.md says for a test, in a folder that it returns. The
// definition is a function of the shell that makes dumps.
func playMoving(t *testing.T, definition string) (folder string) {
	t.Helper()
	control := &sandbox{dir: t.TempDir(), stopped: true, set: []string{"export PERSONAL_DATABASE=sqlite://data/personal.db", definition}}
	if err := errors.Join(os.Mkdir(filepath.Join(control.dir, "data"), 0o700),
		os.Symlink(filepath.Dir(testkit.Binaries(t).Host), filepath.Join(control.dir, "bin"))); err != nil {
		t.Fatal(err)
	}
	control.write(t, "data/user-fields.json", `[{"name":"city","type":"text"}]`)
	for _, b := range blocksRunBy(t, "docs/moving.md", t.Name()) {
		control.play(t, b)
	}
	return control.dir
}

func mariaDBDump(socket string) string {
	return `mariadb-dump() { command mariadb-dump --no-defaults --user=root --socket=` + socket + ` "$@"; }`
}

// moved is what becomes of the users of a dump.
type moved struct {
	system, dump string
	flags        []string
	signIn       []string // logins of users who sign in with movedPasswords, in order
	disabled     []string
	noPassword   []string
	refused      []string // lines of the report, without their numbers
}

// runPlugin runs a command on a database and returns its output.
func runPlugin(t *testing.T, database string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, args...)
	cmd.Env = append(cmd.Environ(), "PERSONAL_DATABASE="+database)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// imported imports a dump into a new database and returns the database.
func (m moved) imported(t *testing.T) (database string) {
	t.Helper()
	database = testkit.SQLite(t)
	users := len(m.signIn) + len(m.disabled) + len(m.noPassword)
	args := append([]string{"import", "--from", m.system, m.dump, "--wrap=later"}, m.flags...)
	t.Log(runPlugin(t, database, append(args, "--dry-run")...))
	for _, want := range []string{
		fmt.Sprintf("%d accounts imported, 0 were there already, %d rows refused\n", users, len(m.refused)),
		fmt.Sprintf("0 accounts imported, %d were there already, %d rows refused\n", users, len(m.refused)),
	} {
		out := runPlugin(t, database, args...)
		for _, line := range append(m.refused, want) {
			if !strings.Contains(out, line) {
				t.Errorf("got %s\nwant %s", out, line)
			}
		}
	}
	return database
}

// check imports a dump and signs every user in over HTTP, before and after their hashes are
// replaced.
func (m moved) check(t *testing.T) {
	t.Helper()
	s := start(t, options{database: m.imported(t), settings: cheap + unthrottled + unverified})
	for range 2 {
		for i, login := range m.signIn {
			password := movedPasswords[i%len(movedPasswords)]
			s.post(t, "auth/", params{"login": login, "password": password}).want(t, "")
			s.post(t, "auth/", params{"login": login, "password": password + "."}).want(t, "invalid_credentials")
		}
	}
	for _, login := range m.disabled {
		s.post(t, "auth/", params{"login": login, "password": movedPasswords[0]}).want(t, "account_disabled")
	}
	for _, login := range m.noPassword {
		s.post(t, "auth/", params{"login": login, "password": movedPasswords[0]}).want(t, "invalid_credentials")
	}
}

func TestMoving_WordPress(t *testing.T) {
	socket := startMariaDB(t, "blog")
	tool(t, "php", "testdata/moving/wordpress.php", socket, "blog", passwordsJSON(t))
	folder := playMoving(t, mariaDBDump(socket))
	moved{
		system: "wordpress", dump: filepath.Join(folder, "blog.sql"), flags: []string{"--logins=propose"},
		signIn: []string{"admin", "ada", "zoe", "Grace_Hopper", "jo_5", "old-md5"},
	}.check(t)
}

func TestMoving_MediaWiki(t *testing.T) {
	socket := startMariaDB(t, "wiki")
	conf := t.TempDir()
	t.Setenv("MW_CONFIG_FILE", "")
	tool(t, "php", "/usr/share/mediawiki/maintenance/install.php", "--dbtype=mysql", "--dbserver=localhost:"+socket, "--dbname=wiki",
		"--dbuser=root", "--dbpass=",
		"--installdbuser=root", "--installdbpass=", "--confpath="+conf, "--pass="+movedPasswords[0], "--server=http://localhost", "--scriptpath=/w",
		"Wiki", "Admin")
	t.Setenv("MW_CONFIG_FILE", filepath.Join(conf, "LocalSettings.php"))
	tool(t, "php", "testdata/moving/mediawiki.php", passwordsJSON(t))
	folder := playMoving(t, mariaDBDump(socket))
	moved{
		system: "mediawiki", dump: filepath.Join(folder, "wiki.sql"), flags: []string{"--logins=propose"},
		signIn: []string{"Admin", "User_A", "User_B", "User_pbkdf2", "User_bcrypt", "User_argon2"},
	}.check(t)
}

func TestMoving_Django(t *testing.T) {
	server, err := testkit.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	database, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	database.RawQuery = ""
	tool(t, "/usr/bin/python3", "testdata/moving/djangousers.py", database.String(), passwordsJSON(t))
	folder := playMoving(t, `pg_dump() { command pg_dump "${@:1:$#-1}" --dbname=`+database.String()+`; }`)
	django := moved{
		system: "django", dump: filepath.Join(folder, "site.sql"),
		signIn:   []string{"pbkdf2_sha256", "pbkdf2_sha1", "argon2", "bcrypt_sha256", "bcrypt", "sha1", "md5", "unsalted_sha1", "unsalted_md5"},
		disabled: []string{"disabled"}, noPassword: []string{"unusable"},
		refused: []string{"password_hash: bad password hash: DES crypt uses eight characters of a password and can be broken: write ! instead"},
	}
	dump := func(flags ...string) {
		tool(t, "pg_dump", append(flags, "--dbname="+database.String(), "--file="+django.dump)...)
	}
	django.check(t)
	want := runPlugin(t, django.imported(t), "export")
	for _, flags := range [][]string{{"--inserts"}, {"--column-inserts", "--rows-per-insert=5"}, {"--compress=6"},
		{"--clean", "--create", "--no-owner"}} {
		dump(flags...)
		if got := runPlugin(t, django.imported(t), "export"); got != want {
			t.Errorf("%q: got\n%swant\n%s", flags, got, want)
		}
	}
}
