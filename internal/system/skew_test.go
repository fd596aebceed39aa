package system

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/softkey"
)

// TestSkew_ReleasedPluginLacksNewOperations runs the last release's plugin, which .ci/skew
// builds, under this host.
func TestSkew_ReleasedPluginLacksNewOperations(t *testing.T) {
	t.Parallel()
	released := os.Getenv(testkit.ReleasedVariable)
	if released == "" {
		t.Skip(testkit.ReleasedVariable + " names no plugin: .ci/skew runs this test")
	}
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: []string{"--plugin", released}})
	s.putSchema(t, schema) // with texts that the plugin drops
	if body := string(s.getAs(t, pair{}, "fields/").Raw); !strings.Contains(body, `"hint":"Abroad too."`) ||
		!strings.Contains(body, `"pattern_message":"Begin with +."`) {
		t.Errorf("got fields %s, want the hint and the message of the pattern", body)
	}
	if got := s.post(t, "register/", params{"phone": "5"}).Result.Fields["phone"].Message; got != "Begin with +." {
		t.Errorf("a wrong phone: got message %q, want that of the pattern", got)
	}
	u := s.newUser(t)
	for path, p := range map[string]params{
		"email_resend/": {"login": u.login}, "export/": {"password": u.password}, "delete/": {"password": u.password}, "delete_undo/": {"token": "nonsense"},
		"prove/": {"password": u.password},
	} {
		s.postAs(t, u.pair, path, p).want(t, "not_found")
	}
	s.getAs(t, pair{}, "features/").want(t, "not_found")
	s.wantVerified(t, u.pair, false)
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, u.email).token(t), recovered)).want(t, "")
	s.wantVerified(t, s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t), false)
}

// TestSkew_ReleasedPluginHasNeitherMetricsNorProfiles asks the last release's plugin for
// both: it offers neither, which counts as no failure.
func TestSkew_ReleasedPluginHasNeitherMetricsNorProfiles(t *testing.T) {
	t.Parallel()
	released := os.Getenv(testkit.ReleasedVariable)
	if released == "" {
		t.Skip(testkit.ReleasedVariable + " names no plugin: .ci/skew runs this test")
	}
	s := start(t, options{database: testkit.SQLite(t), settings: cheap, flags: []string{"--plugin", released, "--pprof", "127.0.0.1:0"}})
	samples, _ := s.scrape(t)
	for _, one := range samples {
		if process, ok := one.labels["process"]; ok {
			t.Errorf("got %s of process %s, want no metrics of the plugin", one.name, process)
		}
	}
	if measured(samples, "personal_plugin_up") != 1 {
		t.Error("got no plugin that serves")
	}
	if log := s.log.linesWith("plugin metrics are left out"); len(log) != 0 {
		t.Errorf("got warnings %q, want none", log)
	}
	status, body, err := s.profile(t.Context(), "plugin/heap")
	if want := "serves no profiles\n"; err != nil || status != http.StatusNotFound || !strings.HasSuffix(string(body), want) {
		t.Errorf("profile: got %d %q, error %v, want 404 and %q", status, body, err, want)
	}
}

// TestSkew_ReleasedPluginIgnoresPasskeys returns from this version to the last release, whose
// schema is older, and back: meanwhile users sign in with passwords, and what they change there
// makes their passkeys void.
func TestSkew_ReleasedPluginIgnoresPasskeys(t *testing.T) {
	t.Parallel()
	released := os.Getenv(testkit.ReleasedVariable)
	if released == "" {
		t.Skip(testkit.ReleasedVariable + " names no plugin: .ci/skew runs this test")
	}
	testkit.Databases(t, func(t *testing.T, database string) {
		settings := filepath.Join(t.TempDir(), "settings.toml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(cheap + unthrottled)
		s := start(t, options{database: database, flags: []string{"--settings", settings, "--bake", "1s", "--plugin", released}})
		older := s.plugin(t).Active.Version
		newer := s.installAnother(t)
		write(cheap + unthrottled + passkeys)
		s.swapAndSettle(t, newer)

		changed, kept := s.newPasskeyUser(t), s.newPasskeyUser(t)
		for _, u := range []passkeyUser{changed, kept} {
			s.passkeyAuth(t, u).want(t, "")
		}
		write(cheap + unthrottled) // it does not know the section
		if code, body := s.ask(t, "rollback", "{}"); code != http.StatusOK {
			t.Fatalf("rollback to %s: got %d %s", older, code, body)
		}
		s.awaitServing(t, older, 0)
		for path, p := range map[string]params{
			"passkey_begin/": {"purpose": "sign_in"}, "passkey_auth/": {"attempt": "a", "credential": "{}"},
			"passkeys_add/": {"password": changed.password}, "passkeys_add_confirm/": {"attempt": "a", "credential": "{}", "name": "n"},
			"passkeys_rename/": {"id": changed.passkey, "name": "n"}, "passkeys_remove/": {"id": changed.passkey, "password": changed.password},
			"prove/": {"password": changed.password},
		} {
			s.postAs(t, changed.pair, path, p).want(t, "not_found")
		}
		s.getAs(t, changed.pair, "passkeys/").want(t, "not_found")
		s.post(t, "auth/", params{"login": kept.login, "password": "wrong horse 9"}).want(t, "invalid_credentials")
		s.post(t, "auth/", params{"login": kept.login, "password": kept.password}).want(t, "")
		s.post(t, "recover/", params{"login": changed.login}).want(t, "")
		s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, changed.email).token(t), recovered)).want(t, "")
		changed.password = recovered

		write(cheap + unthrottled + passkeys)
		s.swapAndSettle(t, newer)
		s.passkeyAuth(t, kept).want(t, "")
		s.passkeyAuth(t, changed).want(t, "invalid_credentials")
		changed.pair = s.post(t, "auth/", params{"login": changed.login, "password": changed.password}).pair(t)
		var listed []struct{ ID string }
		s.getAs(t, changed.pair, "passkeys/").want(t, "").read(t, "passkeys", &listed)
		if len(listed) != 1 || listed[0].ID != changed.passkey {
			t.Errorf("got passkeys %+v, want %s, which the recovery under %s has kept", listed, changed.passkey, older)
		}
		s.postAs(t, changed.pair, "prove/", params{"password": changed.password, "id": changed.passkey}).want(t, "")
		s.passkeyAuth(t, changed).want(t, "")
	})
}

// passkeyUser is a user with a passkey.
type passkeyUser struct {
	user
	device  *softkey.Authenticator
	passkey string // its id
}

// newPasskeyUser registers a user, who confirms the e-mail and adds a passkey.
func (s *system) newPasskeyUser(t *testing.T) passkeyUser {
	t.Helper()
	u := passkeyUser{user: s.newUser(t), device: &softkey.Authenticator{Origin: passkeyOrigin}}
	s.confirmEmail(t, s.mailTo(t, mailtext.Verification, u.email))
	created := ceremony(t, s.postAs(t, u.pair, "passkeys_add/", params{"password": u.password}), u.device.Create)
	created["name"] = "phone"
	var added struct{ ID string }
	s.postAs(t, u.pair, "passkeys_add_confirm/", created).want(t, "").read(t, "passkey", &added)
	u.passkey = added.ID
	return u
}

// passkeyAuth signs the user in with their passkey.
func (s *system) passkeyAuth(t *testing.T, u passkeyUser) *response {
	t.Helper()
	return s.post(t, "passkey_auth/", ceremony(t, s.post(t, "passkey_begin/", params{"purpose": "sign_in"}), u.device.Get))
}

// ceremony returns the parameters attempt and credential that end a ceremony, with what an
// authenticator responds to its options.
func ceremony(t *testing.T, begun *response, respond func(options string) (string, error)) params {
	t.Helper()
	var attempt string
	begun.want(t, "").read(t, "attempt", &attempt)
	credential, err := respond(string(begun.Data["options"]))
	if err != nil {
		t.Fatal(err)
	}
	return params{"attempt": attempt, "credential": credential}
}

// TestSkew_ReleasedHostRunsThisPlugin runs this plugin under the last release's host,
// which .ci/skew builds. That host knows neither the new operations nor erasures, and no
// codes: it is refused where settings ask for second factors, and users who have one
// cannot sign in.
func TestSkew_ReleasedHostRunsThisPlugin(t *testing.T) {
	t.Parallel()
	released := os.Getenv(testkit.ReleasedHostVariable)
	if released == "" {
		t.Skip(testkit.ReleasedHostVariable + " names no host: .ci/skew runs this test")
	}
	t.Run("second factors are refused", func(t *testing.T) {
		o := options{database: testkit.SQLite(t), settings: cheap + unthrottled + twoFactor}
		s := start(t, o)
		u := s.newSecured(t)
		s.stop(t)
		o.host = released
		wantRefusal(t, o, "two_factor.enabled: this host is too old")
		o.settings = cheap + unthrottled
		s = start(t, o)
		for _, code := range []string{"", s.code(t, u), u.recoveryCodes[0]} { // it passes none on
			s.attempt(t, u, code).want(t, "internal")
		}
	})
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + "[deletion]\ngrace = \"1s\"\n", host: released})
		u := s.newUser(t)
		s.confirmEmail(t, s.mailTo(t, mailtext.Verification, u.email))
		s.post(t, "export/", params{}).want(t, "not_found")
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, u.email).token(t), recovered)).want(t, "")
		u.pair, u.password = s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t), recovered
		s.postAs(t, u.pair, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
		s.confirmEmail(t, s.mailTo(t, mailtext.EmailChange, "new-"+u.email))

		execute(t, database, "UPDATE personal_accounts SET disabled = (1 = 1), erase_at = 1, erase_version = credential_version")
		eventually(t, "the account is erased", func() bool {
			return s.post(t, "auth/", params{"login": u.login, "password": u.password}).Result.Code == "invalid_credentials"
		})
		s.awaitJobs(t) // also that of the erasure
	})
}
