package store

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// recorded keeps the statements of a store.
type recorded struct{ statements []string }

func (r *recorded) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }
func (r *recorded) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	r.statements = append(r.statements, e.Query)
}

// the returns the last statement that contains a text.
func (r *recorded) the(t *testing.T, part string) string {
	t.Helper()
	for i := len(r.statements) - 1; i >= 0; i-- {
		if strings.Contains(r.statements[i], part) {
			return r.statements[i]
		}
	}
	t.Fatalf("got no statement with %q", part)
	return ""
}

// planned is a store on a fresh PostgreSQL database, and its statements.
func planned(t *testing.T) (*Store, *recorded) {
	t.Helper()
	s, err := Open(t.Context(), testkit.Postgres(t), Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &recorded{}
	s.write, s.read = s.write.WithQueryHook(r), s.read.WithQueryHook(r)
	return s, r
}

// plan is PostgreSQL's report of a statement that was run.
type plan struct {
	Hit   int    `json:"Shared Hit Blocks"`
	Read  int    `json:"Shared Read Blocks"`
	Type  string `json:"Node Type"`
	Index string `json:"Index Name"`
	Plans []plan
}

// blocks is the number of blocks of tables and indexes that the statement visited.
func (p plan) blocks() int { return p.Hit + p.Read }

// uses reports whether a part of the plan reads an index.
func (p plan) uses(index string) bool {
	return p.Index == index || slices.ContainsFunc(p.Plans, func(part plan) bool { return part.uses(index) })
}

// explain runs a statement without an effect, and returns the report.
func explain(t *testing.T, s *Store, statement string) plan {
	t.Helper()
	tx, err := s.pools.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var text []byte
	if err := tx.QueryRowContext(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

func (s *Store) mustDo(t *testing.T, statements ...string) {
	t.Helper()
	pools, err := dbconn.Open(s.url, dbconn.MigrationLimits) // VACUUM must be alone in its message
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	for _, statement := range statements {
		if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// InTx runs statements in a transaction, for tests of the other package.
func (s *Store) InTx(ctx context.Context, statements string) error {
	tx, err := s.pools.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statements)
	return errors.Join(err, tx.Commit())
}

// The preflight asks it before each start.
func TestOtherRelyingParty_ReadsTheEndsOfTheTable(t *testing.T) {
	s, queries := planned(t)
	s.mustDo(t, `INSERT INTO personal_accounts (login, login_key, email, password_hash, credential_version, fields, disabled, created, updated)
			VALUES ('ada', 'ada', '', '', 1, '{}', FALSE, 1, 1)`,
		`INSERT INTO personal_passkeys (account_id, credential_id, public_key, sign_count, backup_eligible, backed_up, rp_id, name, created, last_used, with_code)
			SELECT a.id, decode(lpad(to_hex(i), 32, '0'), 'hex'), '', 0, FALSE, FALSE, 'site.example', 'a passkey', i, 0, FALSE
			FROM personal_accounts a, generate_series(1, 10000) i`, "ANALYZE personal_passkeys")
	if other, err := s.OtherRelyingParty(t.Context(), "site.example"); err != nil || other != "" {
		t.Fatalf("got %q, error %v; want no other", other, err)
	}
	const most = 50 // of the table and its primary key
	if blocks := explain(t, s, queries.the(t, "rp_id <>")).blocks(); blocks > most {
		t.Errorf("the query visits %d blocks, want %d at most", blocks, most)
	}
	s.mustDo(t, "UPDATE personal_passkeys SET rp_id = 'old.example' WHERE id = (SELECT min(id) FROM personal_passkeys)")
	if other, err := s.OtherRelyingParty(t.Context(), "site.example"); err != nil || other != "old.example" {
		t.Errorf("got %q, error %v; want that of the oldest", other, err)
	}
}

func TestClaimJobs_MailsDoNotWalkOverEvents(t *testing.T) {
	s, queries := planned(t)
	s.mustDo(t, `INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease)
			SELECT 'event', '{}', i, i, 0, 0 FROM generate_series(1, 140000) i`,
		`INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease)
			SELECT CASE WHEN i % 2 = 0 THEN 'recovery' ELSE 'notice' END, '{}', 1000000 + i, 1000000 + i, 0, 0 FROM generate_series(1, 10) i`)
	mails := outbox.Claim{N: 8, Lease: time.Minute, Kinds: []outbox.Kind{accounts.KindRecovery, accounts.KindNotice, accounts.KindInvitation}}
	events := outbox.Claim{N: 8, Lease: time.Minute, Kinds: []outbox.Kind{accounts.KindEvent}}
	for _, statistics := range []string{"no", "fresh"} {
		claims := map[string][]outbox.Claim{"mails": {mails}}
		if statistics == "fresh" {
			s.mustDo(t, "ANALYZE personal_jobs")
			claims["events"], claims["both"] = []outbox.Claim{events}, []outbox.Claim{mails, events}
		}
		for name, claims := range claims {
			jobs, err := s.ClaimJobs(t.Context(), claims...)
			if err != nil || len(jobs) != 8*len(claims) {
				t.Fatalf("%s: got %d jobs, error %v, want %d", name, len(jobs), err, 8*len(claims))
			}
			for _, j := range jobs {
				if err := s.RetryJob(t.Context(), j, j.Created); err != nil {
					t.Fatal(err)
				}
			}
			if statistics == "fresh" {
				s.mustDo(t, "VACUUM personal_jobs") // a statement visits dead rows that an earlier one has left
			}
			most := 180 * len(claims) // a scan of the smallest index visits more
			if blocks := explain(t, s, queries.the(t, "claimed AS")).blocks(); blocks > most {
				t.Errorf("a claim of %s with %s statistics visits %d blocks, want %d at most", name, statistics, blocks, most)
			} else {
				t.Logf("a claim of %s with %s statistics visits %d blocks", name, statistics, blocks)
			}
		}
	}
}

// docs/sizing.md tells operators of many accounts to make this index themselves: it costs each
// registration time, and only the administrators' search uses it.
func TestSearchAccounts_UsesAnOperatorsTrigramIndex(t *testing.T) {
	s, queries := planned(t)
	if _, err := s.pools.Write.ExecContext(t.Context(), "CREATE EXTENSION pg_trgm"); err != nil {
		t.Skipf("the server has no pg_trgm: %v", err)
	}
	s.mustDo(t, `INSERT INTO personal_accounts (login, login_key, email, search, password_hash, credential_version, fields, disabled, created, updated)
			SELECT 'User' || i, 'user' || i, '', 'user' || i || E'\nиван petrov ' || i, repeat('x', 100), 1, '{}', false, 0, 0
			FROM generate_series(1, 10000) i`,
		`CREATE INDEX accounts_search ON personal_accounts USING gin (search gin_trgm_ops)`,
		"VACUUM ANALYZE personal_accounts")
	table := explain(t, s, "SELECT sum(length(password_hash)) FROM personal_accounts").blocks()
	for _, text := range []string{"nobody", "ser3141", "etrov 2718"} { // in the test's locale, pg_trgm knows no other letters
		q := accounts.AccountSearch{Text: text, Key: strings.ToLower(text), Limit: 50}
		if _, err := s.SearchAccounts(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		plan := explain(t, s, queries.the(t, "LIKE"))
		if !plan.uses("accounts_search") || plan.blocks() > table/2 {
			t.Errorf("a search for %s visits %d blocks, in the index: %t; the table has %d", text, plan.blocks(), plan.uses("accounts_search"),
				table)
		}
	}
}
