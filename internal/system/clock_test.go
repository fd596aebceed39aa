package system

import (
	"database/sql"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
)

// jumpingDatabase is a database whose clock the test sets ahead.
func jumpingDatabase(t *testing.T) (url string, jump func(ahead time.Duration)) {
	t.Helper()
	url = testkit.Postgres(t)
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url)))
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
	return url, func(ahead time.Duration) { execute(fmt.Sprintf("UPDATE jump SET seconds = %d", int(ahead.Seconds()))) }
}

// TestClock_JumpOfTheDatabaseIsReported lets the database's clock jump by two minutes: log,
// status and metrics say that nothing is removed, and users notice nothing.
func TestClock_JumpOfTheDatabaseIsReported(t *testing.T) {
	t.Parallel()
	database, jump := jumpingDatabase(t)
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

	jump(2 * time.Minute)
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

// TestClock_WhatHappenedInTheFutureIsForgotten lets the database's clock be 39 days ahead during
// the life of a process, which sees no jump. Afterwards tokens of that time are void, mails are sent,
// jobs run, and the theft of a session is noticed.
func TestClock_WhatHappenedInTheFutureIsForgotten(t *testing.T) {
	t.Parallel()
	database, jump := jumpingDatabase(t)
	o := options{database: database, settings: cheap + unverified + mailedLinks + "[session]\ngrace = \"1s\"\n"}
	jump(39 * 24 * time.Hour)
	s := start(t, o)
	hashes := []pair{s.newUser(t).pair}
	for range 3 {
		hashes = append(hashes, s.refresh(t, hashes[len(hashes)-1]))
	}
	u, leaving := s.newUser(t), s.newUser(t)
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	void := s.mailTo(t, mailtext.Recovery, u.email).token(t)
	s.stop(t)
	administer(t, database, "user", "recover", "--login", u.login) // no process runs its job
	administer(t, database, "user", "sign-out", "--login", leaving.login)

	jump(0)
	s = start(t, o)
	last := s.refresh(t, hashes[len(hashes)-1])
	s.post(t, "recover_confirm/", confirm(void, recovered)).want(t, "invalid_token")
	s.mailTo(t, mailtext.Recovery, u.email) // that of the command
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	eventually(t, "another recovery mail", func() bool { return len(s.mailsTo(t, mailtext.Recovery, u.email)) == 2 })
	token := s.mailsTo(t, mailtext.Recovery, u.email)[0].token(t)
	s.post(t, "recover_confirm/", confirm(token, recovered)).want(t, "")
	eventually(t, "the event of the command is delivered", func() bool {
		return slices.ContainsFunc(s.log.linesWith("account event"), func(line string) bool {
			return strings.Contains(line, "user_signed_out") && strings.Contains(line, fmt.Sprintf("user_id=%d", leaving.ID))
		})
	})
	eventually(t, "an old hash is refused", func() bool { return s.getAs(t, hashes[0], "profile/").Result.Code == "unauthenticated" })
	s.wantDead(t, "the session whose old hash came back", last)
}
