package system

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// activated is in the log when a rule that older versions would not enforce has come into
// force.
const activated = "older plugin versions refuse this database from now on"

// wantOffered checks whether a user can begin to switch a second factor on.
func (s *system) wantOffered(t testing.TB, u user, want bool) {
	t.Helper()
	code := map[bool]string{false: "not_found"}[want]
	s.postAs(t, u.pair, "two_factor/", params{"password": u.password}).want(t, code)
}

// TestTwoFactor_IsOfferedOnceSettled asks for second factors in a bake, which a new start
// of the host interrupts.
func TestTwoFactor_IsOfferedOnceSettled(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(cheap+unthrottled+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{database: testdb.SQLite(t), data: filepath.Join(t.TempDir(), "data"),
		flags: []string{"--settings", settings, "--bake", "1h"}}
	write(unverified)
	s := start(t, o)
	older := s.plugin(t).Active.Version
	u := s.newUser(t)
	s.wantOffered(t, u, false)

	write(unverified + twoFactor)
	newer := s.installAnother(t)
	s.use(t, newer)
	s.wantOffered(t, u, false)
	s.stop(t)
	if len(s.log.linesWith(activated)) > 0 {
		t.Error("older versions are refused during the bake, want that it can be rolled back")
	}
	s = start(t, o)
	s.awaitTwoFactor(t)
	s.awaitServing(t, older, 0)
	if len(s.log.linesWith(activated)) != 1 {
		t.Error("second factors are offered and older versions are not refused")
	}
	s.use(t, newer)
	s.wantOffered(t, u, true) // in its bake, because older versions are refused already
}

// TestSkew_ReleasedPluginIsKeptOutBySecondFactors switches second factors on at one of
// several nodes before the others have left the last release's plugin, which .ci/skew
// builds, and tries each way in which a host returns to that plugin.
func TestSkew_ReleasedPluginIsKeptOutBySecondFactors(t *testing.T) {
	t.Parallel()
	released := os.Getenv(testkit.ReleasedVariable)
	if released == "" {
		t.Skip(testkit.ReleasedVariable + " names no plugin: .ci/skew runs this test")
	}
	database := testkit.Postgres(t)
	node := func(bake string) *system {
		return start(t, options{database: database, settings: cheap + unthrottled, flags: []string{"--plugin", released, "--bake", bake}})
	}
	unswapped, baking, swapped := node("1h"), node("1h"), node("1s")
	old := unswapped.plugin(t).Active.Version
	var newer string
	for _, s := range []*system{baking, swapped} {
		newer = s.installAnother(t)
		s.use(t, newer)
	}
	swapped.awaitServing(t, newer, 0)
	activating := start(t, options{database: database, settings: cheap + unthrottled + twoFactor})
	activating.awaitTwoFactor(t)
	u := activating.newSecured(t)
	reason := fmt.Sprintf("schema: the database has schema version %d, which needs a program that knows version 5; this one knows 1",
		store.SchemaTarget)

	for name, s := range map[string]*system{"a node in a bake": baking, "a node that asks for no second factors": swapped} {
		t.Run("code is required at once at "+name, func(t *testing.T) { s.attempt(t, u, "").want(t, "code_required") })
	}
	wantRefused := func(t *testing.T, s *system, change, body string) {
		t.Helper()
		code, got := s.ask(t, change, body)
		if code != http.StatusConflict || !strings.Contains(got, `"step":"preflight"`) || !strings.Contains(got, reason) {
			t.Errorf("%s to %s: got %d %s, want a refusal that names the versions of the schema", change, old, code, got)
		}
		s.attempt(t, u, "").want(t, "code_required")
	}
	t.Run("rollback within a bake", func(t *testing.T) { wantRefused(t, baking, "rollback", "{}") })
	t.Run("crash within a bake", func(t *testing.T) {
		before := baking.plugin(t).Active.PID
		signalPlugin(t, before, syscall.SIGKILL)
		baking.awaitServing(t, newer, before)
		baking.attempt(t, u, "").want(t, "code_required")
	})
	t.Run("swap", func(t *testing.T) { wantRefused(t, swapped, "use", fmt.Sprintf(`{"version":%q}`, old)) })
	t.Run("rollback by swap", func(t *testing.T) { wantRefused(t, swapped, "rollback", "{}") })
	t.Run("fall-back after crashes", func(t *testing.T) {
		signIns := swapped.load(call{path: "auth/", params: params{"login": u.login, "password": u.password}})
		last := 0
		eventually(t, "five crashes", func() bool {
			now := swapped.plugin(t).Active
			if now.State == "serving" && now.PID != last {
				last = now.PID
				signalPlugin(t, last, syscall.SIGQUIT) // SIGKILL would be no crash
			}
			return len(swapped.log.linesWith(`"plugin falls back to another version" version=`+old)) > 0
		})
		swapped.awaitServing(t, newer, last)
		served := signIns.seen("code_required")
		eventually(t, "another response", func() bool { return signIns.seen("code_required") > served })
		close(signIns.stop)
		signIns.workers.Wait()
		delete(signIns.codes, "code_required")
		delete(signIns.codes, "unavailable")
		if len(signIns.codes)+len(signIns.errs) > 0 {
			t.Errorf("got responses %v and errors %v, want only code_required and unavailable", signIns.codes, signIns.errs)
		}
		if len(swapped.log.linesWith(reason)) == 0 {
			t.Error("got no line in the log why the fall-back is refused, want the versions of the schema")
		}
	})
	t.Run("another node", func(t *testing.T) {
		wantRefusal(t, options{database: database, settings: cheap, flags: []string{"--plugin", released}}, reason)
	})
	t.Run("swap at a node that ran it all the time", func(t *testing.T) {
		unswapped.installAnother(t)
		if code, got := unswapped.ask(t, "use", fmt.Sprintf(`{"version":%q}`, newer)); code != http.StatusConflict ||
			!strings.Contains(got, `"step":"preflight"`) {
			t.Errorf("got %d %s, want a refusal, because %s could not take over again", code, got, old)
		}
	})
	t.Run("restart at a node that ran it all the time", func(t *testing.T) {
		unswapped.attempt(t, u, "").want(t, "") // the docs say: swap all nodes first
		signalPlugin(t, unswapped.plugin(t).Active.PID, syscall.SIGKILL)
		eventually(t, "the version is refused", func() bool { return len(unswapped.log.linesWith(reason)) > 0 })
		unswapped.attempt(t, u, "").want(t, "unavailable")
	})
}

func signalPlugin(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}
