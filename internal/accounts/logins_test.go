package accounts_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// secretKeys returns the keyring of some made-up secret keys, which letters name.
func secretKeys(t *testing.T, letters string) *seal.Keyring {
	t.Helper()
	var keys [][]byte
	for _, letter := range letters {
		keys = append(keys, bytes.Repeat([]byte(string(letter)), seal.KeySize))
	}
	k, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// guessLimited allows three passwords for a login, from all addresses.
func guessLimited(s *accounts.Settings) {
	s.Throttle = accounts.Throttle{Enabled: true, GuessAccount: throttle.Limit{Burst: 3, Every: time.Hour, Name: "guess_account"}}
}

// node is a service of the fixture with other secret keys, as another node or start of the plugin has.
func (f *fixture) node(t *testing.T, letters string) *accounts.Service {
	t.Helper()
	settings := f.settings
	settings.Keys = secretKeys(t, letters)
	s := accounts.New(settings, f.store, mustHasher(t, cheap), f.host, slog.New(slog.DiscardHandler), f.worker.Wake)
	if err := s.ReadKeys(t.Context(), true); err != nil {
		t.Logf("reading the login key: %v", err)
	}
	return s
}

// left returns how many passwords a node takes for a login, up to ten.
func left(t *testing.T, s *accounts.Service, login string) (n int) {
	t.Helper()
	ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("192.0.2.9")})
	for range 10 {
		_, err := s.Authorize(ctx, personal.AuthorizeRequest{Login: login, Password: "wrong"})
		if personal.CodeOf(err) == personal.CodeTooManyAttempts {
			return n
		}
		wantCode(t, err, personal.CodeInvalidCredentials)
		n++
	}
	return n
}

func TestLoginKey_IsSharedKeptAndReplaced(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url, guessLimited)
		if got := left(t, f.node(t, "a"), "Ann@bücher.example"); got != 3 {
			t.Fatalf("got %d passwords, want 3", got)
		}
		if got := left(t, f.node(t, "ab"), "ann@XN--BCHER-KVA.example"); got != 0 {
			t.Errorf("another node: got %d passwords for another spelling, want none", got)
		}
		rotated := f.node(t, "ba")
		if err := rotated.ResealSecrets(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts, err := f.store.CountSecrets(t.Context())
		want := []accounts.SecretCount{{Key: secretKeys(t, "b").Primary(), LoginKey: true}}
		if err != nil || fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("after the rotation: got %v, %v, want %v", counts, err, want)
		}
		for name, s := range map[string]*accounts.Service{"the node that rotates": rotated, "one with the new key alone": f.node(t, "b")} {
			if got := left(t, s, "ann@bücher.example"); got != 0 || !s.HasLoginKey() {
				t.Errorf("%s: got %d passwords, want none", name, got)
			}
		}
		for name, letters := range map[string]string{"without a key": "", "without the right key": "c"} {
			s := f.node(t, letters)
			if got := left(t, s, "ann@bücher.example"); got != 3 || s.HasLoginKey() {
				t.Errorf("%s: got %d passwords, want 3 of its own", name, got)
			}
			if err := s.ResealSecrets(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Who has the database, and not the secret key, cannot test what was typed as login.
func TestLoginKey_TypedTextIsInNoTable(t *testing.T) {
	for _, letters := range []string{"", "a"} {
		f := newFixture(t, testdb.SQLite(t), guessLimited, func(s *accounts.Settings) {
			s.Throttle.Guess = throttle.Limit{Burst: 100, Every: time.Hour, Name: "guess"}
			s.Throttle.RecoverAll = throttle.Limit{Burst: 100, Every: time.Hour, Name: "recover_all"}
		})
		s := f.node(t, letters)
		const typed, mailbox = "hunter2 is my password", "typed@bücher.example"
		left(t, s, typed)
		left(t, s, "seven")
		ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("192.0.2.9")})
		if err := s.Recover(ctx, personal.RecoverRequest{Login: typed, Email: mailbox}); err != nil {
			t.Fatal(err)
		}
		if err := s.ResendVerification(ctx, personal.ResendVerificationRequest{Login: typed}); err != nil {
			t.Fatal(err)
		}
		rows := f.dump(t)
		for _, text := range []string{"hunter2", "typed@"} {
			if strings.Contains(rows, text) {
				t.Errorf("keys %q: the database contains %q", letters, text)
			}
		}
		for _, target := range []string{typed, "seven"} {
			for _, parts := range [][]string{{"guess of", target}, {"guess", "192.0.2.9", target}, {"note", "sign_in_failed", "192.0.2.9", target}} {
				h := sha256.New()
				for _, part := range parts {
					fmt.Fprintf(h, "%d:%s", len(part), part)
				}
				if strings.Contains(rows, fmt.Sprintf("%X", h.Sum(nil))) {
					t.Errorf("keys %q: the database contains the plain SHA-256 of %q", letters, parts)
				}
			}
		}
	}
}

// dump returns the rows of the tables that requests write to, in hexadecimal digits and as they are.
func (f *fixture) dump(t *testing.T) string {
	t.Helper()
	pools, err := dbconn.Open(f.url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	var text strings.Builder
	for _, q := range []string{"SELECT hex(key) FROM personal_throttle", "SELECT CAST(payload AS TEXT) FROM personal_jobs",
		"SELECT type || address || fields FROM personal_audit"} {
		rows, err := pools.Read.QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			text.WriteString(row + "\n")
			var job struct{ Typed []byte }
			if json.Unmarshal([]byte(row), &job) == nil {
				text.Write(job.Typed)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestRecover_WaitingRequestsAreOpenedByNodesThatMay(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		a := f.register(t, "ada").Credentials.UserID
		f.register(t, "bob")
		request := func(s *accounts.Service, login string) {
			t.Helper()
			if err := s.Recover(t.Context(), personal.RecoverRequest{Login: login}); err != nil {
				t.Fatal(err)
			}
		}
		run := func(s *accounts.Service) (failed int) {
			t.Helper()
			jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindRecovery}, N: 10, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				if s.Jobs()[j.Kind](t.Context(), j) != nil {
					failed++
					err = f.store.RetryJob(t.Context(), j, f.clock.Now())
				} else {
					err = f.store.FinishJobs(t.Context(), j)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return failed
		}
		none, one, both := f.node(t, ""), f.node(t, "a"), f.node(t, "ba")
		request(none, "ada")
		request(one, "bob")
		if failed := run(f.node(t, "c")); failed != 1 || len(f.host.Mails()) != 1 {
			t.Errorf("without the right key: got %d failures and %d mails, want one of both", failed, len(f.host.Mails()))
		}
		if err := both.ResealSecrets(t.Context()); err != nil { // a rotation while it waits
			t.Fatal(err)
		}
		if failed := run(f.node(t, "b")); failed != 0 || len(f.host.Mails()) != 2 {
			t.Errorf("after a rotation: got %d failures and %d mails, want 0 and 2", failed, len(f.host.Mails()))
		}
		request(one, "ada")
		request(none, "ada")
		request(one, "eve")
		if err := one.DeleteUser(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if waiting, err := f.store.WaitingRequests(t.Context(), accounts.KindRecovery, 10); err != nil || len(waiting) != 1 {
			t.Errorf("after the deletion: got %d requests, %v, want the one of another", len(waiting), err)
		}
	})
}
