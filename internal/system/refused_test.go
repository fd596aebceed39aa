package system

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestRefusedNode_ServesNobodyAndDoesNotLoop has a newer version refuse the one that runs:
// it may not know what protects the accounts from then on.
func TestRefusedNode_ServesNobodyAndDoesNotLoop(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		pools, err := dbconn.Open(database, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pools.Close() })
		if _, err := pools.Write.ExecContext(t.Context(), "UPDATE personal_schema SET min_compatible = 99"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the version is given up", func() bool { return s.plugin(t).Active.State == "failed" })
		if status := s.plugin(t).Active; !strings.Contains(status.LastError, "needs a program that knows version 99") ||
			!strings.Contains(status.LastError, "run a newer version") {
			t.Errorf("got status %+v, want why the version does not run and what to do", status)
		}
		s.do(t, call{path: "auth/", params: params{"login": u.login, "password": u.password}}).want(t, "unavailable")
		if got := s.status("/readyz"); got != http.StatusServiceUnavailable {
			t.Errorf("/readyz: got %d, want 503", got)
		}
		if n := strings.Count(s.log.String(), "plugin does not run"); n != 1 { // the next start is half a minute later
			t.Errorf("got %d failed starts, want 1", n)
		}
	})
}
