package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	importedPhrase = "correct horse"
	importedMD5    = "3cb4e732631f47e6eb961f34554b7cde"
	importedBcrypt = "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
)

// command runs a command and returns what it printed.
func command(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func mustCommand(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := command(t, args...)
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, stderr)
	}
	return stdout, stderr
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// accountRows returns a CSV file of n accounts.
func accountRows(n int, hash string) string {
	var b strings.Builder
	b.WriteString("login,email,name,password_hash\n")
	for i := range n {
		fmt.Fprintf(&b, "user%d,user%d@example.com,User %d,%s\n", i, i, i, hash)
	}
	return b.String()
}

func TestCommands_ImportExportAuditStatus(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		file := write(t, "users.csv", "login,email,password_hash,city\nada,ada@example.com,"+importedBcrypt+",kazan\nbob,,hunter2hunter2,\n")
		fields := write(t, "user-fields.json", `[{"name":"city","type":"text"}]`)
		if _, _, err := command(t, "import", file); err == nil || !strings.Contains(err.Error(), `"city"`) {
			t.Errorf("an unknown column: got %v, want an error with its name", err)
		}
		const reason = "line 3: password_hash: bad password hash: unknown format\n"
		out, errs := mustCommand(t, "import", file, "--fields", fields, "--dry-run")
		if !strings.HasPrefix(out, "1 accounts would be imported, 0 were there already, 1 rows refused\n") ||
			!strings.Contains(out, "1  refused: password_hash: bad password hash: unknown format (line 3)\n") || errs != reason {
			t.Errorf("a dry run: got %s%s", out, errs)
		}
		report := filepath.Join(t.TempDir(), "refused.txt")
		out, errs = mustCommand(t, "import", file, "--fields", fields, "--report", report)
		if out != "1 accounts imported, 0 were there already, 1 rows refused\n" || errs != "" {
			t.Errorf("the import: got %s%s", out, errs)
		}
		wantFile(t, report, reason)
		target := filepath.Join(t.TempDir(), "users.ndjson")
		if _, errs = mustCommand(t, "export", "-o", target); !strings.Contains(errs, "password hash") {
			t.Errorf("the export: got no warning in %s", errs)
		}
		exported := wantFile(t, target, "")
		if !strings.Contains(exported, importedBcrypt) || !strings.Contains(exported, `"fields":{"city":"kazan"}`) {
			t.Errorf("the export: got %s, want the hash and the fields", exported)
		}
		if _, _, err := command(t, "export", "-o", target); err == nil {
			t.Error("an export to an existing file: got no error")
		}
		if out, _ = mustCommand(t, "export", "--user", "ADA"); !strings.Contains(out, `"city": "kazan"`) || strings.Contains(out, "$2y$") {
			t.Errorf("the export of one user: got %s", out)
		}
		if out, _ = mustCommand(t, "audit", "--since", "24h"); out != "" {
			t.Errorf("the audit log of an import: got %s, want no entry", out)
		}
		if out, _ = mustCommand(t, "status"); !strings.Contains(out, "accounts  1\n") || strings.Contains(out, "@") {
			t.Errorf("status: got %s", out)
		}
	})
}

// wantFile returns the text of a file, and checks it and the mode 0600.
func wantFile(t *testing.T, path, want string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil || want != "" && string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	return string(text)
}

func TestCommands_RefuseInvalidArguments(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testdb.SQLite(t))
	users := write(t, "users.csv", "login,password_hash\n")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such file":        {[]string{"import", "missing.csv"}, "missing.csv"},
		"no extension":        {[]string{"import", write(t, "users.txt", "")}, "--format"},
		"an invalid schema":   {[]string{"import", users, "--fields", write(t, "f.json", `[{"name":"x"}]`)}, "--fields: user field x: it has no type"},
		"a form that is none": {[]string{"import", users, "--hash-form", "md5"}, "--hash-form: bad password hash: the form is not like md5(p.s)"},
		"a reserved name":     {[]string{"import", users, "--fields", write(t, "f.json", `[{"name":"password_hash","type":"text"}]`)}, "--fields"},
		"invalid settings":    {[]string{"import", users, "--settings", write(t, "s.toml", "[password]\ntime = 99")}, "password.time"},
		"a shown password":    {[]string{"import", users, "--database", "postgres://u:hunter2hunter2@localhost/x"}, "PERSONAL_DATABASE"},
		"no database":         {[]string{"status", "--database", "sqlite:///nowhere/personal.db"}, "--database: stat /nowhere"},
		"no such user":        {[]string{"export", "--user", "nobody"}, "--user"},
		"a folder":            {[]string{"import", t.TempDir(), "--format", "csv"}, "directory"},
		"a device":            {[]string{"import", os.DevNull, "--format", "csv"}, "not a regular file"},
	} {
		if name == "no such user" {
			mustCommand(t, "migrate")
		}
		_, _, err := command(t, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want it to contain %q and no password", name, err, test.want)
		}
	}
}

func TestImport_FilesOfFlagsThatAreFoldersOrUTF16(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", "sqlite://"+filepath.Join(t.TempDir(), "personal.db"))
	users := write(t, "users.csv", accountRows(1, importedMD5))
	for path, want := range map[string]string{t.TempDir(): "it is a folder", write(t, "text", "\xfe\xff\x00[\x00]"): "it is in UTF-16"} {
		for _, flag := range []string{"--fields", "--settings", "--secret-key"} {
			_, _, err := command(t, "import", users, flag, path)
			if err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want the flag and %q", flag, err, want)
			}
		}
	}
	users = write(t, "users.csv", accountRows(1, importedBcrypt))
	if _, errs := mustCommand(t, "import", users, "--fields", write(t, "fields", "\ufeff[]"), "--dry-run"); errs != "" {
		t.Errorf("a byte order mark: got %s", errs)
	}
}

func TestImport_UserShowNamesTheImportedHash(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testdb.SQLite(t))
	file := write(t, "users.csv", "login,email,password_hash,password_salt\nada,ada@example.com,1718b1e30bf3987e092e9bf62a31b1a7,Zr8aQ\n")
	mustCommand(t, "import", file, "--hash-form", "md5(p.s)")
	if shown, _ := mustCommand(t, "user", "show", "ada"); !strings.Contains(shown, "imported (md5(p.s))") {
		t.Errorf("got\n%s\nwant the name of the hash", shown)
	}
}

func TestImport_DryRunCreatesNoDatabase(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", "sqlite://"+filepath.Join(t.TempDir(), "personal.db"))
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	out, _ := mustCommand(t, "import", write(t, "users.csv", accountRows(2, importedMD5)+"user1,,,!\n"), "--dry-run")
	if want := "2 accounts would be imported, 0 were there already, 1 rows refused\n"; !strings.HasPrefix(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
	if _, err := os.Stat(strings.TrimPrefix(os.Getenv("PERSONAL_DATABASE"), "sqlite://")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the database file: got %v, want fs.ErrNotExist", err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("got temporary files %v, %v, want none", left, err)
	}
}

// writerFunc is standard error with a slow reader.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestImport_SlowReaderDoesNotBlockWrites(t *testing.T) {
	url := testdb.SQLite(t)
	t.Setenv("PERSONAL_DATABASE", url)
	mustCommand(t, "migrate")
	db, err := databaseFlag{Database: url}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reported := 0
	slow := writerFunc(func(p []byte) (int, error) {
		reported += bytes.Count(p, []byte("line "))
		return len(p), db.ReplaceHash(t.Context(), 0, "", "") // takes the write lock
	})
	if err := run(t.Context(), []string{"import", write(t, "users.csv", accountRows(10, "plain"))}, io.Discard, slow); err != nil {
		t.Error(err)
	}
	if reported != 10 {
		t.Errorf("got %d reported rows, want 10", reported)
	}
}

func TestImport_RerunAfterKillImportsRest(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		const n = 10_000
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "migrate")
		db, err := databaseFlag{Database: url}.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		file := write(t, "users.csv", accountRows(n, importedBcrypt))
		for kills := int64(0); kills < 2; kills++ {
			importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", file)
			if err := importing.Start(); err != nil {
				t.Fatal(err)
			}
			awaitAccounts(t, db, 1000+kills*3000)
			if err := importing.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = importing.Wait()
		}
		stored, _, err := db.CountAccounts(t.Context())
		if err != nil || stored >= n || stored%1000 != 0 {
			t.Fatalf("got %d accounts after the kills, %v, want whole batches", stored, err)
		}
		out, errs := mustCommand(t, "import", file)
		if want := fmt.Sprintf("%d accounts imported, %d were there already, 0 rows refused\n", n-stored, stored); out != want || errs != "" {
			t.Errorf("got %s%s, want %s", out, errs, want)
		}
		if all, _, err := db.CountAccounts(t.Context()); err != nil || all != n {
			t.Errorf("got %d accounts, %v, want %d", all, err, n)
		}
	})
}

func awaitAccounts(t *testing.T, db *store.Store, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		all, _, err := db.CountAccounts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if all >= n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A sign-in works before and after a hash is wrapped, and replaces it.
func TestPlugin_WrapsBareHashes(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		out, _ := mustCommand(t, "import", write(t, "users.csv", accountRows(200, importedMD5)), "--wrap", "later")
		if !strings.Contains(out, "200 accounts imported") || !strings.Contains(out, "personal status") {
			t.Fatalf("got %s", out)
		}
		if out, _ = mustCommand(t, "status"); !strings.Contains(out, "to wrap   200 ") {
			t.Fatalf("got %s", out)
		}
		host := &personaltest.Host{}
		service := rpc.NewClient(startPlugin(t, url, host), host)
		signIn(t, service, "user199")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for out := ""; !strings.Contains(out, "to wrap   0 "); out, _ = mustCommand(t, "status") {
			if ctx.Err() != nil {
				t.Fatalf("got %s after a minute, want no hash left to wrap", out)
			}
			time.Sleep(20 * time.Millisecond)
		}
		signIn(t, service, "user0")
		signIn(t, service, "user199")
		out, _ = mustCommand(t, "export")
		if own, wrapped := strings.Count(out, `"$argon2id$v=19$`), strings.Count(out, `"$argon2id-of$v=19$`); own != 2 || wrapped != 198 {
			t.Errorf("got %d current and %d wrapped hashes, want 2 and 198", own, wrapped)
		}
	})
}

func signIn(t *testing.T, service personal.Service, login string) {
	t.Helper()
	_, err := service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: importedPhrase})
	if err != nil {
		t.Errorf("%s: got %v, want a sign-in", login, err)
	}
	_, err = service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: "wrong"})
	if personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Errorf("%s with a wrong password: got %v, want invalid credentials", login, err)
	}
}

func TestProgressLine_ShowsRateAndTimeLeft(t *testing.T) {
	p := newProgressLine(&bytes.Buffer{}, 1000)
	got := p.text(transfer.Progress{Offset: 400, Imported: 20, Existing: 5, Refused: 5}, 10*time.Second)
	if want := " 40 %  30 rows  3 rows/s  15s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStatus_CountsAccounts(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "migrate")
		db, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range []accounts.Account{
			{Login: "ada"}, {Login: "own@example.com", Email: accounts.Email{Address: "own@example.com", Key: "own@example.com"}},
			{Login: "waits", Unverified: accounts.Email{Address: "w@example.com", Key: "w@example.com"}},
			{Login: "leaves", Disabled: true, EraseAt: db.Now().Add(time.Hour)},
			{Login: "enabled", EraseAt: db.Now().Add(time.Hour)},
		} {
			a.LoginKey, a.PasswordHash = cmp.Or(a.LoginKey, a.Login), "!"
			session := accounts.Session{}
			session.Selector[0] = byte(i)
			if _, err := db.CreateAccount(t.Context(), a, session, func(int64) []accounts.NewJob { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		out, _ := mustCommand(t, "status")
		if want := "e-mails   1 not verified\nwaiting   1 accounts, until their e-mail is verified\nleaving   1 accounts, deleted by their users and not erased yet\n"; !strings.Contains(out, want) {
			t.Errorf("status: got\n%s, want\n%s", out, want)
		}
	})
}

func TestImport_FlagNamesSystems(t *testing.T) {
	out, _ := mustCommand(t, "import", "--help")
	from, _ := reflect.TypeFor[moveFlags]().FieldByName("From")
	systems := strings.Split(from.Tag.Get("enum"), ",")[1:]
	if want := strings.Join(systems, ", "); !strings.Contains(strings.ReplaceAll(strings.Join(strings.Fields(out), " "), " or ",
		", "), want) {
		t.Errorf("got %s\nwant the systems %s", out, want)
	}
	for _, system := range systems {
		_, _, err := command(t, "import", "--from", system, write(t, "dump", "x"))
		if err == nil || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%s: got %v, want an error of the dump's first line", system, err)
		}
	}
}

func TestImport_HostileDumpCreatesNothing(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	path := filepath.Join(t.TempDir(), "personal.db")
	t.Setenv("PERSONAL_DATABASE", "sqlite://"+path)
	rows := "INSERT INTO wp_users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n(1,'ada','!','ada@example.com',NULL,'x')"
	_, _, err := command(t, "import", "--from", "wordpress", write(t, "dump.sql", rows+",\n(2,'bob','!','bob@example.com',NULL,'x);\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "line 3: a quote is opened here and not closed") {
		t.Errorf("got %v, want an error with the line", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the database: got %v, want none", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("got temporary files %v, %v, want none", left, err)
	}
	out, errs := mustCommand(t, "import", "--from", "wordpress", write(t, "dump.sql", rows+";\n"), "--json")
	var report transfer.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Imported != 1 || report.System != "wordpress" ||
		len(report.Cannot) != 1 || !report.EndUnmarked || !strings.Contains(errs, "end of the dump is not marked") || !strings.Contains(errs, "number of users (1)") {
		t.Errorf("got %s%s, want a report of one account without a password, and of an end that nothing marks", out, errs)
	}
	out, _ = mustCommand(t, "import", "--from", "wordpress", write(t, "dump.sql", rows+";\n"), "--dry-run")
	if !strings.Contains(out, "\nthe end of the dump\n  was not marked: compare the number of users (1)") {
		t.Errorf("got %s, want a report of an end that nothing marks", out)
	}
}

// The list of changed logins has everyone who must be told, also after a second run.
func TestImport_ListsChangedLogins(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testkit.SQLite(t))
	dump := write(t, "dump.sql", "/*!40101 SET NAMES utf8mb4 */;INSERT INTO wp_users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES\n"+
		"(1,'ada','!','ada@example.com',NULL,'x'),(2,'Grace, H','!','g@example.com',NULL,'x'),(3,'=1+1 x','!','b@example.com',NULL,'x');\n")
	list := filepath.Join(t.TempDir(), "changed.csv")
	for range 2 {
		mustCommand(t, "import", "--from", "wordpress", dump, "--logins=propose", "--changed-logins", list)
		got, err := os.ReadFile(list)
		if want := "email,login,former_login\ng@example.com,\"Grace,_H\",\"Grace, H\"\nb@example.com,'=1+1_x,'=1+1 x\n"; err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	if info, err := os.Stat(list); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v; want a file that no one else reads", info, err)
	}
}

func TestImport_FlagsOfDumps(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testkit.SQLite(t))
	users, dump := write(t, "users.csv", accountRows(1, "!")), write(t, "dump.sql", "")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a CSV with a prefix":      {[]string{users, "--prefix=wp_"}, "give the system with --from"},
		"a CSV with a map":         {[]string{users, "--map=a=b"}, "give the system with --from"},
		"a dump with a format":     {[]string{dump, "--from=wordpress", "--format=csv"}, "--format, --secret-key and --mend-html"},
		"half a map":               {[]string{dump, "--from=wordpress", "--map=city"}, `"city" is not THEIRS=OURS`},
		"an unknown user field":    {[]string{dump, "--from=wordpress", "--map=city=town"}, `--map: "town" is not a user field`},
		"a field that none has":    {[]string{write(t, "d.sql", "INSERT INTO users (ID,user_login,user_pass,user_email,user_registered,display_name) VALUES (1,'a','','',NULL,'x');"), "--from=wordpress", "--map=city=name"}, `no user in the dump has a field "city"; fields are ID,`},
		"a probe of a missing row": {[]string{users, "--probe=nobody"}, "--probe: no row has this login or e-mail"},
		"a probe without terminal": {[]string{users, "--probe=user0"}, "not a terminal"},
	} {
		if _, _, err := command(t, append([]string{"import"}, test.args...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

// TestCommands_DatabaseThatCannotWorkSaysWhatToChange has a file of another program, and a database that may only be read.
func TestCommands_DatabaseThatCannotWorkSaysWhatToChange(t *testing.T) {
	readOnly := testkit.Postgres(t)
	db, err := dbconn.Open(readOnly, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Write.ExecContext(t.Context(), "ALTER DATABASE "+readOnly[strings.LastIndex(readOnly, "/")+1:strings.Index(readOnly, "?")]+
		" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	users := write(t, "users.csv", accountRows(1, importedBcrypt))
	for url, want := range map[string]string{
		"sqlite://" + write(t, "letter.txt", strings.Repeat("Dear Anna, ", 1000)): "the file is not a SQLite database",
		readOnly: "RESET default_transaction_read_only",
	} {
		t.Setenv("PERSONAL_DATABASE", url)
		for _, args := range [][]string{{"migrate"}, {"import", users}} {
			if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", args[0], err, want)
			}
		}
	}
}
