package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
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
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
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
		"3D000": true, "28000": true, "28P01": true, "42501": true, "3F000": true,
		"57P03": false, "53300": false, "08006": false, "40001": false, "42P01": false, "": false,
	} {
		err := fmt.Errorf("opening: %w", &store.ServerError{State: state})
		if got := store.SetupProblem(err); (got != "") != want {
			t.Errorf("SQLSTATE %s: got %q, want a problem: %t", state, got, want)
		}
	}
	socket := func(err syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	for _, err := range []error{
		nil, context.DeadlineExceeded, &net.OpError{Op: "dial", Err: errors.New("refused")}, errors.New("3D000"),
		socket(syscall.ENOENT), socket(syscall.EACCES), // of a server that is down
	} {
		if got := store.SetupProblem(err); got != "" {
			t.Errorf("%v: got %q, want none", err, got)
		}
	}
}
