package system

import (
	"database/sql"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestClock_JumpOfTheDatabaseIsReported lets the database's clock jump by two minutes: log,
// status and metrics say that nothing is removed, and users notice nothing.
func TestClock_JumpOfTheDatabaseIsReported(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(database)))
	t.Cleanup(func() { _ = db.Close() })
	execute := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	// A function of this name in front of PostgreSQL's own is the database's clock.
	execute(`CREATE TABLE jump (seconds int NOT NULL); INSERT INTO jump VALUES (0);
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			'SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM public.jump) * interval ''1 second''';
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	s := start(t, options{database: database, settings: cheap + unverified})
	u := s.newUser(t)
	held := regexp.MustCompile(`(?m)^personal_plugin_deletion_held_seconds\{[^}]*\} ([0-9.e+]+)$`)
	read := func() string {
		_, text := s.web(t, http.MethodGet, "/metrics", "")
		found := held.FindStringSubmatch(text)
		if found == nil {
			return ""
		}
		return found[1]
	}
	if got := read(); got != "0" {
		t.Errorf("before the jump deletion is held for %q seconds, want 0", got)
	}

	execute("UPDATE jump SET seconds = 120")
	eventually(t, "the metric says that deletion is held", func() bool { got := read(); return got != "" && got != "0" })
	eventually(t, "the status warns", func() bool {
		warnings := s.plugin(t).Active.Warnings
		return len(warnings) == 1 && strings.Contains(warnings[0], "clocks disagree")
	})
	if len(s.log.linesWith("clocks disagree")) == 0 {
		t.Error("the log does not say that clocks disagree")
	}
	u.pair = s.refresh(t, u.pair)
	s.wantAlive(t, "a session from before the jump", u.pair)
}
