package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/userfields"
)

const secret = "s3cret"

func TestErrors_HoldNoValues(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		session := accounts.Session{Address: secret}
		a := accounts.Account{LoginKey: secret, Email: accounts.Email{Key: secret}, Fields: userfields.Values{"a": secret}}
		none := func(int64) []accounts.NewJob { return nil }
		if _, err := s.CreateAccount(t.Context(), a, session, none); err != nil {
			t.Fatal(err)
		}
		// The same selector violates a constraint for which there has no own error.
		a.LoginKey, a.Email.Key = "b"+secret, "b"+secret
		_, err := s.CreateAccount(t.Context(), a, session, none)
		var taken *accounts.TakenError
		if err == nil || errors.As(err, &taken) {
			t.Fatalf("got error %v, want another than *TakenError", err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("got %q, want no value in it", err)
		}
	})
}

func TestOpen_UnreachableServerErrorHasNoPassword(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), "postgres://u:"+secret+"@"+address+"/db", store.Options{})
	if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "open the database") {
		t.Errorf("got error %v", err)
	}
}

func TestOpen_SilentServerTimesOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // real time: it is to expire
	defer cancel()
	_, err = store.Open(ctx, "postgres://u@"+l.Addr().String()+"/db", store.Options{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v", err)
	}
}

func TestErrors_ContextErrorIsKept(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.FindAccount(ctx, accounts.AccountQuery{LoginKey: "a"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a query: got %v, want context.Canceled", err)
		}
		if err := s.RevokeSessions(ctx, 1, false); !errors.Is(err, context.Canceled) {
			t.Errorf("a transaction: got %v, want context.Canceled", err)
		}
		if err := s.Health(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestClose_LaterCallsFail(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := s.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "a"})
		if err == nil || errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestErrors_OutageIsUnavailable(t *testing.T) {
	_, err := store.Open(t.Context(), "postgres://u@127.0.0.1:1/db", store.Options{})
	if !errors.Is(err, accounts.ErrUnavailable) {
		t.Errorf("without a server: got %v, want ErrUnavailable", err)
	}
	testkit.Databases(t, func(t *testing.T, url string) {
		s, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Health(t.Context()); err == nil || errors.Is(err, accounts.ErrUnavailable) {
			t.Errorf("without a table: got %v, want an error other than ErrUnavailable", err)
		}
	})
}

func TestSetupProblem_OnlyWhatDoesNotPass(t *testing.T) {
	for state, want := range map[string]bool{
		"42501": true, "3F000": true,
		"57P03": false, "53300": false, "08006": false, "40001": false, "42P01": false, "": false,
	} {
		err := fmt.Errorf("opening: %w", &store.ServerError{State: state})
		if got := store.SetupProblem(err); (got != "") != want {
			t.Errorf("SQLSTATE %s: got %q, want a problem: %t", state, got, want)
		}
	}
	lite := func(url, statement string) error {
		p, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		_, err = p.Read.ExecContext(t.Context(), statement)
		return err
	}
	damaged := testdb.SQLite(t)
	if err := damage(strings.TrimPrefix(damaged, "sqlite://")); err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"sslmode":                         &dbconn.SetupError{Problem: "write sslmode"},
		"cannot be written":               &fs.PathError{Op: "open", Err: syscall.EROFS},
		"folder of the database file":     &fs.PathError{Op: "open", Err: syscall.ENOTDIR},
		"mount its file system for writ":  lite(testkit.SQLite(t), "CREATE TABLE a (b)"), // as on a read-only file system
		"the database file is damaged: r": lite(damaged, "SELECT * FROM personal_accounts"),
	} {
		if got := store.SetupProblem(fmt.Errorf("opening: %w", err)); !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	socket := func(err syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	for _, err := range []error{
		nil, context.DeadlineExceeded, &fs.PathError{Op: "open", Err: syscall.ENOSPC}, &net.OpError{Op: "dial", Err: errors.New("refused")}, errors.New("3D000"),
		socket(syscall.ENOENT), socket(syscall.EACCES), // of a server that is down
	} {
		if got := store.SetupProblem(err); got != "" {
			t.Errorf("%v: got %q, want none", err, got)
		}
	}
}

// damage overwrites all pages of a database file but the first.
func damage(path string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i := range file[4096:] {
		file[4096+i] = 0xff
	}
	return os.WriteFile(path, file, 0o600)
}

// TestMigrate_SetupThatCannotWork has settings with which no table can be created.
func TestMigrate_SetupThatCannotWork(t *testing.T) {
	for set, want := range map[string]string{
		"default_transaction_read_only = on": "RESET default_transaction_read_only",
		"search_path = none":                 "RESET search_path",
	} {
		t.Run(set, func(t *testing.T) {
			url := testkit.Postgres(t)
			alter(t, url, set)
			err := open(t, url, store.Options{}).Migrate(t.Context())
			if got := store.SetupProblem(err); !strings.Contains(got, want) {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
}

// alter sets something for all connections to a database that come later.
func alter(t *testing.T, url string, settings ...string) {
	t.Helper()
	for _, set := range settings {
		if _, err := pools(t, url).Write.ExecContext(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+
			strings.ReplaceAll(set, "'", "''")+`', current_database()); END $$`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrors_TooManyConnectionsSaysWhatToRaise(t *testing.T) {
	url := testkit.Postgres(t)
	db := pools(t, url).Write
	role := "personal_limited_" + strings.ToLower(rand.Text())
	if _, err := db.ExecContext(t.Context(), "CREATE ROLE "+role+" LOGIN CONNECTION LIMIT 0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pools(t, url).Write.Exec("DROP ROLE " + role) })
	_, err := store.Open(t.Context(), strings.Replace(url, "//postgres@", "//"+role+"@", 1), store.Options{})
	if !errors.Is(err, accounts.ErrUnavailable) || !strings.Contains(err.Error(), "CONNECTION LIMIT -1") || store.SetupProblem(err) != "" {
		t.Errorf("got %v, want ErrUnavailable with what to raise, and no problem of setup", err)
	}
}
