//go:build extended

package accounts_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// scaleAccounts is the environment variable with the number of accounts of the scale gate, each
// with a session. The default is 1,000,000.
const scaleAccounts = "PERSONAL_SCALE_ACCOUNTS"

// The limits of the scale gate.
const (
	scaleFew     = 1000   // accounts of the small database
	scannedRows  = 30_000 // in a sequential scan: some windows that pruning reads, in a table that is hardly longer
	slowestQuery = time.Second
	scaleRatio   = 1.2
	scaleRounds  = 3 // attempts to stay below scaleRatio: the server works in the background after so many inserts
)

// scaleEpoch is the time in the generated data, and the start of the fixture's clock.
var scaleEpoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// scaleServer is a PostgreSQL server whose folder a restart keeps.
type scaleServer struct {
	*testkit.PostgresServer
	folder string
}

// start starts the server, which a restart leaves with an empty cache.
func (s *scaleServer) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	if s.PostgresServer, err = testkit.StartPostgresIn(ctx, s.folder); err != nil {
		t.Fatal(err)
	}
}

func (s *scaleServer) stop(t *testing.T) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// database returns the URL of a database, for the port that the server has now.
func (s *scaleServer) database(name string) string {
	u, _ := url.Parse(s.URL) // testkit has made it
	u.Path = "/" + name
	return u.String()
}

// do executes statements on a database, each in its own transaction.
func (s *scaleServer) do(t *testing.T, database string, statements ...string) {
	t.Helper()
	pools, err := dbconn.Open(s.database(database), dbconn.Limits{Lock: time.Minute, Statement: time.Hour, Read: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	for _, statement := range statements {
		if _, err := pools.Write.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatalf("%.80s: %v", strings.TrimSpace(statement), err)
		}
	}
}

func (s *scaleServer) count(t *testing.T, database, query string) (n int64) {
	t.Helper()
	pools, err := dbconn.Open(s.database(database), dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if err := pools.Read.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%.80s: %v", query, err)
	}
	return n
}

// create makes a database with n accounts, from generated data.
func (s *scaleServer) create(t *testing.T, name string, n int) {
	t.Helper()
	began := time.Now()
	s.do(t, "postgres", "CREATE DATABASE "+name)
	db := s.open(t, name, store.Options{})
	defer db.Close()
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.do(t, name, tables(t, n)...)
	t.Logf("generated %d accounts in %v", n, time.Since(began).Round(time.Second))
}

// tables returns the statements that fill the tables. Account i has the id i, the login
// "user"+i and the password of the tests.
func tables(t *testing.T, n int) []string {
	hash, err := mustHasher(t, cheap).Hash(t.Context(), password.Source{}, goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	now := scaleEpoch.UnixMicro()
	return []string{
		fmt.Sprintf(`INSERT INTO personal_accounts (login, login_key, name, email, email_key, password_hash, credential_version, fields, disabled, created, updated)
			SELECT 'user' || i, 'user' || i, 'Anna Petrova ' || i, 'user' || i || '@example.org', 'user' || i || '@example.org', '%s', 1,
				'{"city": "Riga"}', FALSE, %[2]d - i, %[2]d - i FROM generate_series(1, %[3]d) i`, hash, now, n),
		// Used within the last day, which is the longest idle time.
		fmt.Sprintf(`INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent, method)
			SELECT i, substr(sha256(int8send(i)), 1, 8), sha256(int8send(-i)), sha256(int8send(i)), t, t, t, t, '192.0.2.1', 'Mozilla/5.0 (X11; Linux x86_64)', 'password'
			FROM (SELECT i, %d - i * 7907 %% 80000 * 1000000 AS t FROM generate_series(1, %d::bigint) i) s`, now, n),
		fmt.Sprintf(`INSERT INTO personal_throttle (key, tat) SELECT sha256(int8send(i)), %d + i %% 3600 * 1000000 FROM generate_series(1, %d::bigint) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_mail_tokens (digest, account_id, purpose, credential_version, email, email_key, created, expires)
			SELECT sha256(int8send(i)), i, 'recover', 1, '', '', %[1]d, %[1]d + i %% 1800 * 1000000 FROM generate_series(1, %[2]d::bigint / 10) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_audit (event_id, type, time, account_id, address, request_id, actor)
			SELECT i, (ARRAY['signed_in', 'signed_out', 'password_changed'])[1 + i %% 3], %d - (%[2]d - i) * 1000, i, '192.0.2.1', '', 'user'
			FROM generate_series(1, %[2]d::bigint) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_known_addresses (account_id, address, seen, since) SELECT i, '192.0.2.1', %[1]d - i, %[1]d - i FROM generate_series(1, %[2]d::bigint) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_sent_mails (digest, kind, mail_id, created) SELECT sha256(int8send(i)), 'recovery', i, %d - i %% 1000 FROM generate_series(1, %d::bigint) i`, now, n),
		`UPDATE personal_accounts SET two_factor_secret = sha256(int8send(id)), two_factor_key = 'key' || id % 3 WHERE id % 10 = 5`,
		`INSERT INTO personal_recovery_codes (account_id, digest) SELECT id, sha256(int8send(id)) FROM personal_accounts WHERE two_factor_secret IS NOT NULL`,
		fmt.Sprintf(`INSERT INTO personal_refused_codes (account_id, refused, blocks, noticed) SELECT id, %d, FALSE, FALSE FROM personal_accounts WHERE two_factor_secret IS NOT NULL`, now),
		// A backlog, as an outage of the host leaves it: events about no account and about accounts.
		fmt.Sprintf(`INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease)
			SELECT 'event', '{}', %[1]d, %[1]d, 0, 0 FROM generate_series(1, %[2]d / 10) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease, account_id)
			SELECT 'event', '{}', %[1]d, %[1]d, 0, 0, i FROM generate_series(1, %[2]d::bigint / 10) i`, now, n),
		fmt.Sprintf(`INSERT INTO personal_fill (id, revision, state, after_id, checked, total, filled, started, ended)
			VALUES (1, 'r1', 'running', %d, 0, 0, 0, %d, 0)`, n/2, now),
	}
}

// slowest is the longest operation of a store.
type slowest struct {
	mu   sync.Mutex
	took time.Duration
}

func (s *slowest) ObserveStore(_ store.Operation, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = max(s.took, took)
}

func (*slowest) ObserveBatch(store.Operation, int) {}

// open opens a store on a database.
func (s *scaleServer) open(t *testing.T, database string, o store.Options) *store.Store {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), s.database(database), o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestScale is the gate for large databases on PostgreSQL: the queries of background work
// stay fast and read no whole table, and users pay for no growth. On a busy machine queries may exceed their limits.
func TestScale(t *testing.T) {
	many := 1_000_000
	if given := os.Getenv(scaleAccounts); given != "" {
		var err error
		if many, err = strconv.Atoi(given); err != nil || many < 10*scaleFew {
			t.Fatalf("%s: got %q, want a number of %d or more", scaleAccounts, given, 10*scaleFew)
		}
	}
	folder := t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o755); err != nil { // the server may run as another user
		t.Fatal(err)
	}
	s := &scaleServer{folder: filepath.Join(folder, "server")}
	s.start(t)
	defer func() { s.stop(t) }()
	const small, large = "scale_few", "scale_many"
	for name, n := range map[string]int{small: scaleFew, large: many} {
		s.create(t, name, n)
		s.do(t, name, "VACUUM ANALYZE")
	}
	s.stop(t)
	s.start(t)
	for name, work := range periodicWork(t) {
		t.Run(name, func(t *testing.T) { s.testPeriodic(t, large, int64(many), work) })
	}
	t.Run("sign-in and refresh", func(t *testing.T) { testGrowth(t, s.database(small), s.database(large), many) })
}

// work is one round of background work.
type work func(ctx context.Context, db *store.Store) error

// periodicWork returns all background work of a plugin process that a clock starts.
func periodicWork(t *testing.T) map[string]work {
	t.Helper()
	hasher, settings := mustHasher(t, cheap), testSettings()
	kinds := []outbox.Kind{accounts.KindEvent}
	return map[string]work{
		"claim and finish jobs": func(ctx context.Context, db *store.Store) error {
			jobs, err := db.ClaimJobs(ctx, outbox.Claim{Kinds: kinds, N: 8, Lease: time.Minute})
			if err == nil && len(jobs) != 8 {
				err = fmt.Errorf("got %d jobs, want 8", len(jobs))
			}
			return cmp.Or(err, db.FinishJobs(ctx, jobs...))
		},
		"claim other jobs": func(ctx context.Context, db *store.Store) error {
			_, err := db.ClaimJobs(ctx, outbox.Claim{Kinds: []outbox.Kind{transfer.KindWrap}, N: 1, Lease: time.Minute})
			return err
		},
		"prune": func(ctx context.Context, db *store.Store) error {
			now := db.Now()
			return db.Prune(ctx, store.PruneOptions{
				Lifetimes: settings.Lifetimes(now), MailsBefore: now.Add(-accounts.MailWindow), PendingBefore: now.Add(-accounts.PendingFactorLifetime),
				AddressesBefore: now.Add(-settings.KnownAddressLifetime()), CodesBefore: now.Add(-personal.RefusedCodeWindow),
				AuditBefore: now.Add(-90 * 24 * time.Hour), MaxAudit: 1_000_000, MaxAuditPerAccount: 200,
			})
		},
		"count jobs for metrics": func(ctx context.Context, db *store.Store) error { _, err := db.JobBacklog(ctx); return err },
		"classes of hashes":      func(ctx context.Context, db *store.Store) error { _, err := db.Classes(ctx); return err },
		"count of hashes": func(ctx context.Context, db *store.Store) error {
			return db.UpdateClasses(ctx, hasher, false)
		},
		"fill in user fields": func(ctx context.Context, db *store.Store) error {
			run, err := db.LastFill(ctx)
			if err == nil {
				_, err = db.FillBatch(ctx, run.Started, 500, func(v userfields.Values) (userfields.Values, bool) {
					return v.Merge(userfields.Values{"country": "Latvia"}), true
				})
			}
			return err
		},
		"erase accounts": func(ctx context.Context, db *store.Store) error {
			return accounts.New(settings, db, hasher, nil, slog.New(slog.DiscardHandler), func() {}).EraseDue(ctx)
		},
		"wrap hashes": func(ctx context.Context, db *store.Store) error {
			_, err := db.BareHashes(ctx, []int64{1, 500, 9000})
			return err
		},
		"health":        func(ctx context.Context, db *store.Store) error { return db.Health(ctx) },
		"clock":         func(ctx context.Context, db *store.Store) error { return db.SyncClock(ctx) },
		"keys in use":   func(ctx context.Context, db *store.Store) error { _, err := db.SecretKeys(ctx); return err },
		"count secrets": func(ctx context.Context, db *store.Store) error { _, err := db.CountSecrets(ctx); return err },
		"encrypt secrets again": func(ctx context.Context, db *store.Store) error {
			_, err := db.SecretsOfKey(ctx, "key1", 5000, 500)
			return err
		},
	}
}

// testPeriodic runs a round of work and checks how long its queries take, and that they read
// no table that grows from its beginning.
func (s *scaleServer) testPeriodic(t *testing.T, database string, accounts int64, do work) {
	before := s.scanned(t, database)
	longest := &slowest{}
	db := s.open(t, database, store.Options{Clock: func() time.Time { return scaleEpoch }, Observer: longest})
	began := time.Now()
	if err := do(t.Context(), db); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// A connection sends its statistics when it ends.
	for s.count(t, database, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()") > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("the longest operation takes %v of %v", longest.took.Round(100*time.Microsecond), took.Round(100*time.Microsecond))
	if longest.took >= slowestQuery {
		t.Errorf("got an operation of %v, want less than %v", longest.took, slowestQuery)
	}
	for table, rows := range s.scanned(t, database) {
		if rows -= before[table]; rows > max(scannedRows, accounts/100) {
			t.Errorf("got %d rows of %s read by sequential scans, with %d accounts: want none of tables that grow", rows, table, accounts)
		}
	}
}

// scanned returns how many rows of each table sequential scans have read.
func (s *scaleServer) scanned(t *testing.T, database string) map[string]int64 {
	t.Helper()
	pools, err := dbconn.Open(s.database(database), dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	var text string
	err = pools.Read.QueryRowContext(t.Context(), "SELECT json_object_agg(relname, seq_tup_read) FROM pg_stat_user_tables").Scan(&text)
	tables := map[string]int64{}
	if err := cmp.Or(err, json.Unmarshal([]byte(text), &tables)); err != nil {
		t.Fatal(err)
	}
	return tables
}

// testGrowth compares the medians of calls that alternate between both databases, so that
// other load on the machine slows both down. Both have the same number of active users, who
// have signed in once before: the pages of others need not be in memory.
func testGrowth(t *testing.T, few, many string, accounts int) {
	const users, calls = 100, 3
	small, large := newFixture(t, few), newFixture(t, many)
	pairs := map[*fixture][]personal.Credentials{}
	signIn := func(f *fixture, user int) personal.Credentials {
		t.Helper()
		number := 1 + user*10 // without a second factor
		if f == large {
			number = 1 + user*(accounts/users/10*10)
		}
		in, err := f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: fmt.Sprint("user", number), Password: goodPassword})
		if err != nil {
			t.Fatal(err)
		}
		return in.Credentials
	}
	for _, f := range []*fixture{small, large} {
		for user := range users {
			pairs[f] = append(pairs[f], signIn(f, user))
		}
	}
	for name, call := range map[string]func(f *fixture, user int){
		"sign-in": func(f *fixture, user int) { signIn(f, user) },
		"refresh": func(f *fixture, user int) {
			next, err := f.service.Refresh(t.Context(), pairs[f][user])
			if err != nil {
				t.Fatal(err)
			}
			pairs[f][user] = next
		},
	} {
		for round := 1; ; round++ {
			took := map[*fixture][]time.Duration{}
			for n := range calls * users {
				user := n % users
				order := []*fixture{small, large}
				if n%2 == 1 {
					slices.Reverse(order)
				}
				for _, f := range order {
					began := time.Now()
					call(f, user)
					took[f] = append(took[f], time.Since(began))
				}
			}
			a, b := median(took[small]), median(took[large])
			ratio := float64(b) / float64(a)
			t.Logf("%s: %v with %d accounts, %v with many: ratio %.2f", name, a.Round(time.Microsecond), scaleFew, b.Round(time.Microsecond), ratio)
			if ratio <= scaleRatio {
				break
			}
			if round == scaleRounds {
				t.Errorf("%s: got %.2f times the cost with %d accounts in round %d, want at most %.1f", name, ratio, scaleFew, round, scaleRatio)
				break
			}
		}
	}
}
