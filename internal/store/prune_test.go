package store

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit"
)

// migratedStore opens a store and migrates it.
func migratedStore(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) mustPrune(t *testing.T, o PruneOptions) {
	t.Helper()
	if err := s.Prune(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) mustCount(t *testing.T, rows string) (n int) {
	t.Helper()
	if err := s.pools.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM "+rows).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// numbers selects n numbers as i.
func numbers(n int) string {
	return fmt.Sprintf("(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS n", n)
}

// mustExpire stores the only row of the throttle, which has expired.
func (s *Store) mustExpire(t *testing.T) {
	t.Helper()
	key := "''"
	if s.pollsLock {
		key = "x''"
	}
	s.mustDo(t, "DELETE FROM personal_throttle", "INSERT INTO personal_throttle (key, tat) VALUES ("+key+", 1)")
}

func TestPrune_FailedStepStopsNoOther(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migratedStore(t, url)
		s.mustExpire(t)
		s.mustDo(t, "DROP TABLE personal_sent_mails", "DROP TABLE personal_refused_codes")
		err := s.Prune(t.Context(), PruneOptions{MaxAudit: 1, MaxAuditPerAccount: 1})
		if err == nil || !strings.Contains(err.Error(), "prune personal_sent_mails") || !strings.Contains(err.Error(), "prune personal_refused_codes") {
			t.Errorf("got error %v, want those of both steps", err)
		}
		if n := s.mustCount(t, "personal_throttle"); n != 0 {
			t.Errorf("got %d expired attempts, want none", n)
		}
	})
}

func TestPrune_OneNodeAtATime(t *testing.T) {
	s := migratedStore(t, testkit.Postgres(t))
	s.mustExpire(t)
	other, err := s.pools.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	if _, err := other.ExecContext(t.Context(), s.pruning); err != nil {
		t.Fatal(err)
	}
	s.mustPrune(t, PruneOptions{})
	if n := s.mustCount(t, "personal_throttle"); n != 1 {
		t.Errorf("while another node prunes: got %d expired attempts, want one", n)
	}
	if err := other.Rollback(); err != nil { // as the server does when a node dies
		t.Fatal(err)
	}
	s.mustPrune(t, PruneOptions{})
	if n := s.mustCount(t, "personal_throttle"); n != 0 {
		t.Errorf("afterwards: got %d expired attempts, want none", n)
	}
}

func (s *Store) mustAddAccounts(t *testing.T, n int) {
	t.Helper()
	no := "false"
	if s.pollsLock {
		no = "0"
	}
	s.mustDo(t, `INSERT INTO personal_accounts (login, login_key, email, password_hash, credential_version, fields, disabled, created, updated)
		SELECT i, 'u' || i, '', CASE WHEN i % 2 = 0 THEN 'current:' ELSE 'old:' END || i, 1, '{}', `+no+`, 0, 0 FROM `+numbers(n))
}

// At millions of pairs of account and type, one query over all fails for ever.
func TestPrune_VisitsNewAuditEntriesInWindows(t *testing.T) {
	s, queries := planned(t)
	s.mustAddAccounts(t, 5_000)
	s.mustDo(t, `INSERT INTO personal_audit (event_id, type, time, account_id, address, request_id)
		SELECT id, 'password_changed', 1, id, '', '' FROM personal_accounts ORDER BY id`, "ANALYZE")
	o := PruneOptions{MaxAudit: 10, MaxAuditPerAccount: 3}
	s.mustPrune(t, o)
	const most = 3_000 // all pairs: more than 15,000
	windows := 0
	for _, statement := range queries.statements {
		if strings.Contains(statement, "AS pairs") {
			windows++
			if blocks := explain(t, s, statement).blocks(); blocks > most {
				t.Fatalf("a window visits %d blocks, want %d at most", blocks, most)
			}
		}
	}
	if windows < 10 {
		t.Errorf("got %d windows, want one for each 500 entries", windows)
	}
	// A process that starts later looks at none of them again.
	later := migratedStore(t, s.url)
	later.write, later.read = later.write.WithQueryHook(queries), later.read.WithQueryHook(queries)
	queries.statements = nil
	later.mustPrune(t, o)
	for _, statement := range queries.statements {
		if strings.Contains(statement, "personal_audit") {
			if blocks := explain(t, s, statement).blocks(); blocks > 10 {
				t.Errorf("without new entries, a statement visits %d blocks, want 10 at most:\n%s", blocks, statement)
			}
		}
	}
}

func TestPrune_ExpiredSessionsNeedNoIndex(t *testing.T) {
	s, queries := planned(t)
	s.mustAddAccounts(t, 1)
	s.mustDo(t, `INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method)
			SELECT a.id, int8send(i), '', '', 10, 0, 0, CASE WHEN i % 1000 = 0 THEN 1 ELSE 10 END, '', '', 'password' FROM generate_series(1, 20000) i CROSS JOIN personal_accounts a`,
		"ANALYZE")
	s.mustPrune(t, PruneOptions{Batch: 200, Lifetimes: accounts.Lifetimes{SeenAfter: time.UnixMicro(5), CreatedAfter: time.UnixMicro(5)}})
	if n := s.mustCount(t, "personal_sessions"); n != 19_980 {
		t.Errorf("got %d sessions, want 19,980", n)
	}
	table := explain(t, s, "SELECT sum(last_seen) FROM personal_sessions").blocks()
	for _, statement := range queries.statements {
		if strings.HasPrefix(statement, "DELETE FROM personal_sessions") {
			if blocks := explain(t, s, statement).blocks(); blocks > table/2 {
				t.Fatalf("a window visits %d blocks, the table has %d", blocks, table)
			}
		}
	}
}

func TestPrune_LargeTablesTakeSeveralRounds(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migratedStore(t, url)
		s.mustAddAccounts(t, 1)
		selector := "int8send(i)"
		if s.pollsLock {
			selector = "CAST(i AS BLOB)"
		}
		s.mustDo(t, `INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method)
			SELECT a.id, `+selector+`, `+selector+`, `+selector+`, 10, 0, 0, CASE WHEN i < 2950 THEN 10 ELSE 1 END, '', '', 'password' FROM `+numbers(3000)+` CROSS JOIN personal_accounts a`)
		o := PruneOptions{Batch: 1, Lifetimes: accounts.Lifetimes{SeenAfter: time.UnixMicro(5)}}
		for round, want := range []int{3000, 2949, 2949} { // a round looks at 2,000 rows, one removes 51
			s.mustPrune(t, o)
			if n := s.mustCount(t, "personal_sessions"); n != want {
				t.Errorf("round %d: got %d sessions, want %d", round+1, n, want)
			}
		}
		s.mustDo(t, "UPDATE personal_sessions SET last_seen = 1 WHERE id = 1")
		for range 2 {
			s.mustPrune(t, o)
		}
		if n := s.mustCount(t, "personal_sessions"); n != 2949 {
			t.Errorf("got %d sessions, want that the table is left alone for a minute, whichever node prunes", n)
		}
		s.mustDo(t, "UPDATE personal_sweeps SET began = 0 WHERE step = 'personal_sessions'")
		for range 2 { // the table begins anew
			s.mustPrune(t, o)
		}
		if n := s.mustCount(t, "personal_sessions"); n != 2948 {
			t.Errorf("got %d sessions, want that the first one was removed, too", n)
		}
	})
}
