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
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// guarded is a fixture with limits like the defaults, which counts its hashes.
func guarded(t *testing.T, url string) (*fixture, *hasher) {
	f, s, h := spied(t, url, cheap)
	f.settings.Throttle = accounts.Throttle{
		Enabled:       true,
		Guess:         throttle.Limit{Burst: 14, Every: time.Minute},
		GuessAddress:  throttle.Limit{Burst: 100, Every: 5 * time.Second},
		GuessAccount:  throttle.Limit{Burst: 50, Every: 15 * time.Minute},
		SignInAddress: throttle.Limit{Burst: 100, Every: time.Second},
		SignInAccount: throttle.Limit{Burst: 60, Every: 5 * time.Second},
		SessionWrites: throttle.Limit{Burst: 60, Every: time.Second},
		Register:      throttle.Limit{Burst: 2, Every: time.Minute},
		TakenEmail:    throttle.Limit{Burst: 3, Every: time.Minute},
		Recover:       throttle.Limit{Burst: 2, Every: time.Minute},
		RecoverAll:    throttle.Limit{Burst: 20, Every: time.Second},
		Confirm:       throttle.Limit{Burst: 2, Every: time.Minute},
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
		t.Fatalf("%s from %s is answered %q, want %q", login, address, got, want)
	}
}

func TestOf300GuessesByEveryNameOfAnAccountAtMost30AreHashed(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.register(t, "ada")
		for i := range 300 {
			f.try(t, "203.0.113.1", []string{"ada", "ADA", "ada@example.com", "Ada@Example.com"}[i%4], otherPassword)
			f.clock.Advance(100 * time.Millisecond)
		}
		if n := h.verified + h.dummies; n > 30 || n < 20 {
			t.Errorf("%d guesses were judged, want 30 at most", n)
		}
		before := h.verified
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
		if h.verified != before {
			t.Error("a refused attempt was hashed")
		}
		f.wantTry(t, "203.0.113.2", "ada", goodPassword, "")
	})
}

// guessFromEverywhere guesses from a hundred addresses and returns how many
// guesses were judged.
func (f *fixture) guessFromEverywhere(t *testing.T, login string) (judged int) {
	for i := range 100 {
		if f.try(t, fmt.Sprintf("198.51.100.%d", i), login, otherPassword) == personal.CodeInvalidCredentials {
			judged++
		}
	}
	return judged
}

func TestGuessesFromManyAddressesLockNobodyOutWhereHeHasBeen(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.register(t, "ada")
		f.wantTry(t, "2001:db8:1:2::1", "ada@example.com", goodPassword, "")
		known := f.guessFromEverywhere(t, "ada")
		if unknown := f.guessFromEverywhere(t, "nobody"); known != 50 || unknown != 50 {
			t.Fatalf("of a known account %d guesses were judged, of an unknown one %d, want 50", known, unknown)
		}
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
		f.wantTry(t, "2001:db8:1:2:ffff::9", "ada", goodPassword, "") // of the same network
		f.wantTry(t, "2001:db8:1:2::1", "nobody", goodPassword, personal.CodeTooManyAttempts)
		// There, too, the limit per account and address is in force.
		for range 14 {
			f.wantTry(t, "2001:db8:1:2::1", "ada", otherPassword, personal.CodeInvalidCredentials)
		}
		f.wantTry(t, "2001:db8:1:2::1", "ada", goodPassword, personal.CodeTooManyAttempts)
		f.clock.Advance(15 * time.Minute)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
	})
}

func TestAPlaceIsForgottenAfterThreeMonths(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	f.register(t, "ada")
	for _, stay := range []struct {
		time time.Duration
		want personal.Code
	}{{89 * 24 * time.Hour, ""}, {90*24*time.Hour + time.Second, personal.CodeTooManyAttempts}} {
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
		f.clock.Advance(stay.time)
		f.guessFromEverywhere(t, "ada")
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, stay.want)
	}
}

// TestAPlaceIsKnownWhenALongSessionEndsThere: places are noted at sign-in alone.
func TestAPlaceIsKnownWhenALongSessionEndsThere(t *testing.T) {
	for _, absolute := range []time.Duration{time.Hour, 720 * time.Hour, 365 * 24 * time.Hour} {
		s := accounts.Settings{SessionAbsolute: absolute}
		if s.KnownAddressLifetime() < 2*absolute || s.KnownAddressLifetime() < 90*24*time.Hour {
			t.Errorf("a session of %v: a place is known for %v", absolute, s.KnownAddressLifetime())
		}
	}
}

func TestOfManyPlacesTheLongestUnseenIsForgotten(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.register(t, "ada")
		for i := range accounts.MaxKnownAddresses + 1 {
			f.wantTry(t, fmt.Sprintf("203.0.113.%d", i), "ada", goodPassword, "")
			f.clock.Advance(time.Minute)
		}
		f.guessFromEverywhere(t, "ada")
		f.wantTry(t, "203.0.113.0", "ada", goodPassword, personal.CodeTooManyAttempts)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
	})
}

func TestARecoveryLetsItsOwnerInWhoeverGuesses(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	f.register(t, "ada")
	f.guessFromEverywhere(t, "ada")
	if err := f.service.Recover(t.Context(), personal.RecoverRequest{Login: "ada"}); err != nil {
		t.Fatal(err)
	}
	f.drain(t)
	err := f.service.RecoverConfirm(at(t, "203.0.113.5"), personal.RecoverConfirmRequest{
		Token: f.tokens()[0], Password: otherPassword, ConfirmPassword: otherPassword,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.wantTry(t, "203.0.113.5", "ada", otherPassword, "")
}

func TestASuccessClearsItsOwnAccountAndAddressAlone(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
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

// TestWhatIsNoWrongGuessCostsNothing asks more often than guesses are allowed.
func TestWhatIsNoWrongGuessCostsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		ask    func(context.Context, *fixture, personal.Credentials) error
		want   personal.Code
		writes bool // is charged, until the password was found right
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
		"no e-mail beside the right password": {func(ctx context.Context, f *fixture, c personal.Credentials) error {
			return f.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: goodPassword})
		}, personal.CodeValidationFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := guarded(t, testkit.SQLite(t))
			s := &spy{Store: f.store}
			f.service = f.serve(s, h)
			c := f.register(t, "ada").Credentials
			before := s.charges
			for range 20 {
				wantCode(t, test.ask(at(t, "203.0.113.1"), f, c), test.want)
			}
			if wrote := s.charges > before; wrote != test.writes {
				t.Errorf("%d charges", s.charges-before)
			}
			for range 14 {
				f.wantTry(t, "203.0.113.1", "ada", otherPassword, personal.CodeInvalidCredentials)
			}
			f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
			f.wantTry(t, "203.0.113.1", "ada", "", personal.CodeTooManyAttempts)
		})
	}
}

func TestAnEmailForWhichThereIsNoMailNowCostsNoGuess(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	c := f.register(t, "ada").Credentials
	ask := func() error {
		return f.service.ChangeEmail(at(t, "203.0.113.1"), personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: "new@example.com"})
	}
	wantCode(t, ask(), "")
	for range 20 {
		wantCode(t, ask(), personal.CodeTooManyAttempts)
	}
	for range 14 {
		f.wantTry(t, "203.0.113.1", "ada", otherPassword, personal.CodeInvalidCredentials)
	}
}

func TestWhereSomebodyRegisteredHeIsKnown(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	_, err := f.service.Register(at(t, "203.0.113.1"), personal.RegisterRequest{
		Login: "ada", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada@example.com",
	})
	wantCode(t, err, "")
	f.guessFromEverywhere(t, "ada")
	f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
}

// TestWhoHangsUpIsCountedLikeWhoWaits lets the caller go away while his password
// is hashed, or before he is answered.
func TestWhoHangsUpIsCountedLikeWhoWaits(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		id := f.register(t, "ada").Credentials.UserID
		s := &spy{Store: f.store}
		f.service = f.serve(s, h)
		cutOff := func(when *func(), password string) {
			ctx, cancel := context.WithCancel(at(t, "203.0.113.1"))
			*when = cancel
			f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: password})
			if ctx.Err() == nil {
				t.Fatal("the caller is still there")
			}
		}
		for range 20 { // right ones are given back
			cutOff(&h.while, goodPassword)
		}
		cutOff(&h.while, otherPassword)
		f.drain(t)
		told := slices.ContainsFunc(f.host.Events(), func(e personal.Event) bool {
			return e.Type == personal.EventSignInFailed && e.UserID == id
		})
		if !told {
			t.Error("a failure was not told")
		}
		cutOff(&s.opened, goodPassword)
		f.guessFromEverywhere(t, "ada")
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "") // the place was remembered
	})
}

// TestWhereTheAddressTellsNothingNobodyIsLockedOutByIt: a proxy that nobody has
// listed is the address of everybody, and a unix socket has none.
func TestWhereTheAddressTellsNothingNobodyIsLockedOutByIt(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
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
		f.clock.Advance(15 * time.Minute) // two of them have no address to be told by
	}
}

func TestAddressesThatAreOneCustomersShareALimit(t *testing.T) {
	for _, test := range []struct {
		name, one, other string
		shared           bool
	}{
		{"a /64 of IPv6", "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"two /64 of IPv6", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"IPv4 and the same mapped", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"IPv4 and the same by NAT64", "192.0.2.1", "64:ff9b::192.0.2.1", true},
		{"two of NAT64", "64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false},
		{"what NAT64 is not", "64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.2", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, _ := guarded(t, testkit.SQLite(t))
			for range 14 {
				f.wantTry(t, test.one, "ada", otherPassword, personal.CodeInvalidCredentials)
			}
			want := personal.CodeInvalidCredentials
			if test.shared {
				want = personal.CodeTooManyAttempts
			}
			f.wantTry(t, test.other, "ada", otherPassword, want)
		})
	}
}

func TestASharedAddressMayDoTenTimesAsMuchAndNoMore(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	for name, call := range map[string]personal.Call{
		"an address": {Address: netip.MustParseAddr("10.0.0.1"), Shared: true},
		"a socket":   {Shared: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := personal.WithCall(t.Context(), call)
			confirm := func() personal.Code {
				return personal.CodeOf(f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{}))
			}
			for i := range 20 { // the limit is 2, and one a minute
				if got := confirm(); got != personal.CodeValidationFailed {
					t.Fatalf("attempt %d is answered %q", i+1, got)
				}
			}
			if got := confirm(); got != personal.CodeTooManyAttempts {
				t.Errorf("one more is answered %q", got)
			}
			f.clock.Advance(6 * time.Second)
			if got := confirm(); got != personal.CodeValidationFailed {
				t.Errorf("after six seconds one is answered %q", got)
			}
		})
	}
}

func TestRecoveriesFromEverywhereFillNothing(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	for i := range 30 {
		want := personal.Code("")
		if i >= 20 {
			want = personal.CodeTooManyAttempts
		}
		err := f.service.Recover(at(t, fmt.Sprintf("2001:db8:0:%x::1", i)), personal.RecoverRequest{Login: "ada"})
		wantCode(t, err, want)
	}
}

// TestRecoveriesThatAreDoneKeepNobodyFromAsking: the limit of all is of those that
// wait. What comes of one makes no difference.
func TestRecoveriesThatAreDoneKeepNobodyFromAsking(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
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
		if n := len(f.host.Mails()); n != 1 {
			t.Fatalf("%d mails, want 1", n)
		}
		// One that fails waits still: the clock stands still, so none is tried again.
		f.register(t, "bob")
		f.host.SendMailFunc = func(context.Context, personal.Mail) error { return errors.New("not now") }
		for range 20 {
			ask(personal.RecoverRequest{Login: "bob"}, "")
		}
		ask(personal.RecoverRequest{Login: "nobody"}, personal.CodeTooManyAttempts)
		f.drain(t) // the mail of one is reserved, and fails; there is none for the others
		for range 19 {
			ask(personal.RecoverRequest{Login: "nobody"}, "")
		}
		ask(personal.RecoverRequest{Login: "nobody"}, personal.CodeTooManyAttempts)
	})
}

func TestEveryOperationThatTakesASecretIsLimitedPerAddress(t *testing.T) {
	f, _ := guarded(t, testkit.SQLite(t))
	for name, ask := range map[string]func(context.Context) error{
		"recover": func(ctx context.Context) error { return f.service.Recover(ctx, personal.RecoverRequest{}) },
		"recover_confirm": func(ctx context.Context) error {
			return f.service.RecoverConfirm(ctx, personal.RecoverConfirmRequest{})
		},
		"email_confirm": func(ctx context.Context) error { return f.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{}) },
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
