package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

var passkeySettings = fmt.Sprintf("[passkeys]\nrp_id = %q\norigins = [%q]\n", personaltest.PasskeyDomain, personaltest.PasskeyOrigin)

// newPasskeyNode returns a settled node with the user ada that offers passkeys and second factors. Commands use its database.
func newPasskeyNode(t *testing.T, url string) *node {
	t.Helper()
	t.Setenv("PERSONAL_DATABASE", url)
	_, keys := newKeyFile(t)
	n := newNode(t, rpc.Configuration{
		DatabaseURL: url, SecretKeys: keys,
		Settings: []byte("[two_factor]\nenabled = true\n[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false\n" + passkeySettings),
	})
	n.begin(t)
	mustCommand(t, "import", write(t, "ada.csv", verifiedAda))
	return n
}

// addPasskey signs ada in and adds a passkey of a new device.
func (n *node) addPasskey(t *testing.T, name string) *softkey.Authenticator {
	t.Helper()
	in, err := n.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: importedPhrase})
	if err != nil {
		t.Fatal(err)
	}
	started, err := n.service.AddPasskey(t.Context(), personal.AddPasskeyRequest{Credentials: in.Credentials, Password: importedPhrase})
	if err != nil {
		t.Fatal(err)
	}
	device := &softkey.Authenticator{Origin: personaltest.PasskeyOrigin}
	credential, err := device.Create(started.Options)
	if err != nil {
		t.Fatal(err)
	}
	r := personal.ConfirmPasskeyRequest{Credentials: in.Credentials, Attempt: started.Attempt, Credential: credential, Name: name}
	if _, err := n.service.ConfirmPasskey(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return device
}

// wantPasskey signs in with a passkey and checks the code of the error.
func (n *node) wantPasskey(t *testing.T, device *softkey.Authenticator, want personal.Code) {
	t.Helper()
	started, err := n.service.BeginPasskey(t.Context(), personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn})
	if err != nil {
		t.Fatal(err)
	}
	credential, err := device.Get(started.Options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.service.AuthorizePasskey(t.Context(), personal.AuthorizePasskeyRequest{Attempt: started.Attempt, Credential: credential})
	if personal.CodeOf(err) != want {
		t.Errorf("signing in with a passkey: got %v, want %q", err, want)
	}
}

func TestExport_SaysHowManyHavePasskeys(t *testing.T) {
	newPasskeyNode(t, testdb.SQLite(t)).addPasskey(t, "Phone")
	if _, errs := mustCommand(t, "export", "-o", filepath.Join(t.TempDir(), "users.ndjson")); !strings.Contains(errs,
		"1 of them have passkeys: these work where passkeys.rp_id is the same") {
		t.Errorf("got %s, want the number of accounts with passkeys", errs)
	}
}

func TestUserUnlinkIdentity_UnlinksThatOfItsUser(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "import", write(t, "users.ndjson", `{"login":"ada","email":"ada@example.com","email_verified":true,"password_hash":"!",`+
			`"identities":[{"issuer":"https://op.example","subject":"a b\n","linked":"2026-01-02T03:04:05Z","last_used":"2026-02-03T03:04:05Z"}]}`+"\n"+
			`{"login":"eve","password_hash":"!","identities":[{"issuer":"https://op.example","subject":"eve","linked":"2026-01-02T03:04:05Z"}]}`+"\n"))
		show, _ := mustCommand(t, "user", "show", "ada")
		if want := `"a b\n" at https://op.example, linked 2026-01-02, last used 2026-02-03` + "\n"; !strings.Contains(show, want) {
			t.Errorf("user show: got %s, want %s", show, want)
		}
		unlink := func(login, subject string) string {
			out, _ := mustCommand(t, "user", "unlink-identity", login, "--issuer", "https://op.example", "--subject", subject)
			return out
		}
		if out := unlink("ada", "eve"); !strings.HasSuffix(out, "has no such identity. Nothing was changed.\n") {
			t.Errorf("of another user: got %s, want that there is none", out)
		}
		if out, want := unlink("ada", "a b\n"), "The identity of account 1 (\"ada\") is unlinked"; !strings.HasPrefix(out, want) {
			t.Errorf("got %s, want %s", out, want)
		}
		if show, _ := mustCommand(t, "user", "show", "ada"); strings.Contains(show, "op.example") {
			t.Errorf("user show: got %s, want no identity", show)
		}
		_, _, err := command(t, "user", "unlink-identity", "eve", "--issuer", "https://op.example", "--subject", "eve")
		if err == nil || !strings.Contains(err.Error(), "no one could sign in to it any more") {
			t.Errorf("the last way in: got %v, want a refusal", err)
		}
	})
}

func TestUserRemoveOtherWaysIn_SaysHowManyItRemoves(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		site := newPasskeyNode(t, url)
		phone := site.addPasskey(t, "Phone")
		site.addPasskey(t, "Laptop")
		site.wantPasskey(t, phone, "")
		show, _ := mustCommand(t, "user", "show", "ada")
		today := site.store.Now().Format("2006-01-02")
		for _, want := range []string{
			"Phone, added " + today + ", last used " + today + ", backed up\n", "Laptop, added " + today + ", last used -, backed up\n",
		} {
			if !strings.Contains(show, want) {
				t.Errorf("user show: got %s, want %s", show, want)
			}
		}
		if out, _ := mustCommand(t, "user", "explain", "ada", "--settings", write(t, "settings.toml", passkeySettings)); !strings.Contains(out,
			"So many sign them in without the password: 2.") {
			t.Errorf("user explain: got %s, want the number of passkeys", out)
		}
		out, _ := mustCommand(t, "user", "remove-other-ways-in", "ada")
		const want = "The other ways into account 1 (\"ada\") are removed, and the sessions that they began have ended; passkeys: 2, identities: 0.\n"
		if out != want {
			t.Errorf("got %s, want %s", out, want)
		}
		if log, _ := mustCommand(t, "audit"); !strings.Contains(log, `"type":"passkey_removed"`) || !strings.Contains(log, `"count":2}`) {
			t.Errorf("audit: got %s, want the number of removed passkeys", log)
		}
		if out, _ := mustCommand(t, "user", "remove-other-ways-in", "ada"); !strings.HasSuffix(out, "has no passkeys and no identities. Nothing was changed.\n") {
			t.Errorf("again: got %s, want that there are none", out)
		}
	})
}

func TestUserRemoveTwoFactor_RemovesOtherWaysUnlessToldToKeepThem(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		site := newPasskeyNode(t, url)
		device := site.addPasskey(t, "Phone")
		for _, test := range []struct {
			flags []string
			want  string
			after personal.Code
		}{
			{[]string{"--keep-other-ways-in"}, "ended. Kept: passkeys: 1, identities: 0.\n", ""},
			{nil, "ended. Removed, too: passkeys: 1, identities: 0.\n", personal.CodeInvalidCredentials},
			{nil, "ended.\n", personal.CodeInvalidCredentials},
		} {
			site.enrol(t)
			out, _ := mustCommand(t, append([]string{"user", "remove-two-factor", "ada"}, test.flags...)...)
			if !strings.HasSuffix(out, test.want) {
				t.Errorf("%q: got %s, want %s", test.flags, out, test.want)
			}
			site.wantPasskey(t, device, test.after)
		}
	})
}

// An account with passkeys alone keeps them, and the command says what to do first.
func TestUser_CommandsKeepTheLastWayIn(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		site := newPasskeyNode(t, url)
		device := site.addPasskey(t, "Phone")
		site.enrol(t)
		execute(t, url, "UPDATE personal_accounts SET password_hash = '!', email = '', email_key = NULL, email_verified = FALSE")
		for _, verb := range []string{"remove-other-ways-in", "remove-two-factor"} {
			_, _, err := command(t, "user", verb, "ada")
			if err == nil || !strings.Contains(err.Error(), "use user reset instead; nothing was changed") {
				t.Errorf("%s: got %v, want what to do first", verb, err)
			}
		}
		mustCommand(t, "user", "remove-two-factor", "ada", "--keep-other-ways-in")
		site.wantPasskey(t, device, "")
		if _, _, err := command(t, "user", "reset", "ada", "--email", "ada"); err == nil || !strings.Contains(err.Error(), "--email") {
			t.Errorf("reset with an invalid e-mail: got %v, want the flag", err)
		}
		out, _ := mustCommand(t, "user", "reset", "ada", "--email", "ada@new.example")
		if !strings.HasSuffix(out, "is reset: its user gets a mail to set a new password, and until then nothing signs in.\n") {
			t.Errorf("reset: got %s", out)
		}
		site.wantPasskey(t, device, personal.CodeInvalidCredentials)
		if log, _ := mustCommand(t, "audit"); !strings.Contains(log, `"type":"access_reset"`) {
			t.Errorf("audit: got %s, want the reset", log)
		}
	})
}

func TestPreflight_WarnsOfPasskeysOfAnotherDomain(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		newPasskeyNode(t, url).addPasskey(t, "Phone")
		_, keys := newKeyFile(t)
		for settings, want := range map[string]string{
			passkeySettings: "",
			"":              `passkeys.rp_id = "", but there are passkeys of "site.example": these sign no one in`,
			"[passkeys]\nrp_id = \"other.example\"\norigins = [\"https://other.example\"]\n": `passkeys.rp_id = "other.example", but there are passkeys of "site.example": these sign no one in`,
		} {
			n := newNode(t, rpc.Configuration{DatabaseURL: url, SecretKeys: keys,
				Settings: []byte("[two_factor]\nenabled = true\n" + settings)})
			report, err := n.Preflight(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			warning := ""
			for _, check := range report.Checks {
				if check.Name == "settings" && check.Warning {
					warning = check.Reason
				}
			}
			if warning != want {
				t.Errorf("settings %q: got the warning %q, want %q", settings, warning, want)
			}
		}
	})
}

func execute(t testing.TB, url, statement string) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
