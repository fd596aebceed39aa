package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// The rows of a second factor end with the session or account that they belong to.
func TestTwoFactor_RowsEndWithSessionAndAccount(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		rows := func() [2]int {
			return [2]int{value[int](t, url, "SELECT count(*) FROM personal_pending_factors"),
				value[int](t, url, "SELECT count(*) FROM personal_recovery_codes")}
		}
		none := func(accounts.Account, outbox.Job) []byte { return nil }
		for name, end := range map[string]func(account, session int64) error{
			"a sign-out":    func(account, session int64) error { return s.RevokeSession(t.Context(), account, session) },
			"all sign-outs": func(account, _ int64) error { return s.RevokeSessions(t.Context(), account, false) },
			"a disabling":   func(account, _ int64) error { return s.SetDisabled(t.Context(), account, true) },
			"revoke-all":    func(int64, int64) error { _, err := s.RevokeAll(t.Context()); return err },
			"a removal":     func(account, _ int64) error { return s.RemoveTwoFactor(t.Context(), account, false, noJobs) },
			"a deletion":    func(account, _ int64) error { return s.DeleteAccount(t.Context(), account, none) },
			"a due erasure": func(account, _ int64) error {
				return s.EraseAccount(t.Context(), account, func(accounts.Account) bool { return true }, none)
			},
			"a deletion by SQL": func(account, _ int64) error { execute(t, url, "DELETE FROM personal_accounts"); return nil },
		} {
			account := newAccount(t, s, name)
			session := value[int64](t, url, "SELECT max(id) FROM personal_sessions")
			p := accounts.PendingFactor{AccountID: account, SessionID: session, Secret: accounts.Sealed{Key: "key", Data: []byte("x")}}
			for _, err := range []error{
				s.SetPendingFactor(t.Context(), p), s.EnableTwoFactor(t.Context(), p, 1, accounts.NewRecoveryCodes{Digests: [][32]byte{{1}, {2}}}, accounts.KeptSession{Session: accounts.Session{ID: session}}),
				s.SetPendingFactor(t.Context(), accounts.PendingFactor{AccountID: account, SessionID: session, CredentialVersion: 1, Secret: p.Secret}),
			} {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if got := rows(); got != [2]int{1, 2} {
				t.Fatalf("%s: got %v pending secrets and recovery codes before, want 1 and 2", name, got)
			}
			if err := end(account, session); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			left := value[int](t, url, "SELECT count(*) FROM personal_accounts WHERE two_factor_secret IS NOT NULL")
			if got := rows(); got != [2]int{0, 2 * left} {
				t.Errorf("%s: got %v pending secrets and recovery codes and %d factors", name, got, left)
			}
			execute(t, url, "DELETE FROM personal_accounts")
		}
	})
}

// A preflight asks for the keys: it must not read all secrets.
func TestSecretKeys_ReadsOneAccountPerKey(t *testing.T) {
	const accounts, keys = 3000, 3
	url := testdb.Postgres(t)
	migrated(t, url, store.Options{})
	testkit.Populate(t, url, accounts, "'{}'")
	execute(t, url, "UPDATE personal_accounts SET two_factor_secret = 'x', two_factor_key = 'key' || id % 3")
	execute(t, url, "VACUUM ANALYZE personal_accounts")
	reads := pools(t, url).Read
	read := func() (rows int) {
		t.Helper()
		// A connection sends its statistics when it ends.
		for n := 1; n > 0; time.Sleep(5 * time.Millisecond) {
			err := reads.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'personal keys'`).Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
		}
		err := reads.QueryRowContext(t.Context(), "SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid) FROM pg_stat_user_tables t WHERE relname = 'personal_accounts'").Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	before := read()
	s, err := store.Open(t.Context(), url+"&application_name=personal+keys", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.SecretKeys(t.Context())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := read() - before; len(found) != keys || got > 10*keys {
		t.Errorf("got the keys %q and %d rows read, want %d keys and about one row each", found, got, keys)
	}
}

func noJobs(accounts.Account, accounts.OtherWays, accounts.OtherWays) []accounts.NewJob { return nil }
