package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// guarded is a fixture with limits like the defaults that counts its hashes.
func guarded(t *testing.T, url string) (*fixture, *hasher) {
	f, s, h := spied(t, url, cheap)
	f.settings.Throttle = accounts.Throttle{
		Enabled:         true,
		Guess:           throttle.Limit{Burst: 14, Every: time.Minute},
		GuessAddress:    throttle.Limit{Burst: 100, Every: 5 * time.Second},
		GuessAccount:    throttle.Limit{Burst: 50, Every: 15 * time.Minute},
		SignInAddress:   throttle.Limit{Burst: 100, Every: time.Second},
		SignInAccount:   throttle.Limit{Burst: 60, Every: 5 * time.Second},
		SessionWrites:   throttle.Limit{Burst: 60, Every: time.Second},
		Register:        throttle.Limit{Burst: 2, Every: time.Minute},
		RegisterInvalid: throttle.Limit{Burst: 5, Every: time.Minute},
		TakenEmail:      throttle.Limit{Burst: 3, Every: time.Minute},
		Recover:         throttle.Limit{Burst: 2, Every: time.Minute},
		RecoverAll:      throttle.Limit{Burst: 20, Every: time.Second},
		Confirm:         throttle.Limit{Burst: 2, Every: time.Minute},
	}
	f.service = f.serve(s, h)
	f.worker.Handlers = f.service.Jobs()
	return f, h
}

// at is the context of a call from an address.
func at(t *testing.T, address string) context.Context {
	return personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr(address)})
}

// try signs in from an address and returns the code.
func (f *fixture) try(t *testing.T, address, login, password string) personal.Code {
	_, err := f.service.Authorize(at(t, address), personal.AuthorizeRequest{Login: login, Password: password})
	return personal.CodeOf(err)
}

func (f *fixture) wantTry(t *testing.T, address, login, password string, want personal.Code) {
	t.Helper()
	if got := f.try(t, address, login, password); got != want {
		t.Fatalf("%s from %s: got code %q, want %q", login, address, got, want)
	}
}

// guessFromEverywhere guesses from a hundred addresses and returns how many
// guesses were verified.
func (f *fixture) guessFromEverywhere(t *testing.T, login string) (verified int) {
	for i := range 100 {
		if f.try(t, fmt.Sprintf("198.51.100.%d", i), login, otherPassword) == personal.CodeInvalidCredentials {
			verified++
		}
	}
	return verified
}

func TestGuesses_KnownAddressIsNotLockedOut(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.register(t, "ada")
		f.wantTry(t, "2001:db8:1:2::1", "ada@example.com", goodPassword, "")
		known := f.guessFromEverywhere(t, "ada")
		if unknown := f.guessFromEverywhere(t, "nobody"); known != 50 || unknown != 50 {
			t.Fatalf("got %d verified guesses for an account and %d for an unknown login, want 50 each", known, unknown)
		}
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
		f.wantTry(t, "2001:db8:1:2:ffff::9", "ada", goodPassword, "") // in the same network
		f.wantTry(t, "2001:db8:1:2::1", "nobody", goodPassword, personal.CodeTooManyAttempts)
		// The limit by login and address holds there, too.
		for range 14 {
			f.wantTry(t, "2001:db8:1:2::1", "ada", otherPassword, personal.CodeInvalidCredentials)
		}
		f.wantTry(t, "2001:db8:1:2::1", "ada", goodPassword, personal.CodeTooManyAttempts)
		f.clock.Advance(15 * time.Minute)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
	})
}

func TestKnownAddresses_AreForgottenAfter90Days(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.register(t, "ada")
	for _, step := range []struct {
		time time.Duration
		want personal.Code
	}{{89 * 24 * time.Hour, ""}, {90*24*time.Hour + time.Second, personal.CodeTooManyAttempts}} {
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
		f.clock.Advance(step.time)
		f.guessFromEverywhere(t, "ada")
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, step.want)
	}
}

// Addresses are stored at sign-in only.
func TestKnownAddressLifetime_ExceedsTheSession(t *testing.T) {
	for _, absolute := range []time.Duration{time.Hour, 720 * time.Hour, 365 * 24 * time.Hour} {
		s := accounts.Settings{SessionAbsolute: absolute}
		if s.KnownAddressLifetime() < 2*absolute || s.KnownAddressLifetime() < 90*24*time.Hour {
			t.Errorf("sessions of %v: got an address lifetime of %v, want twice as long and 90 days or more", absolute, s.KnownAddressLifetime())
		}
	}
}

func TestGuesses_SuccessRefundsItsLoginAndAddressOnly(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.register(t, "ada")
		f.register(t, "bob")
		guess := func(address, login string, times int) {
			t.Helper()
			for range times {
				f.wantTry(t, address, login, otherPassword, personal.CodeInvalidCredentials)
			}
		}
		guess("203.0.113.1", "ada", 13)
		guess("203.0.113.1", "bob", 14)
		guess("203.0.113.2", "ada", 14)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
		guess("203.0.113.1", "ada", 14)
		for _, c := range [][2]string{{"203.0.113.1", "ada"}, {"203.0.113.1", "bob"}, {"203.0.113.2", "ada"}} {
			f.wantTry(t, c[0], c[1], goodPassword, personal.CodeTooManyAttempts)
		}
	})
}

// It makes more requests than guesses are allowed.
func TestGuesses_OtherErrorsAreNotCharged(t *testing.T) {
	for name, test := range map[string]struct {
		call   func(context.Context, *fixture, personal.Credentials) error
		want   personal.Code
		writes bool // charged first, and refunded when the password is right
	}{
		"a sign-in without a password": {func(ctx context.Context, f *fixture, _ personal.Credentials) error {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada"})
			return err
		}, personal.CodeValidationFailed, false},
		"a sign-in without a login": {func(ctx context.Context, f *fixture, _ personal.Credentials) error {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Password: otherPassword})
			return err
		}, personal.CodeValidationFailed, false},
		"a new password without the old one": {func(ctx context.Context, f *fixture, c personal.Credentials) error {
			_, err := f.service.ChangePassword(ctx, personal.ChangePasswordRequest{Credentials: c})
			return err
		}, personal.CodeValidationFailed, false},
		"a new password without an identity": {func(ctx context.Context, f *fixture, _ personal.Credentials) error {
			_, err := f.service.ChangePassword(ctx, personal.ChangePasswordRequest{OldPassword: otherPassword})
			return err
		}, personal.CodeUnauthenticated, false},
		"a weak password beside the right old one": {func(ctx context.Context, f *fixture, c personal.Credentials) error {
			_, err := f.service.ChangePassword(ctx, personal.ChangePasswordRequest{Credentials: c, OldPassword: goodPassword})
			return err
		}, personal.CodeValidationFailed, true},
		"a new e-mail without a password": {func(ctx context.Context, f *fixture, c personal.Credentials) error {
			return f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Email: "new@example.com"})
		}, personal.CodeValidationFailed, false},
		"no e-mail beside the correct password": {func(ctx context.Context, f *fixture, c personal.Credentials) error {
			return f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: goodPassword})
		}, personal.CodeValidationFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := guarded(t, testdb.SQLite(t))
			s := &spy{Store: f.store}
			f.service = f.serve(s, h)
			c := f.register(t, "ada").Credentials
			before := s.charges
			for range 20 {
				wantCode(t, test.call(at(t, "203.0.113.1"), f, c), test.want)
			}
			if wrote := s.charges > before; wrote != test.writes {
				t.Errorf("got %d charges, want some: %t", s.charges-before, test.writes)
			}
			for range 14 {
				f.wantTry(t, "203.0.113.1", "ada", otherPassword, personal.CodeInvalidCredentials)
			}
			f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
			f.wantTry(t, "203.0.113.1", "ada", "", personal.CodeTooManyAttempts)
		})
	}
}

func TestChangeEmail_SuppressedMailChangesNoResponse(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	c := f.register(t, "ada").Credentials
	for range 20 {
		wantCode(t, f.service.ChangeEmail(at(t, "203.0.113.1"), personal.ChangeEmailRequest{
			Credentials: c, Password: goodPassword, Email: "new@example.com",
		}), "")
		f.drain(t)
	}
	if got := f.recipients(); len(got) != 2 {
		t.Errorf("got mails to %v, want two", got)
	}
	for range 14 { // the correct passwords were refunded
		f.wantTry(t, "203.0.113.1", "ada", otherPassword, personal.CodeInvalidCredentials)
	}
}

// The caller hangs up while their password is hashed, or before the response.
func TestSignIn_CanceledCallIsCountedLikeAnyOther(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		id := f.register(t, "ada").Credentials.UserID
		s := &spy{Store: f.store}
		f.service = f.serve(s, h)
		cutOff := func(when *func(), password string) {
			ctx, cancel := context.WithCancel(at(t, "203.0.113.1"))
			*when = cancel
			f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: password})
			if ctx.Err() == nil {
				t.Fatal("the call was not canceled")
			}
		}
		for range 20 { // correct passwords are refunded
			cutOff(&h.while, goodPassword)
		}
		cutOff(&h.while, otherPassword)
		f.drain(t)
		sent := slices.ContainsFunc(f.host.Events(), func(e personal.Event) bool {
			return e.Type == personal.EventSignInFailed && e.UserID == id
		})
		if !sent {
			t.Error("got no sign_in_failed event, want one")
		}
		cutOff(&s.opened, goodPassword)
		f.guessFromEverywhere(t, "ada")
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "") // the address is known
	})
}

// Behind a proxy that is not configured as trusted, all callers have one address; on
// a unix socket they have none.
func TestGuesses_SharedOrUnknownAddressIsNotLockedOut(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.register(t, "ada")
	for name, call := range map[string]personal.Call{
		"a shared address": {Address: netip.MustParseAddr("10.0.0.1"), Shared: true},
		"a shared socket":  {Shared: true},
		"none":             {},
	} {
		ctx := personal.WithCall(t.Context(), call)
		for i := range 250 {
			login := fmt.Sprintf("%s %d", name, i)
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: login, Password: otherPassword})
			wantCode(t, err, personal.CodeInvalidCredentials)
		}
		for range 5 {
			wantCode(t, f.service.Recover(ctx, personal.RecoverRequest{Login: "nobody"}), "")
		}
		for range 14 {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: otherPassword})
			wantCode(t, err, personal.CodeInvalidCredentials)
		}
		_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: goodPassword})
		wantCode(t, err, personal.CodeTooManyAttempts)
		f.clock.Advance(15 * time.Minute) // two of the three calls share a source
	}
}

func TestLimits_SharedAddressIsTenTimesAsWide(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	for name, call := range map[string]personal.Call{
		"an address": {Address: netip.MustParseAddr("10.0.0.1"), Shared: true},
		"a socket":   {Shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := personal.WithCall(t.Context(), call)
			confirm := func() personal.Code {
				_, err := f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{})
				return personal.CodeOf(err)
			}
			for i := range 20 { // the limit is 2, and one a minute
				if got := confirm(); got != personal.CodeValidationFailed {
					t.Fatalf("attempt %d: got code %q, want validation_failed", i+1, got)
				}
			}
			if got := confirm(); got != personal.CodeTooManyAttempts {
				t.Errorf("attempt 21: got code %q, want too_many_attempts", got)
			}
			f.clock.Advance(6 * time.Second)
			if got := confirm(); got != personal.CodeValidationFailed {
				t.Errorf("after six seconds: got code %q, want validation_failed", got)
			}
		})
	}
}

func TestRecover_WaitingRequestsAreLimited(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	for i := range 30 {
		want := personal.Code("")
		if i >= 20 {
			want = personal.CodeTooManyAttempts
		}
		err := f.service.Recover(at(t, fmt.Sprintf("2001:db8:0:%x::1", i)), personal.RecoverRequest{Login: "ada"})
		wantCode(t, err, want)
	}
}

// The limit is on waiting recoveries, whatever their outcome.
func TestRecover_DoneRequestsAreRefunded(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.register(t, "ada")
		from := 0
		ask := func(r personal.RecoverRequest, want personal.Code) {
			t.Helper()
			from++
			wantCode(t, f.service.Recover(at(t, fmt.Sprintf("2001:db8:%x::1", from)), r), want)
		}
		for range 30 {
			ask(personal.RecoverRequest{Login: "ada"}, "")
			ask(personal.RecoverRequest{Login: "nobody"}, "")
			ask(personal.RecoverRequest{Email: "no address"}, personal.CodeValidationFailed)
			f.drain(t)
		}
		if n := len(f.host.Mails()); n != 2 {
			t.Fatalf("got %d mails, want 2", n)
		}
		// A failed one still waits: the clock does not move, so it is not retried.
		f.register(t, "bob")
		f.host.SendMailFunc = func(context.Context, personal.Mail) error { return errors.New("not now") }
		for range 20 {
			ask(personal.RecoverRequest{Login: "bob"}, "")
		}
		ask(personal.RecoverRequest{Login: "nobody"}, personal.CodeTooManyAttempts)
		f.drain(t) // two mails are reserved, and fail; the limit allows no others
		for range 18 {
			ask(personal.RecoverRequest{Login: "nobody"}, "")
		}
		ask(personal.RecoverRequest{Login: "nobody"}, personal.CodeTooManyAttempts)
	})
}

func TestLimits_MailOperationsPerAddress(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	for name, ask := range map[string]func(context.Context) error{
		"recover": func(ctx context.Context) error { return f.service.Recover(ctx, personal.RecoverRequest{}) },
		"recover_confirm": func(ctx context.Context) error {
			_, err := f.service.RecoverConfirm(ctx, personal.RecoverConfirmRequest{})
			return err
		},
		"email_confirm": func(ctx context.Context) error {
			_, err := f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.clock.Advance(time.Hour)
			wantCode(t, ask(at(t, "203.0.113.1")), personal.CodeValidationFailed)
			wantCode(t, ask(at(t, "203.0.113.1")), personal.CodeValidationFailed)
			wantCode(t, ask(at(t, "203.0.113.1")), personal.CodeTooManyAttempts)
			wantCode(t, ask(at(t, "203.0.113.2")), personal.CodeValidationFailed)
		})
	}
}

// threeGuesses allows three guesses for one login from one address.
func threeGuesses(s *accounts.Settings) {
	s.Throttle = accounts.Throttle{
		Enabled:      true,
		Guess:        throttle.Limit{Burst: 3, Every: time.Minute},
		GuessAddress: throttle.Limit{Burst: 100, Every: time.Second},
		Register:     throttle.Limit{Burst: 100, Every: time.Second},
		TakenEmail:   throttle.Limit{Burst: 3, Every: time.Minute},
	}
}

func TestGuesses_AreLimitedByLoginAndAddress(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url, threeGuesses)
		in := f.register(t, "ada")
		from := func(address string) context.Context {
			return personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr(address)})
		}
		guess := func(ctx context.Context, login, password string) personal.Code {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: login, Password: password})
			return personal.CodeOf(err)
		}
		attacker, owner := from("203.0.113.1"), from("203.0.113.2")
		for range 10 { // correct passwords cost nothing
			if code := guess(attacker, "ada", goodPassword); code != "" {
				t.Fatalf("a correct password: got code %q, want success", code)
			}
		}
		verified := 0
		for i := range 10 {
			login := []string{"ada", "ADA", "Ada"}[i%3] // the same login
			if guess(attacker, login, otherPassword) == personal.CodeInvalidCredentials {
				verified++
			}
		}
		if verified != 3 {
			t.Fatalf("got %d verified guesses, want 3", verified)
		}
		if code := guess(attacker, "ada", goodPassword); code != personal.CodeTooManyAttempts {
			t.Fatalf("the correct password after too many wrong ones: got code %q, want too_many_attempts", code)
		}
		if code := guess(owner, "ada", goodPassword); code != "" {
			t.Fatalf("the correct password from another address: got code %q, want success", code)
		}
		_, err := f.service.ChangePassword(attacker, personal.ChangePasswordRequest{Credentials: in.Credentials, OldPassword: goodPassword})
		wantCode(t, err, personal.CodeTooManyAttempts) // every way to guess counts towards the same limit
		var e *personal.Error
		if !errors.As(err, &e) || e.RetryAfter <= 0 {
			t.Fatalf("got error %v, want a wait", err)
		}
		f.clock.Advance(e.RetryAfter)
		if code := guess(attacker, "ada", goodPassword); code != "" {
			t.Fatalf("after the wait: got code %q, want success", code)
		}
	})
}

// Counting must not reveal whose e-mail it is: a login and an e-mail are counted
// apart, whether or not they belong to the same account.
func TestGuesses_LoginAndEmailAreCountedApart(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), threeGuesses)
	f.register(t, "ada")
	for _, login := range []string{"ada", "bob"} { // bob has no account
		var codes []personal.Code
		for i := range 8 {
			_, err := f.signIn([]string{login, login + "@example.com"}[i/4], otherPassword)
			codes = append(codes, personal.CodeOf(err))
		}
		wrong, many := personal.CodeInvalidCredentials, personal.CodeTooManyAttempts
		if want := []personal.Code{wrong, wrong, wrong, many, wrong, wrong, wrong, many}; !slices.Equal(codes, want) {
			t.Errorf("%s: got %v, want %v", login, codes, want)
		}
	}
}

func TestGuesses_OutageIsRefunded(t *testing.T) {
	f, s, _ := spied(t, testdb.SQLite(t), cheap)
	f.settings.Throttle = accounts.Throttle{
		Enabled:      true,
		Guess:        throttle.Limit{Burst: 1, Every: time.Hour},
		GuessAddress: throttle.Limit{Burst: 1, Every: time.Hour},
		Register:     throttle.Limit{Burst: 1, Every: time.Hour},
	}
	f.service = f.serve(s, &hasher{Hasher: mustHasher(t, cheap)})
	f.register(t, "ada")
	s.findErr = accounts.ErrUnavailable
	for range 3 {
		_, err := f.signIn("ada", goodPassword)
		wantCode(t, err, personal.CodeUnavailable)
	}
	s.findErr = nil
	if _, err := f.signIn("ada", goodPassword); err != nil {
		t.Fatalf("after the outage: %v", err)
	}
}
