package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pquerna/otp/totp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// newKeyFile returns a file with a new secret key, and its keys.
func newKeyFile(t *testing.T) (path string, keys [][]byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret.key")
	if err := secretkeys.CreateFile(path); err != nil {
		t.Fatal(err)
	}
	keys, err := secretkeys.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, keys
}

// newTwoFactorNode returns a node that offers second factors.
func newTwoFactorNode(t *testing.T, url string, keys [][]byte) *node {
	t.Helper()
	n := newNode(t, rpc.Configuration{
		DatabaseURL: url, SecretKeys: keys,
		Settings: []byte("[two_factor]\nenabled = true\n[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false"),
	})
	n.begin(t)
	return n
}

// enrol signs ada in and switches a second factor on.
func (n *node) enrol(t *testing.T) (secret string, recoveryCodes []string) {
	t.Helper()
	in, err := n.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: importedPhrase})
	if err != nil {
		t.Fatal(err)
	}
	factor, err := n.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: in.Credentials, Password: importedPhrase})
	if err != nil {
		t.Fatal(err)
	}
	confirmed, err := n.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{
		Credentials: in.Credentials, Code: codeAt(t, factor.Secret, n.store.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	return factor.Secret, confirmed.RecoveryCodes
}

func codeAt(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, at)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// wantSignIn signs ada in with a code and checks the error's code; "" for a sign-in.
func (n *node) wantSignIn(t *testing.T, code string, want personal.Code) {
	t.Helper()
	_, err := n.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: importedPhrase, Code: code})
	if personal.CodeOf(err) != want {
		t.Errorf("signing in with the code %q: got %v, want %q", code, err, want)
	}
}

const verifiedAda = "login,email,email_verified,password_hash\nada,ada@example.com,yes," + importedBcrypt + "\n"

func TestCommands_CarrySecondFactorToAnotherDatabase(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		from := "sqlite://" + filepath.Join(t.TempDir(), "from.db")
		keyFile, keys := newKeyFile(t)
		old := newTwoFactorNode(t, from, keys)
		mustCommand(t, "import", "--database", from, write(t, "ada.csv", verifiedAda))
		secret, recoveryCodes := old.enrol(t)
		file := filepath.Join(t.TempDir(), "users.ndjson")
		if _, errs := mustCommand(t, "export", "--database", from, "-o", file); !strings.Contains(errs, "1 of them have a second factor") {
			t.Errorf("got %s, want the number of second factors", errs)
		}

		t.Setenv("PERSONAL_DATABASE", url)
		otherFile, otherKeys := newKeyFile(t)
		site := newTwoFactorNode(t, url, otherKeys)
		for _, args := range [][]string{{"import", file}, {"import", file, "--secret-key", otherFile},
			{"import", file, "--secret-key", otherFile, "--dry-run"}} {
			if _, errs := mustCommand(t, args...); !strings.HasPrefix(errs, "line 1: two_factor: the key ") || strings.Contains(errs, ";") {
				t.Errorf("%q: got %s, want a refusal that names the key", args, errs)
			}
		}
		bothFiles := write(t, "both.key", wantFile(t, otherFile, "")+wantFile(t, keyFile, ""))
		if out, errs := mustCommand(t, "import", file, "--secret-key", bothFiles, "--dry-run"); !strings.HasPrefix(out,
			"1 accounts would be imported") {
			t.Errorf("a dry run: got %s%s", out, errs)
		}
		if out, errs := mustCommand(t, "import", file, "--secret-key", bothFiles); !strings.HasPrefix(out, "1 accounts imported") {
			t.Fatalf("got %s%s", out, errs)
		}
		site.wantSignIn(t, "", personal.CodeCodeRequired)
		site.wantSignIn(t, recoveryCodes[0], "")
		site.wantSignIn(t, codeAt(t, secret, site.store.Now().Add(30*time.Second)), "") // the code of the enrolment is used
	})
}

func TestUserRemoveTwoFactor_RemovesItWithANotice(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		_, keys := newKeyFile(t)
		site := newTwoFactorNode(t, url, keys)
		mustCommand(t, "import", write(t, "ada.csv", verifiedAda))
		found, err := site.store.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		silent := write(t, "silent.toml", "[mail]\nnotices = false\n")
		for _, test := range []struct {
			flags   []string
			notices int
		}{{nil, 1}, {[]string{"--settings", silent}, 0}} {
			site.enrol(t)
			if out, _ := mustCommand(t, "user", "explain", "ada"); !strings.Contains(out, "has 10 recovery codes left") ||
				strings.Contains(out, "missing") {
				t.Errorf("got the explanation %s, want only that a code is needed: the command has no keys", out)
			}
			before := len(site.notices(t, found.ID, "two_factor_off"))
			out, _ := mustCommand(t, append([]string{"user", "remove-two-factor", "ada"}, test.flags...)...)
			want := fmt.Sprintf("The second factor of account %d (\"ada\") and its recovery codes are removed, and all its sessions have ended.\n",
				found.ID)
			if out != want {
				t.Errorf("%q: got %s, want %s", test.flags, out, want)
			}
			if got := len(site.notices(t, found.ID, "two_factor_off")) - before; got != test.notices {
				t.Errorf("%q: got %d more notices, want %d", test.flags, got, test.notices)
			}
			site.wantSignIn(t, "", "")
		}
		out, _ := mustCommand(t, "user", "remove-two-factor", "ada")
		if want := fmt.Sprintf("Account %d (\"ada\") has no second factor. Nothing was changed.\n", found.ID); out != want {
			t.Errorf("without a second factor: got %s, want %s", out, want)
		}
	})
}

// notices returns the notices of a kind that wait to be sent.
func (n *node) notices(t *testing.T, id int64, kind string) (waiting []string) {
	t.Helper()
	jobs, err := n.store.WaitingJobs(t.Context(), id, accounts.KindEvent, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.Kind == accounts.KindNotice && strings.Contains(string(j.Payload), kind) {
			waiting = append(waiting, string(j.Payload))
		}
	}
	return waiting
}

func TestUser_CommandsChangeOneAccount(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "migrate")
		for _, step := range []struct{ args, want string }{
			{"create anna --email anna@example.com --name Anna --locale ru --invite", `Account 1 ("anna") is created. They get a mail to choose a password.`},
			{"create bob", `Account 2 ("bob") is created. They have neither a password nor an e-mail`},
			{"disable anna", `Account 1 ("anna") is disabled`},
			{"disable ANNA@example.com", "is disabled already. Nothing was changed."},
			{"list --state disabled", "1   anna   anna@example.com  disabled"},
			{"enable 1", `Account 1 ("anna") is enabled`},
			{"enable 1", "is enabled already"},
			{"recover anna", `Account 1 ("anna") gets a recovery mail, unless`},
			{"sign-out anna", "has no sessions. Nothing was changed."},
			{"lift-limits anna --address 192.0.2.1,2001:db8::1", `The limits guess and guess_account are not lifted`},
			{"show anna", "anna@example.com"},
			{"list --search nna", "anna@example.com"},
			{"list --limit 1", "2   bob"},
			{"delete bob --yes", `Account 2 ("bob") is deleted.`},
		} {
			if out, _ := mustCommand(t, append([]string{"user"}, strings.Fields(step.args)...)...); !strings.Contains(out, step.want) {
				t.Errorf("%s: got %s, want %s", step.args, out, step.want)
			}
		}
		db, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		requests, err := db.WaitingRequests(t.Context(), accounts.KindRecovery, 10)
		if err != nil || len(requests) != 1 || !strings.Contains(string(requests[0].Payload), `"locale":"ru"`) {
			t.Errorf("got the requests %+v, %v, want one for a recovery mail in Russian", requests, err)
		}
		got := map[personal.EventType]int{}
		entries, err := db.AuditEntries(t.Context(), personal.AuditEntriesRequest{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got[e.Type]++
			if e.Actor != personal.ActorAdministrator || e.ActorName != operatorName() {
				t.Errorf("got %+v, want an event of the administrator %q", e, operatorName())
			}
		}
		want := map[personal.EventType]int{
			personal.EventUserCreated: 2, personal.EventUserInvited: 1, personal.EventUserDisabled: 1, personal.EventUserEnabled: 1,
			personal.EventLimitsLifted: 1, personal.EventUserDeleted: 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("audit log (-want +got):\n%s", diff)
		}
	})
}

func TestUser_DigitsThatNameTwoUsersAreRefused(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testdb.SQLite(t))
	dump := "id,login,password_hash\n500,anna," + importedBcrypt + "\n7,500," + importedBcrypt + "\n600,600," + importedBcrypt + "\n"
	mustCommand(t, "import", write(t, "users.csv", dump))
	const both = `"500" is the login of account 7, and the id of account 500 ("anna"): repeat the command with --login or --id; nothing was done`
	for _, verb := range []string{"user show", "user recover", "user disable", "user enable", "user sign-out", "user delete --yes",
		"user lift-limits", "user remove-two-factor", "user remove-other-ways-in", "user reset --email a@example.com", "user unlink-identity --issuer a --subject b", "export --user"} {
		args := append(strings.Fields(verb), "500")
		if out, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), both) || out != "" {
			t.Errorf("%q: got %q, error %v, want %s", args, out, err, both)
		}
	}
	for _, test := range []struct{ args, want string }{
		{"user disable 500 --id", `Account 500 ("anna") is disabled`},
		{"user disable --login 500", `Account 7 ("500") is disabled`},
		{"user show --id 500", "anna"},
		{"user show 600", "600"}, // both are one account
		{"user show 7", "500"},
		{"user show anna --login", "500"},
		{"export --user 500 --id", `"login": "anna"`},
		{"export --user 500 --login", `"login": "500"`},
		{"user explain --id 500", "personal user enable 500 --id"},
		{"user explain --login 500", `Account 7 ("500"), disabled`},
	} {
		if out, _ := mustCommand(t, strings.Fields(test.args)...); !strings.Contains(out, test.want) {
			t.Errorf("%s: got %s, want %s", test.args, out, test.want)
		}
	}
	out, _ := mustCommand(t, "user", "explain", "500")
	for _, want := range []string{`Account 7 ("500"), disabled`, "personal user enable 500 --login", `Account 500 ("anna"), disabled`,
		"personal user enable 500 --id"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain: got %s, want %s", out, want)
		}
	}
	for _, args := range []string{"user show 7 --login", "user explain 7 --login", "user show anna --id", "user explain 8 --id",
		"user show 500 --id --login", "export --id"} {
		if out, _, err := command(t, strings.Fields(args)...); err == nil {
			t.Errorf("%s: got %s, want an error", args, out)
		}
	}
}

// siteFields is a user-fields.json with a role.
const siteFields = `[
	{"name": "role", "type": "enum", "read_only": true, "options": [{"value": "editor"}, {"value": "author"}]},
	{"name": "level", "type": "integer", "hidden": true, "min": 1},
	{"name": "interests", "type": "tags"}
]`

func TestUserSet_ChangesFieldsWithAnEvent(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "migrate")
		mustCommand(t, "user", "create", "anna", "--name", "Anna")
		mustCommand(t, "user", "create", "bob")
		fields := write(t, "user-fields.json", siteFields)
		for _, step := range []struct {
			args []string
			want string
		}{
			{[]string{"user", "set", "anna", "role=editor", "--fields", fields}, "Account 1 (\"anna\") is changed: role.\n"},
			{[]string{"user", "set", "anna", "interests=a=b", "interests=c, d", "level=3", "name=", "--fields", fields}, "Account 1 (\"anna\") is changed: interests, level, name.\n"},
			{[]string{"user", "set", "bob", "name=Bob Berg"}, "Account 2 (\"bob\") is changed: name.\n"},
		} {
			if out, _ := mustCommand(t, step.args...); out != step.want {
				t.Errorf("%q: got %s, want %s", step.args, out, step.want)
			}
		}
		for _, test := range []struct{ args, want string }{
			{"anna role=chief", "nothing was changed: role: it is none of the options"},
			{"anna level=0", "level: it is too small or too large"},
			{"anna level=many", "level: it is no value of the type of the field"},
			{"anna email=a@example.com", "email: it is no user field"},
			{"anna rank=1", "rank: it is no user field of the file that --fields names"},
			{"anna role=editor role=author", "a parameter that is not a list was repeated"},
			{"anna role", `"role": give a field and its value`},
			{"eve role=editor", `there is no account with the login, e-mail or id "eve"`},
		} {
			args := append(append([]string{"user", "set"}, strings.Fields(test.args)...), "--fields", fields)
			if _, _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %s", test.args, err, test.want)
			}
		}
		if _, _, err := command(t, "user", "set", "anna", "role=editor"); err == nil ||
			!strings.Contains(err.Error(), "role: it is no user field of the file that --fields names") {
			t.Errorf("without the file: got %v, want a hint of it", err)
		}
		t.Setenv("PERSONAL_USER_FIELDS", fields)
		mustCommand(t, "user", "set", "bob", "role=author")
		out, _ := mustCommand(t, "user", "list", "--json")
		days := regexp.MustCompile(`"created":"([-0-9]+)T`).FindAllStringSubmatch(out, -1) // one of them, but at midnight
		if len(days) != 2 {
			t.Fatalf("got %s, want two users", out)
		}
		for args, want := range map[string]string{
			"--field role=editor":                  "anna",
			"--field role=author":                  "bob",
			"--field level=3 --state active":       "anna",
			"--since 2020-01-01 --oldest":          "anna bob",
			"--until 2020-01-01":                   "",
			"--until " + days[0][1]:                "bob anna", // the whole day, as on the admin pages
			"--until " + days[1][1] + "T00:00:00Z": "",
			"--since 2020-01-01T00:00:00Z":         "bob anna",
			"--state two_factor --search anna":     "",
		} {
			out, _ := mustCommand(t, append([]string{"user", "list", "--json"}, strings.Fields(args)...)...)
			var logins []string
			for _, found := range regexp.MustCompile(`"login":"(\w+)"`).FindAllStringSubmatch(out, -1) {
				logins = append(logins, found[1])
			}
			if got := strings.Join(logins, " "); got != want {
				t.Errorf("list %s: got %q, want %q", args, got, want)
			}
		}
		for args, want := range map[string]string{
			"--field role":       "--field: give a user field and its value",
			"--field interests=": "--field: no enum, boolean or integer field",
			"--field role=x":     "--field: it is none of the options",
			"--since yesterday":  "give a date",
		} {
			if _, _, err := command(t, append([]string{"user", "list"}, strings.Fields(args)...)...); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("list %s: got %v, want %s", args, err, want)
			}
		}
		db, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		entries, err := db.AuditEntries(t.Context(), personal.AuditEntriesRequest{Type: personal.EventUserUpdated, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var changed []string
		for _, e := range entries {
			if e.Actor != personal.ActorAdministrator || e.ActorName != operatorName() {
				t.Errorf("got %+v, want an event of the administrator %q", e, operatorName())
			}
			changed = append(changed, fmt.Sprint(e.UserID, e.Fields))
		}
		if diff := cmp.Diff([]string{"2 [role]", "2 [name]", "1 [interests level name]", "1 [role]"}, changed); diff != "" {
			t.Errorf("events user_updated (-want +got):\n%s", diff)
		}
	})
}

// TestUser_JSONHasTheDocumentedKeys compares the keys with those of docs/helping-users.md.
func TestMoment_EndOfADate(t *testing.T) {
	for text, want := range map[string]string{
		"2024-02-28": "2024-02-29T00:00:00Z", "2023-12-31": "2024-01-01T00:00:00Z", "2024-02-28T00:00:00+05:00": "2024-02-27T19:00:00Z",
		"2023-02-29": "", "2024-02-28 ": "", "28.02.2024": "",
	} {
		var got moment
		err := got.UnmarshalText([]byte(text))
		if shown := got.end().UTC().Format(time.RFC3339); (err == nil) != (want != "") || err == nil && shown != want {
			t.Errorf("%q: got %s, error %v; want %q", text, shown, err, want)
		}
	}
}

func TestUser_JSONHasTheDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile("../docs/helping-users.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## As JSON\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, cell := range regexp.MustCompile("(?m)^\\| `[^|]+ \\|").FindAllString(section, -1) {
		for _, found := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(cell, -1) {
			documented[found[1]] = true
		}
	}
	var keys func(prefix string, of reflect.Type)
	written := map[string]bool{}
	keys = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			inner := f.Type
			if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous:
				keys(prefix, inner)
				continue
			case name == "" || name == "-" || prefix+name == "passkeys.id": // not printed
				continue
			case prefix+name == "user": // as in the list
			case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]():
				keys(prefix+name+".", inner)
			}
			written[prefix+name] = true
		}
	}
	keys("", reflect.TypeFor[userRecord]())
	keys("", reflect.TypeFor[explained]())
	if diff := cmp.Diff(written, documented); diff != "" {
		t.Errorf("keys (-written +documented):\n%s", diff)
	}
}

func TestUser_JSONIsThatOfOneUser(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testdb.SQLite(t))
	mustCommand(t, "migrate")
	mustCommand(t, "user", "create", "anna", "--email", "anna@example.com")
	fields := write(t, "user-fields.json", siteFields)
	mustCommand(t, "user", "set", "anna", "role=editor", "level=3", "--fields", fields)
	object := func(args ...string) (got map[string]any) {
		t.Helper()
		out, _, _ := command(t, append([]string{"user"}, args...)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%q: %v in %s", args, err, out)
		}
		return got
	}
	shown, listed := object("show", "anna", "--json"), object("list", "--json", "--fields", fields)
	if shown["login"] != "anna" || shown["password"] != false || shown["sessions"] != 0.0 || shown["last_seen"] != nil {
		t.Errorf("show: got %v, want anna without a password, sessions and a last use", shown)
	}
	want := map[string]any{"role": "editor", "level": 3.0}
	if diff := cmp.Diff(want, shown["fields"]); diff != "" {
		t.Errorf("fields of show (-want +got):\n%s", diff)
	}
	want["interests"] = nil
	if diff := cmp.Diff(want, listed["fields"]); diff != "" {
		t.Errorf("fields of list (-want +got):\n%s", diff)
	}
	explanation := object("explain", "anna", "--json")
	verdicts, _ := explanation["verdicts"].([]any)
	if len(verdicts) == 0 {
		t.Fatalf("explain: got %v, want a verdict", explanation)
	}
	first, _ := verdicts[0].(map[string]any)
	if first["reason"] != "no_password" || first["help"] != "personal user recover anna" ||
		first["text"] != "The account has no usable password, so none is accepted." {
		t.Errorf("explain: got %v, want that there is no password, and what helps", first)
	}
	if unknown := object("explain", "eve", "--json"); unknown["user"] != nil || unknown["verdicts"] == nil {
		t.Errorf("explain an unknown login: got %v, want verdicts and no user", unknown)
	}
}

// TestExplain_HasWordsForEveryReasonAndAction reads the constants of the contract.
func TestExplain_HasWordsForEveryReasonAndAction(t *testing.T) {
	source, err := os.ReadFile("../shared/personal/administration.go")
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^\t\w+ +(Reason|Action) += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		kind, value := found[1], found[2]
		counted[kind]++
		if words := texts.Sentences(nil, personal.Verdict{Reason: personal.Reason(value)}); kind == "Reason" && (words == "." || strings.Contains(words, "does not know")) {
			t.Errorf("there is no sentence for the reason %s: got %s", value, words)
		}
		if words := helps(personal.Action(value), "anna", nil); kind == "Action" && words == value {
			t.Errorf("there is no help for the action %s", value)
		}
	}
	if counted["Reason"] < 18 || counted["Action"] < 8 {
		t.Errorf("found %v in the contract, want at least 18 reasons and 8 actions", counted)
	}
}

func TestPrintable_QuotesWhatATerminalWouldObey(t *testing.T) {
	for text, want := range map[string]string{
		"": "-", "Анна O'Neil": "Анна O'Neil", "a\x1b[31m": `"a\x1b[31m"`, "a\u009b2J": `"a\u009b2J"`, "a\nb": `"a\nb"`, "a\u202eb": `"a\u202eb"`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestUser_CommandsRefuseWhatCannotBe(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testdb.SQLite(t))
	mustCommand(t, "migrate")
	mustCommand(t, "user", "create", "anna")
	mustCommand(t, "user", "create", "bob", "--email", "bob@example.com")
	mustCommand(t, "user", "disable", "bob")
	for _, test := range []struct{ args, want string }{
		{"create anna --email bob@example.com", "login: another account has it"},
		{"create carl --email bob@example.com", "--email: another account has it"},
		{"create carl --invite", "--email: it is missing"},
		{"recover anna", "has no e-mail"},
		{"recover bob", "is disabled and gets no recovery mail: enable it first"},
		{"delete anna", "nothing was deleted"}, // standard input is empty
		{"show eve", `there is no account with the login, e-mail or id "eve"`},
		{"explain eve", "there is no such account"},
		{"list --state asleep", "--state"},
		{"list --search \x1b", "--search: it is malformed"},
		{"list --limit=-1", "--limit"},
		{"explain \x1b", "login: it is malformed"},
	} {
		if _, _, err := command(t, append([]string{"user"}, strings.Fields(test.args)...)...); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.args, err, test.want)
		}
	}
	for _, user := range []string{"anna", "bob"} {
		mustCommand(t, "user", "show", user)
	}
}

// Visitors choose their logins, and administrators paste the commands that explain prints.
func TestShellWord_HoldsNoCommand(t *testing.T) {
	for text, want := range map[string]string{
		"anna": "anna", "anna+1@example.com": "anna+1@example.com", "$(id)": "'$(id)'", "`id`": "'`id`'", "a b": "'a b'", "it's": `'it'\''s'`, "-x": "'-x'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestCommands_RefuseDatabaseOfOlderSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PERSONAL_DATABASE", "sqlite://"+path)
	for _, args := range [][]string{{"export"}, {"user", "remove-two-factor", "ada"}} {
		_, _, err := command(t, args...)
		if want := fmt.Sprintf("the database has schema version 0, this command needs %d: run `personal migrate`", store.SchemaTarget); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}
