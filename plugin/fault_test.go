package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The process works through a faulty connection to PostgreSQL.
func TestPlugin_FaultsOfTheDatabase(t *testing.T) {
	database := testdb.Postgres(t)
	proxy, through := testkit.NewFaultProxy(t, database)
	host := &personaltest.Host{}
	service := rpc.NewClient(startPlugin(t, through, host), host)
	pools, err := dbconn.Open(database, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	db := pools.Write
	register := func(ctx context.Context, login string) (personal.SignedIn, error) {
		return service.Register(ctx, personal.RegisterRequest{
			Login: login, Password: personaltest.Password, ConfirmPassword: personaltest.Password, Email: login + "@example.com",
		})
	}

	const idle = 300 * time.Millisecond // longer than connections are used without a check
	var user personal.Credentials
	t.Run("a lost response to COMMIT", func(t *testing.T) {
		for i := range 5 { // the process makes its own transactions, too
			proxy.Next(testkit.LoseCommitResponse)
			in, err := register(t.Context(), fmt.Sprint("user", i))
			if err != nil {
				t.Error(err)
			}
			user = in.Credentials
		}
	})

	t.Run("a lock", func(t *testing.T) {
		const callers = 50
		for jobs, began := 1, time.Now(); jobs > 0; time.Sleep(5 * time.Millisecond) { // they wait for locks, too
			if time.Since(began) > time.Minute {
				t.Fatalf("got %d jobs after a minute, want none", jobs)
			}
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM personal_jobs").Scan(&jobs); err != nil {
				t.Fatal(err)
			}
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(t.Context(), "LOCK TABLE personal_accounts IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		for i := range callers {
			running.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second) // real time: it is to expire
				defer cancel()
				var err error
				switch i % 3 {
				case 0:
					_, err = register(ctx, fmt.Sprint("late", i))
				case 1:
					_, err = service.Authorize(ctx, personal.AuthorizeRequest{Login: "user0", Password: personaltest.Password})
				case 2:
					_, err = service.Refresh(ctx, user)
				}
				if err == nil {
					t.Error("a call got past the lock")
				}
			})
		}
		running.Wait()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	})

	// retry returns how many calls failed before one succeeded.
	retry := func(t *testing.T, login string) (failed int) {
		t.Helper()
		for ; ; failed++ {
			_, err := register(t.Context(), fmt.Sprint(login, failed))
			if err == nil {
				return failed
			}
			if personal.CodeOf(err) != personal.CodeUnavailable {
				t.Fatal(err)
			}
		}
	}
	open := func(t *testing.T) { // connections that are idle then
		t.Helper()
		errs := make([]error, 50)
		var running sync.WaitGroup
		for i := range errs {
			running.Go(func() { _, errs[i] = service.Sessions(t.Context(), user) })
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("a silent failover", func(t *testing.T) {
		open(t)
		proxy.Freeze()
		if failed := retry(t, "silent"); failed > 1 {
			t.Errorf("got %d failed calls, want 1 at most", failed)
		}
	})

	t.Run("a primary that became read-only", func(t *testing.T) {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(u.Path, "/")
		for _, statement := range []string{"SET default_transaction_read_only = on", "RESET default_transaction_read_only"} {
			if _, err := db.ExecContext(t.Context(), "ALTER DATABASE "+name+" "+statement); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(statement, "SET") {
				proxy.Cut()
				time.Sleep(idle) // until the connections are checked
				open(t)
			}
		}
		time.Sleep(idle)
		if failed := retry(t, "readonly"); failed > 2 {
			t.Errorf("got %d failed calls, want 2 at most", failed)
		}
	})
}
