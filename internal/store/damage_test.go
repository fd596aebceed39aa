package store_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/userfields"
)

func TestFillBatch_LeavesOutDamagedAccounts(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		var log strings.Builder
		s := migrated(t, url, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for _, login := range []string{"anna", "boris", "clara"} {
			newAccount(t, s, login)
		}
		execute(t, url, `UPDATE personal_accounts SET fields = '[1]' WHERE login_key = 'boris'`)
		var started time.Time
		if err := s.StartFill(t.Context(), "r1", func(at time.Time) []accounts.NewJob { started = at; return nil }); err != nil {
			t.Fatal(err)
		}
		left, err := s.FillBatch(t.Context(), started, 10, func(v userfields.Values) (userfields.Values, bool) {
			return v.Merge(userfields.Values{"city": "Riga"}), true
		})
		if err != nil || left {
			t.Fatalf("got left %t, error %v, want the whole run", left, err)
		}
		if n := value[int](t, url, "SELECT filled FROM personal_fill"); n != 2 {
			t.Errorf("got %d accounts filled in, want the 2 that can be read", n)
		}
		if !strings.Contains(log.String(), "cannot be read were left out\" accounts=1") {
			t.Errorf("got log %s, want the number of damaged accounts", log.String())
		}
	})
}

// PostgreSQL ends one of the transactions that wait for each other.
func TestAddAccounts_RunsAgainAfterADeadlock(t *testing.T) {
	url := testdb.Postgres(t)
	s := migrated(t, url, store.Options{})
	tx, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SET LOCAL deadlock_timeout = '1min'"); err != nil { // the import looks first
		t.Fatal(err)
	}
	insert := func(login string) error {
		_, err := tx.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO personal_accounts (login, login_key, email, password_hash, credential_version, fields,
			disabled, created, updated) VALUES ('%[1]s', '%[1]s', '', 'hash', 1, '{}', FALSE, 5, 6)`, login))
		return err
	}
	if err := insert("boris"); err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() {
		outcomes, err := s.AddAccounts(t.Context(), []accounts.Account{
			{Login: "anna", LoginKey: "anna", CredentialVersion: 1}, {Login: "boris", LoginKey: "boris", CredentialVersion: 1},
		}, func([]transfer.Outcome) transfer.FollowUp { return transfer.FollowUp{} })
		if err == nil && (outcomes[0].ID == 0 || outcomes[1].ID != 0) {
			err = fmt.Errorf("got outcomes %+v, want anna added and boris taken", outcomes)
		}
		added <- err
	}()
	// The import waits, and is the one to be ended.
	for waiting := pools(t, url).Read; ; time.Sleep(5 * time.Millisecond) {
		var n int
		err := waiting.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			break
		}
	}
	if err := insert("anna"); err != nil {
		t.Fatalf("the other transaction: %v", err)
	}
	if _, err := tx.ExecContext(t.Context(), "DELETE FROM personal_accounts WHERE login_key = 'anna'"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Error(err)
	}
}
