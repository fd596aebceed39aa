package accounts_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

func TestSessionWrites_AreLimitedBySession(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.Throttle.SessionWrites = throttle.Limit{Burst: 5, Every: time.Second}
	f.service = f.serve(f.store, mustHasher(t, cheap))
	in, other := f.register(t, "ada").Credentials, f.register(t, "bob").Credentials
	name := map[string]personal.Input{"name": personal.Text("Ada")}
	for operation, write := range map[string]func() error{
		"refresh": func() error {
			fresh, err := f.service.Refresh(t.Context(), in)
			if err == nil {
				in = fresh
			}
			return err
		},
		"profile": func() error {
			_, err := f.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: in, Fields: name})
			return err
		},
		"password": func() error {
			_, err := f.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{Credentials: in, OldPassword: goodPassword})
			if personal.CodeOf(err) == personal.CodeValidationFailed {
				return nil // the request has no new password
			}
			return err
		},
		"email": func() error {
			err := f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: in, Password: goodPassword})
			if personal.CodeOf(err) == personal.CodeValidationFailed {
				return nil // the request has no new address
			}
			return err
		},
		"sessions_revoke": func() error {
			return f.service.RevokeSession(t.Context(), personal.RevokeSessionRequest{Credentials: in, ID: "0"})
		},
	} {
		t.Run(operation, func(t *testing.T) {
			f.clock.Advance(time.Minute)
			for range 5 {
				wantCode(t, write(), "")
			}
			wantCode(t, write(), personal.CodeTooManyAttempts)
			if _, err := f.service.Profile(t.Context(), in); err != nil {
				t.Errorf("reading: %v", err)
			}
			if _, err := f.service.Refresh(t.Context(), other); err != nil {
				t.Errorf("another session: %v", err)
			}
			f.clock.Advance(time.Second)
			wantCode(t, write(), "")
		})
	}
	if err := f.service.Logout(t.Context(), personal.LogoutRequest{Credentials: in}); err != nil {
		t.Errorf("signing out: %v", err)
	}
}

func TestSignIn_AddressHasALimitThatIsNeverRefunded(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.Throttle.SignInAddress = throttle.Limit{Burst: 5, Every: time.Second}
		f.service = f.serve(f.store, h)
		f.register(t, "ada")
		for range 5 {
			f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
		}
		before := h.verified
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
		if h.verified > before {
			t.Error("got a hash for a refused attempt, want none")
		}
		f.wantTry(t, "203.0.113.2", "ada", goodPassword, "")
		f.clock.Advance(time.Second)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
	})
}

func TestSignIn_AccountHasALimitOfRightPasswords(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.Throttle.SignInAccount = throttle.Limit{Burst: 5, Every: time.Second}
		f.service = f.serve(f.store, h)
		f.register(t, "ada")
		f.register(t, "bob")
		for i := range 5 {
			f.wantTry(t, fmt.Sprintf("203.0.113.%d", i), "ada", goodPassword, "")
		}
		f.wantTry(t, "203.0.113.9", "ada@example.com", goodPassword, personal.CodeTooManyAttempts)
		f.wantTry(t, "203.0.113.9", "ada", otherPassword, personal.CodeInvalidCredentials) // does not reveal that the limit is used up
		f.wantTry(t, "203.0.113.9", "bob", goodPassword, "")
		f.clock.Advance(time.Second)
		f.wantTry(t, "203.0.113.9", "ada", goodPassword, "")
	})
}

// One customer may have a /48 of IPv6, which holds 65,536 networks of /64.
func TestLimits_IPv6SiteIsTenTimesAsWide(t *testing.T) {
	from := func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }
	register := func(f *fixture, ctx context.Context, i int) error {
		_, err := f.service.Register(ctx, personal.RegisterRequest{Login: fmt.Sprintf("user%d", i), Password: goodPassword,
			ConfirmPassword: goodPassword, Email: fmt.Sprintf("user%d@example.com", i)})
		return err
	}
	for name, test := range map[string]struct {
		limit func(*accounts.Throttle) *throttle.Limit
		try   func(f *fixture, ctx context.Context, i int) error
		done  personal.Code
	}{
		"guesses": {func(t *accounts.Throttle) *throttle.Limit { return &t.GuessAddress }, func(f *fixture, ctx context.Context, i int) error {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: fmt.Sprint("guessed", i), Password: otherPassword})
			return err
		}, personal.CodeInvalidCredentials},
		"sign-ins": {func(t *accounts.Throttle) *throttle.Limit { return &t.SignInAddress }, func(f *fixture, ctx context.Context, _ int) error {
			_, err := f.service.Authorize(ctx, personal.AuthorizeRequest{Login: "ada", Password: goodPassword})
			return err
		}, ""},
		"registrations": {func(t *accounts.Throttle) *throttle.Limit { return &t.Register }, register, ""},
		"invalid registrations": {func(t *accounts.Throttle) *throttle.Limit { return &t.RegisterInvalid }, func(f *fixture, ctx context.Context, _ int) error {
			_, err := f.service.Register(ctx, personal.RegisterRequest{})
			return err
		}, personal.CodeValidationFailed},
		"recoveries": {func(t *accounts.Throttle) *throttle.Limit { return &t.Recover }, func(f *fixture, ctx context.Context, _ int) error {
			return f.service.Recover(ctx, personal.RecoverRequest{Login: "nobody"})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := guarded(t, testdb.SQLite(t))
			f.settings.Throttle = accounts.Throttle{Enabled: true}
			*test.limit(&f.settings.Throttle) = throttle.Limit{Burst: 2, Every: time.Minute}
			f.service = f.serve(f.store, h)
			f.register(t, "ada")
			for i := range 20 {
				wantCode(t, test.try(f, at(t, from(i)), i), test.done)
			}
			wantCode(t, test.try(f, at(t, from(20)), 20), personal.CodeTooManyAttempts)
			wantCode(t, test.try(f, at(t, "2001:db8:2::1"), 21), test.done)
			f.clock.Advance(6 * time.Second)
			wantCode(t, test.try(f, at(t, from(22)), 22), test.done)
		})
	}
}

func TestRegister_InvalidOnesAreLimitedByAddress(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.Throttle.Register = throttle.Limit{Burst: 2, Every: time.Hour}
		f.service = f.serve(f.store, h)
		try := func(address, login string, more personal.FieldErrors) personal.Code {
			_, err := f.service.Register(at(t, address), personal.RegisterRequest{
				Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: login + "@example.com", FieldErrors: more,
			})
			return personal.CodeOf(err)
		}
		const address, other = "203.0.113.1", "203.0.113.2"
		for i := range 5 {
			if got := try(address, "", nil); got != personal.CodeValidationFailed {
				t.Fatalf("invalid registration %d: got code %q, want validation_failed", i+1, got)
			}
		}
		for i, step := range []struct {
			address, login string
			more           personal.FieldErrors
			want           personal.Code
		}{
			{address, "", nil, personal.CodeTooManyAttempts},
			{address, "ada", personal.FieldErrors{"email": personal.FieldErrorInvalidType}, personal.CodeTooManyAttempts},
			{address, "ada", nil, ""},
			{other, "", nil, personal.CodeValidationFailed},
			{address, "bob", nil, ""},
			{address, "eve", nil, personal.CodeTooManyAttempts}, // by register
		} {
			if got := try(step.address, step.login, step.more); got != step.want {
				t.Errorf("step %d: got code %q, want %q", i+1, got, step.want)
			}
		}
		f.clock.Advance(time.Minute) // one more invalid registration, but none while register is used up
		if got := try(address, "", nil); got != personal.CodeTooManyAttempts {
			t.Errorf("while register is used up: got code %q, want too_many_attempts", got)
		}
	})
}

func TestRegister_TakenEmailIsLimitedByAddress(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.Throttle.Register = throttle.Limit{Burst: 1000, Every: time.Second}
		f.service = f.serve(f.store, h)
		f.register(t, "ada")
		eve := f.register(t, "eve").Credentials
		probe := func(address, login, email string) personal.Code {
			_, err := f.service.Register(at(t, address), personal.RegisterRequest{
				Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: email,
			})
			return personal.CodeOf(err)
		}
		change := func(address, email string) personal.Code {
			return personal.CodeOf(f.service.ChangeEmail(at(t, address),
				personal.ChangeEmailRequest{Credentials: eve, Password: goodPassword, Email: email}))
		}
		// A taken login reveals nothing about the e-mail, and is not charged.
		for range 10 {
			if got := probe("203.0.113.1", "eve", "ada@example.com"); got != personal.CodeAlreadyExists {
				t.Fatalf("a taken login: got code %q, want already_exists", got)
			}
		}
		for i, got := range []personal.Code{
			probe("203.0.113.1", "free", "ada@example.com"), change("203.0.113.1", "ada@example.com"), probe("203.0.113.1", "free", "Ada@Example.com"),
		} {
			if got != personal.CodeAlreadyExists {
				t.Errorf("probe %d: got code %q, want already_exists", i+1, got)
			}
		}
		for i, got := range []personal.Code{
			probe("203.0.113.1", "free", "ada@example.com"), probe("203.0.113.1", "free", "free@example.com"),
			change("203.0.113.1", "free@example.com"), probe("203.0.113.1", "", ""),
		} {
			if got != personal.CodeTooManyAttempts {
				t.Errorf("request %d after the limit: got code %q, want too_many_attempts", i+1, got)
			}
		}
		if got := probe("203.0.113.2", "free", "free@example.com"); got != "" {
			t.Errorf("from another address: got code %q, want success", got)
		}
		f.drain(t)
		sent := 0
		for _, e := range f.host.Events() {
			if e.Type == personal.EventEmailTaken && e.Address == "203.0.113.1" && e.UserID == 0 {
				sent++
			}
		}
		if sent != 3 {
			t.Errorf("got %d email_taken events, want 3", sent)
		}
	})
}

// Learning from email/ that an address is taken costs a guess, from any address.
func TestChangeEmail_TakenAddressCostsAnAttempt(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.settings.Throttle.GuessAccount = throttle.Limit{Burst: 3, Every: time.Hour}
	f.service = f.serve(f.store, h)
	f.register(t, "ada")
	c := f.register(t, "eve").Credentials
	for i, want := range []personal.Code{personal.CodeAlreadyExists, personal.CodeAlreadyExists, personal.CodeAlreadyExists,
		personal.CodeTooManyAttempts} {
		err := f.service.ChangeEmail(at(t, fmt.Sprintf("203.0.113.%d", i)), personal.ChangeEmailRequest{
			Credentials: c, Password: goodPassword, Email: "ada@example.com",
		})
		wantCode(t, err, want)
	}
}

func TestKnownAddresses_AreStoredWithThrottlingOff(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	limits := f.settings.Throttle
	f.settings.Throttle.Enabled = false
	f.service = f.serve(f.store, h)
	f.register(t, "ada")
	f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
	f.settings.Throttle = limits
	f.service = f.serve(f.store, h)
	f.guessFromEverywhere(t, "ada")
	f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
}

// A failed sign-in costs the same statements for known and unknown accounts, also from known
// addresses.
func TestSignIn_FailureCostsTheSameStatementsForAnyLogin(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		counter := &statementCounter{}
		f.service = f.serve(counter.open(t, f, url), h)
		f.register(t, "ada")
		const known = "203.0.113.200"
		f.wantTry(t, known, "ada", goodPassword, "")
		statements := map[string]int{}
		for i := range 3 {
			for _, login := range []string{"ada", "ada@example.com", "nobody", "nobody@example.com"} {
				for _, from := range []string{known, fmt.Sprintf("203.0.113.%d", i)} {
					counter.take()
					f.wantTry(t, from, login, otherPassword, personal.CodeInvalidCredentials)
					if got := len(counter.take()); i > 0 { // connections are open by then
						statements[fmt.Sprintf("%s, known address: %v", login, from == known)] += got
					}
				}
			}
		}
		for name, n := range statements {
			if want := statements["ada, known address: false"]; n != want {
				t.Errorf("%s: got %d statements, want %d", name, n, want)
			}
		}
	})
}

func TestLimits_RejectionsAreCountedByLimit(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		rejected := map[string]int{}
		limits := &f.settings.Throttle
		limits.SessionWrites = throttle.Limit{Burst: 1, Every: time.Second, Name: "session_writes"}
		limits.SignInAccount = throttle.Limit{Burst: 1, Every: time.Hour, Name: "sign_in_account"}
		limits.Guess = throttle.Limit{Burst: 2, Every: time.Hour, Name: "guess"} // waits longer than guess_account
		limits.GuessAccount = throttle.Limit{Burst: 2, Every: time.Minute, Name: "guess_account"}
		f.service = f.serve(f.store, h)
		f.service.CountRejections(func(limit string) { rejected[limit]++ })
		in := f.register(t, "ada").Credentials
		f.register(t, "bob")

		fresh, err := f.service.Refresh(t.Context(), in)
		wantCode(t, err, "")
		_, err = f.service.Refresh(t.Context(), fresh)
		wantCode(t, err, personal.CodeTooManyAttempts)
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, "")
		f.wantTry(t, "203.0.113.1", "ada", goodPassword, personal.CodeTooManyAttempts)
		for range 2 {
			f.wantTry(t, "203.0.113.2", "bob", otherPassword, personal.CodeInvalidCredentials)
		}
		f.wantTry(t, "203.0.113.2", "bob", otherPassword, personal.CodeTooManyAttempts)
		want := map[string]int{"session_writes": 1, "sign_in_account": 1, "guess": 1}
		if !maps.Equal(rejected, want) {
			t.Errorf("got %v, want %v", rejected, want)
		}
	})
}
