package system

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
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
	if body := string(s.getAs(t, pair{}, "fields/").Raw); !strings.Contains(body, `"hint":"Abroad too."`) || !strings.Contains(body, `"pattern_message":"Begin with +."`) {
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
		s.awaitTwoFactor(t)
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
