package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// spy is a store that counts calls, and that a test can make fail or act in between.
type spy struct {
	accounts.Store
	touches  int
	charges  int
	findErr  error
	found    func() // called once, after an account was found
	looked   func() // called once, after a session was found
	opened   func() // called once, after a session was stored
	disabled bool   // every account appears disabled
}

func (s *spy) FindAccount(ctx context.Context, q accounts.AccountQuery) (accounts.Account, error) {
	if s.findErr != nil {
		return accounts.Account{}, s.findErr
	}
	a, err := s.Store.FindAccount(ctx, q)
	a.Disabled = a.Disabled || s.disabled
	if found := s.found; found != nil {
		s.found = nil
		found()
	}
	return a, err
}

func (s *spy) FindSession(ctx context.Context, selector token.Selector, part accounts.AccountPart) (accounts.Session, accounts.Account,
	error) {
	session, a, err := s.Store.FindSession(ctx, selector, part)
	a.Disabled = a.Disabled || s.disabled
	if looked := s.looked; looked != nil {
		s.looked = nil
		looked()
	}
	return session, a, err
}

func (s *spy) Charge(ctx context.Context, c []throttle.Charge, now time.Time, jobs ...accounts.NewJob) error {
	s.charges++
	return s.Store.Charge(ctx, c, now, jobs...)
}

func (s *spy) OpenSession(ctx context.Context, o accounts.OpenSession) (accounts.Account, error) {
	a, err := s.Store.OpenSession(ctx, o)
	if opened := s.opened; opened != nil {
		s.opened = nil
		opened()
	}
	return a, err
}

func (s *spy) TouchSession(ctx context.Context, t accounts.SessionTouch) error {
	s.touches++
	return s.Store.TouchSession(ctx, t)
}

// hasher counts calls and lets a test act while a hash is computed.
type hasher struct {
	accounts.Hasher
	verified, dummies int
	while             func()
	hashErr           error
}

func (h *hasher) Hash(ctx context.Context, from password.Source, prepared string) (string, error) {
	if h.hashErr != nil {
		return "", h.hashErr
	}
	return h.Hasher.Hash(ctx, from, prepared)
}

func (h *hasher) Verify(ctx context.Context, from password.Source, encoded, entered string) (password.Result, error) {
	h.verified++
	result, err := h.Hasher.Verify(ctx, from, encoded, entered)
	if while := h.while; while != nil {
		h.while = nil
		while()
	}
	return result, err
}

func (h *hasher) VerifyDummy(ctx context.Context, from password.Source, digest uint32, entered string) error {
	h.dummies++
	return h.Hasher.VerifyDummy(ctx, from, digest, entered)
}

// spied is a fixture whose service uses spies as store and hasher.
func spied(t *testing.T, url string, p password.Params) (*fixture, *spy, *hasher) {
	f := newFixture(t, url)
	s, h := &spy{Store: f.store}, &hasher{Hasher: mustHasher(t, p)}
	f.service = f.serve(s, h)
	return f, s, h
}

func mustHasher(t *testing.T, p password.Params) *password.Hasher {
	t.Helper()
	h, err := password.New(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var cheap = password.Params{MemoryKiB: 8, Time: 1, Threads: 1}

func wantCode(t *testing.T, err error, want personal.Code) {
	t.Helper()
	if got := personal.CodeOf(err); got != want {
		t.Fatalf("got code %q (%v), want %q", got, err, want)
	}
}

func (f *fixture) signIn(login, password string) (personal.SignedIn, error) {
	return f.service.Authorize(context.Background(), personal.AuthorizeRequest{Login: login, Password: password})
}

func (f *fixture) changePassword(t *testing.T, c personal.Credentials, from, to string) personal.Credentials {
	t.Helper()
	fresh, err := f.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: c, OldPassword: from, Password: to, ConfirmPassword: to,
	})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	return fresh
}

const otherPassword = "another fine password"

func TestSignIn_RehashesWhenTheCostsChange(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		weak, _, _ := spied(t, url, cheap)
		strong, _, _ := spied(t, url, password.Params{MemoryKiB: 16, Time: 1, Threads: 1})
		weak.register(t, "ada")
		stored := func() string {
			a, err := weak.store.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			return a.PasswordHash
		}
		for _, f := range []*fixture{strong, weak} { // up, and down
			before := stored()
			if _, err := f.signIn("ada", goodPassword); err != nil {
				t.Fatalf("signing in: %v", err)
			}
			after := stored()
			if after == before {
				t.Fatal("got the hash of the other costs, want a new one")
			}
			if _, err := f.signIn("ada", goodPassword); err != nil || stored() != after {
				t.Fatalf("got another hash, want the one with the right costs (error %v)", err)
			}
		}
	})
}

func TestSignIn_SucceedsWithoutATurnToRehash(t *testing.T) {
	url := testdb.SQLite(t)
	weak, _, _ := spied(t, url, cheap)
	weak.register(t, "ada")
	strong, _, h := spied(t, url, password.Params{MemoryKiB: 16, Time: 1, Threads: 1})
	h.hashErr = password.ErrBusy
	if _, err := strong.signIn("ada", goodPassword); err != nil {
		t.Fatalf("signing in without a turn to rehash: %v", err)
	}
	before, err := strong.store.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	h.hashErr = nil
	if _, err := strong.signIn("ada", goodPassword); err != nil {
		t.Fatal(err)
	}
	after, err := strong.store.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "ada"})
	if err != nil || after.PasswordHash == before.PasswordHash {
		t.Errorf("got the old hash after the next sign-in, want a new one (error %v)", err)
	}
}

func TestSignIn_OutageIsNoWrongPassword(t *testing.T) {
	f, s, h := spied(t, testdb.SQLite(t), cheap)
	f.register(t, "ada")
	for cause, want := range map[error]personal.Code{
		accounts.ErrUnavailable:  personal.CodeUnavailable,
		context.DeadlineExceeded: personal.CodeUnavailable,
		errors.New("disk full"):  personal.CodeInternal,
	} {
		s.findErr = cause
		_, err := f.signIn("ada", goodPassword)
		wantCode(t, err, want)
	}
	if h.dummies != 0 {
		t.Fatal("got a dummy hash during an outage, want none")
	}
}

func TestTheft_RevokesTheSessionAndSendsAnEvent(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.work(t)
		in := f.register(t, "ada")
		other, err := f.signIn("ada", goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		next, err := f.service.Refresh(t.Context(), in.Credentials)
		if err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
		if _, err := f.service.Profile(t.Context(), next); err != nil { // first use of the successor
			t.Fatal(err)
		}
		f.clock.Advance(time.Minute)
		_, err = f.service.Profile(t.Context(), in.Credentials)
		wantCode(t, err, personal.CodeUnauthenticated)
		if e, ok := err.(*personal.Error); !ok || e.UserID != in.Credentials.UserID {
			t.Errorf("got %#v, want the user's id, so that the host forgets what it knows", err)
		}
		_, err = f.service.Profile(t.Context(), next)
		wantCode(t, err, personal.CodeUnauthenticated)
		if _, err := f.service.Profile(t.Context(), other.Credentials); err != nil {
			t.Fatalf("another session: %v", err)
		}
		if e := f.awaitEvent(t, personal.EventSessionTheft); e.UserID != in.Credentials.UserID {
			t.Fatalf("got the event for account %d, want %d", e.UserID, in.Credentials.UserID)
		}
	})
}

// awaitEvent waits for an event of the type; others may arrive, and arrive twice.
func (f *fixture) awaitEvent(t *testing.T, want personal.EventType) personal.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		events, err := f.host.AwaitEvents(ctx, known+1)
		if err != nil {
			t.Fatalf("no event %s: %v", want, err)
		}
		for _, e := range events[known:] {
			if e.Type == want {
				return e
			}
		}
		known = len(events)
	}
}

func TestSession_LastSeenIsStoredOnceAMinute(t *testing.T) {
	f, s, _ := spied(t, testdb.SQLite(t), cheap)
	in := f.register(t, "ada")
	for range 61 {
		if _, err := f.service.Profile(t.Context(), in.Credentials); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
	}
	if s.touches != 2 { // the first use of the hash, and once after a minute
		t.Fatalf("got %d writes in a minute, want 2", s.touches)
	}
}

func TestSignIn_SessionAboveTheLimitReplacesTheLongestUnused(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada")
		for range personal.MaxSessions {
			f.clock.Advance(time.Second)
			if _, err := f.signIn("ada", goodPassword); err != nil {
				t.Fatal(err)
			}
		}
		_, err := f.service.Profile(t.Context(), in.Credentials)
		wantCode(t, err, personal.CodeUnauthenticated)
	})
}

func TestSession_OfADisabledAccountIsRevoked(t *testing.T) {
	f, s, _ := spied(t, testdb.SQLite(t), cheap)
	in := f.register(t, "ada")
	s.disabled = true
	_, err := f.service.Profile(t.Context(), in.Credentials)
	wantCode(t, err, personal.CodeUnauthenticated)
	s.disabled = false
	_, err = f.service.Profile(t.Context(), in.Credentials)
	wantCode(t, err, personal.CodeUnauthenticated)
}

func TestSignIn_LoginThatIsAnotherAccountsEmailIsIgnored(t *testing.T) {
	for name, withEmail := range map[string]bool{"e-mails accepted as logins": true, "e-mails not accepted": false} {
		t.Run(name, func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := newFixture(t, url, func(s *accounts.Settings) { s.LoginWithEmail = withEmail })
				f.register(t, "victim")
				for _, login := range []string{"victim＠example.com", "victim\uFE6Bexample.com", "victim@example.com"} {
					_, err := f.service.Register(t.Context(), personal.RegisterRequest{
						Login: login, Password: otherPassword, ConfirmPassword: otherPassword, Email: "thief@example.com",
					})
					wantCode(t, err, personal.CodeValidationFailed)
				}
				squat(t, f, "victim@example.com")
				_, err := f.signIn("victim@example.com", otherPassword)
				wantCode(t, err, personal.CodeInvalidCredentials)
				want := personal.CodeInvalidCredentials
				if withEmail {
					want = ""
				}
				_, err = f.signIn("victim@example.com", goodPassword)
				wantCode(t, err, want)
			})
		})
	}
}

// squat stores an account with otherPassword whose login is the e-mail of another account.
func squat(t *testing.T, f *fixture, login string) {
	t.Helper()
	hash, err := mustHasher(t, cheap).Hash(t.Context(), password.Source{}, otherPassword)
	if err != nil {
		t.Fatal(err)
	}
	a := accounts.Account{Login: login, LoginKey: login, Email: accounts.Email{Address: "thief@example.com", Key: "thief@example.com"},
		PasswordHash: hash, CredentialVersion: 1, Created: f.clock.Now(), Updated: f.clock.Now()}
	session := accounts.Session{Selector: token.Selector{1}}
	if _, err := f.store.CreateAccount(t.Context(), a, session, func(int64) []accounts.NewJob { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestRegister_ReservedLoginIsTakenInAnyCase(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.register(t, "root") // from before it was reserved
	f.settings.ReservedLogins = []string{"admin", "root"}
	f.service = f.serve(f.store, mustHasher(t, cheap))
	for _, login := range []string{"admin", "ADMIN", "ａｄｍｉｎ"} {
		_, err := f.service.Register(t.Context(), personal.RegisterRequest{
			Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: "a@example.com",
		})
		wantCode(t, err, personal.CodeAlreadyExists)
	}
	f.register(t, "admins")
	if _, err := f.signIn("root", goodPassword); err != nil {
		t.Errorf("signing in with a login that was reserved later: %v", err)
	}
}

// What finds no hash does the same work as what finds one, in every operation that verifies a password.
func TestSignIn_WithoutAHashDoesTheWorkOfAClass(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	h := mustHasher(t, cheap)
	f.service = f.serve(f.store, h)
	in, none := f.register(t, "ada"), f.register(t, "none")
	f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET password_hash = '!' WHERE id = %d", none.Credentials.UserID))
	var work []string
	h.ObserveWork(func(class string, length int) { work = append(work, fmt.Sprint(length, " ", class)) })
	done := func(f func() error) string {
		t.Helper()
		work = nil
		if err := f(); err == nil {
			t.Error("got a success")
		}
		return fmt.Sprint(work)
	}
	change := func(c personal.Credentials, entered string) func() error {
		return func() error {
			_, err := f.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
				Credentials: c, OldPassword: entered, Password: otherPassword, ConfirmPassword: otherPassword})
			return err
		}
	}
	signIn := func(login, entered string) func() error {
		return func() error { _, err := f.signIn(login, entered); return err }
	}
	for _, hash := range []string{
		"", // that of new ones
		"$2y$04$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy",
		"$waits$$digest$md5(p)$$3cb4e732631f47e6eb961f34554b7cde",
		"$argon2id$v=19$m=16,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
	} {
		if hash != "" {
			class, _ := h.Class(hash)
			h.SetClasses([]password.Interval{{Class: class, Width: password.Space, Laid: password.Space}})
			f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET password_hash = '%s' WHERE id = %d", hash, in.Credentials.UserID))
		}
		for _, entered := range []string{"wrong", "cafe\u0301", "a\ttab", " it's €"} {
			want := done(signIn("ada", entered))
			if want == "[]" {
				t.Errorf("%q: got no work", hash)
			}
			for name, call := range map[string]func() error{
				"an unknown login":                         signIn("eve", entered),
				"an unknown e-mail":                        signIn("eve@example.com", entered),
				"what is no login":                         signIn("a b", entered),
				"an account without a password":            signIn("none", entered),
				"its e-mail":                               signIn("none@example.com", entered),
				"a change of a password":                   change(in.Credentials, entered),
				"a change of the password that is missing": change(none.Credentials, entered),
			} {
				if got := done(call); got != want {
					t.Errorf("%.10q, entered %q, %s: got the work %s, known %s", hash, entered, name, got, want)
				}
			}
		}
	}
}
