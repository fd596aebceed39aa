package system

import (
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestSQLite_SecondHostIsRefused starts a host with its own data folder on the file of another.
func TestSQLite_SecondHostIsRefused(t *testing.T) {
	t.Parallel()
	database := testdb.SQLite(t)
	first := start(t, options{database: database, settings: cheap})
	second := launch(t, options{database: database, settings: cheap})
	select {
	case <-second.ended:
	case <-time.After(patience):
		t.Fatal("the second host still runs")
	}
	const want = "the plugin cannot be started"
	got := strings.Join(second.log.linesWith(want), "\n")
	if second.exit != 1 || !strings.Contains(got, "another host uses the SQLite file ") || !strings.Contains(got, "use PostgreSQL for several hosts") {
		t.Errorf("got exit code %d and %q, want 1 and a line that says why and what to do", second.exit, got)
	}
	first.newUser(t)
}
