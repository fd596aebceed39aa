package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// secretKey is a made-up secret key.
func secretKey(letter string) []byte { return bytes.Repeat([]byte(letter), seal.KeySize) }

func keyID(t *testing.T, letter string) string {
	t.Helper()
	k, err := seal.New([][]byte{secretKey(letter)})
	if err != nil {
		t.Fatal(err)
	}
	return k.Primary()
}

// storeFactor gives a new account a second factor.
func storeFactor(t *testing.T, db *store.Store, login, key string) {
	t.Helper()
	session := accounts.Session{Created: db.Now(), LastSeen: db.Now()}
	copy(session.Selector[:], login)
	id, err := db.CreateAccount(t.Context(), accounts.Account{LoginKey: login}, session, func(int64) []accounts.NewJob { return nil })
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := db.Sessions(t.Context(), id, accounts.Lifetimes{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := seal.New([][]byte{secretKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	p := accounts.PendingFactor{AccountID: id, SessionID: sessions[0].ID}
	p.Secret.Key, p.Secret.Data = k.Seal(id, []byte("sesame"))
	if err := errors.Join(db.SetPendingFactor(t.Context(), p), db.EnableTwoFactor(t.Context(), p, 1, accounts.NewRecoveryCodes{},
		accounts.KeptSession{Session: sessions[0]})); err != nil {
		t.Fatal(err)
	}
}

func TestModule_EncryptsSecretsWithTheFirstKeyOnceSettled(t *testing.T) {
	c := rpc.Configuration{DatabaseURL: testdb.SQLite(t), SecretKeys: [][]byte{secretKey("b"), secretKey("a")}}
	m := newNode(t, c)
	m.begin(t)
	storeFactor(t, m.store, "ada", "a")
	if err := m.Activate(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := func() string {
		counts, err := m.store.CountSecrets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(counts)
	}
	if got, want := count(), fmt.Sprintf("[{%s 0 true} {%s 1 false}]", keyID(t, "b"), keyID(t, "a")); got != want {
		t.Errorf("before the version is settled: got %s, want %s", got, want)
	}
	if err := m.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for want := fmt.Sprintf("[{%s 1 true}]", keyID(t, "b")); count() != want; {
		select {
		case <-ctx.Done():
			t.Fatalf("got %s, want %s", count(), want)
		case <-time.After(10 * time.Millisecond): // nothing reports it
		}
	}
}

func TestPreflight_WarnsOfMissingSecretKeys(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		preflight := func(c rpc.Configuration) rpc.Check {
			t.Helper()
			c.DatabaseURL = url
			report, err := newNode(t, c).Preflight(t.Context())
			if err != nil || refusal(report) != "" {
				t.Fatalf("got error %v and refusal %q, want neither", err, refusal(report))
			}
			for _, check := range report.Checks {
				if check.Name == "keys" {
					return check
				}
			}
			return rpc.Check{}
		}
		enabled := []byte("[two_factor]\nenabled = true")
		const works = "two_factor.enabled = true works like false without a secret key: give the host one"
		if got := preflight(rpc.Configuration{Settings: enabled}); !got.Warning ||
			got.Reason != works { // on an empty database
			t.Errorf("enabled without a key: got %+v, want the warning %q", got, works)
		}
		m := newNode(t, rpc.Configuration{DatabaseURL: url})
		m.begin(t)
		storeFactor(t, m.store, "ada", "a")
		storeFactor(t, m.store, "bob", "b")
		storeFactor(t, m.store, "cem", "b")
		if got := preflight(rpc.Configuration{Settings: enabled,
			SecretKeys: [][]byte{secretKey("b"), secretKey("a")}}); got != (rpc.Check{}) {
			t.Errorf("with all keys: got %+v, want no warning", got)
		}
		got := preflight(rpc.Configuration{SecretKeys: [][]byte{secretKey("a")}})
		if want := "the secret key " + keyID(t, "b") + " is missing: users whose second factor it encrypts"; !got.Warning ||
			!strings.HasPrefix(got.Reason, want) {
			t.Errorf("with one key: got %+v, want the warning %q", got, want)
		}
		got = preflight(rpc.Configuration{Settings: enabled})
		if n := strings.Count(got.Reason, " is missing: "); n != 2 || !strings.Contains(got.Reason, works) {
			t.Errorf("without a key: got %+v, want three warnings", got)
		}
	})
}

func TestStatus_CountsSecondFactorsByKey(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		m := newNode(t, rpc.Configuration{DatabaseURL: url})
		m.begin(t)
		t.Setenv("PERSONAL_DATABASE", url)
		if out, _ := mustCommand(t, "status"); !strings.HasSuffix(out, "factors   0 accounts with a second factor\n") {
			t.Errorf("without factors: got\n%s", out)
		}
		storeFactor(t, m.store, "ada", "a")
		storeFactor(t, m.store, "bob", "b")
		storeFactor(t, m.store, "cem", "b")
		for letter, n := range map[string]int{"a": 1, "b": 2} {
			const want = "\nfactors   3 accounts with a second factor\n"
			line := fmt.Sprintf("\n          %d encrypted with the secret key %s\n", n, keyID(t, letter))
			if out, _ := mustCommand(t, "status"); !strings.Contains(out, want) || !strings.Contains(out, line) {
				t.Errorf("got\n%s\nwant%sand%s", out, want, line)
			}
		}
	})
}
