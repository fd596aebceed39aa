package accounts_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// keyring returns the keyring of a new key.
func keyring(t testing.TB) *seal.Keyring {
	t.Helper()
	key := make([]byte, seal.KeySize)
	_, _ = rand.Read(key)
	keys, err := seal.New([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// twoFactors returns the settings with which users can have second factors, if the service
// offers them.
func twoFactors(t testing.TB) func(*accounts.Settings) {
	return func(s *accounts.Settings) {
		s.TwoFactorIssuer, s.Keys = "Fish & Chips", keyring(t)
	}
}

// offering returns a fixture in which users can have second factors.
func offering(t testing.TB, url string, adjust ...func(*accounts.Settings)) *fixture {
	t.Helper()
	f := newFixture(t, url, append(adjust, twoFactors(t))...)
	f.service.OfferTwoFactor(true)
	return f
}

// offer makes the fixture's service, with the store and the hasher of a test, offer second
// factors.
func (f *fixture) offer(t testing.TB, s accounts.Store, h accounts.Hasher) {
	t.Helper()
	twoFactors(t)(&f.settings)
	f.service = f.serve(s, h)
	f.service.OfferTwoFactor(true)
	f.worker.Handlers = f.service.Jobs()
}

// factor is what the user of an account with a second factor has.
type factor struct {
	f             *fixture
	in            personal.Credentials
	login, secret string
	recoveryCodes []string
}

// enrol registers an account and switches its second factor on. It moves the clock on, so
// that the present code is unused.
func (f *fixture) enrol(t testing.TB, login string) *factor {
	t.Helper()
	u := &factor{f: f, in: f.register(t, login).Credentials, login: login}
	u.confirm(t, from(t, "", ""))
	f.clock.Advance(personaltest.CodePeriod)
	return u
}

func (u *factor) confirm(t testing.TB, ctx context.Context) {
	t.Helper()
	secret, err := u.f.service.BeginTwoFactor(ctx, personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword})
	if err != nil {
		t.Fatalf("making a secret: %v", err)
	}
	u.secret = secret.Secret
	confirmed, err := u.f.service.ConfirmTwoFactor(ctx, personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: u.code()})
	if err != nil {
		t.Fatalf("confirming: %v", err)
	}
	u.in, u.recoveryCodes = confirmed.Credentials, confirmed.RecoveryCodes
}

// end switches the second factor off.
func (u *factor) end(t testing.TB, ctx context.Context) {
	t.Helper()
	var err error
	u.in, err = u.f.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: u.in, Password: goodPassword,
		Code: u.next()})
	if err != nil {
		t.Fatalf("ending: %v", err)
	}
}

// code returns the present code.
func (u *factor) code() string { return personaltest.Code(u.secret, u.f.clock.Now()) }

// next moves the clock on and returns the then present code, which is unused.
func (u *factor) next() string {
	u.f.clock.Advance(personaltest.CodePeriod)
	return u.code()
}

// wrong returns a code of no step that counts.
func (u *factor) wrong() string {
	for i := range 10 {
		code := fmt.Sprintf("%06d", i)
		if !slices.ContainsFunc([]int{-1, 0, 1}, func(steps int) bool {
			return personaltest.Code(u.secret, u.f.clock.Now().Add(time.Duration(steps)*personaltest.CodePeriod)) == code
		}) {
			return code
		}
	}
	panic("at most three codes count")
}

// recoveryCode returns a recovery code that was not returned before.
func (u *factor) recoveryCode() string {
	code := u.recoveryCodes[0]
	u.recoveryCodes = u.recoveryCodes[1:]
	return code
}

// try signs in with a code and returns the code of the error.
func (u *factor) try(ctx context.Context, code string) personal.Code {
	_, err := u.f.service.Authorize(ctx, personal.AuthorizeRequest{Login: u.login, Password: goodPassword, Code: code})
	return personal.CodeOf(err)
}

func (u *factor) wantTry(t testing.TB, ctx context.Context, code string, want personal.Code) {
	t.Helper()
	if got := u.try(ctx, code); got != want {
		t.Fatalf("signing in: got %q, want %q", got, want)
	}
}

// use calls an operation that the password and a code authorise.
type use func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error

// uses are all operations that take a code, besides sign-in and confirmation.
var uses = map[string]use{
	"password": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		_, err := s.ChangePassword(ctx, personal.ChangePasswordRequest{
			Credentials: c, OldPassword: goodPassword, Password: otherPassword, ConfirmPassword: otherPassword, Code: code,
		})
		return err
	},
	"email": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		return s.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: "new@example.com", Code: code})
	},
	"export": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		_, err := s.Export(ctx, personal.ExportRequest{Credentials: c, Password: goodPassword, Code: code})
		return err
	},
	"delete": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		_, err := s.Delete(ctx, personal.DeleteRequest{Credentials: c, Password: goodPassword, Code: code})
		return err
	},
	"two_factor_codes": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		_, err := s.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{Credentials: c, Password: goodPassword, Code: code})
		return err
	},
	"two_factor_remove": func(ctx context.Context, s *accounts.Service, c personal.Credentials, code string) error {
		_, err := s.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: c, Password: goodPassword, Code: code})
		return err
	},
}

func wantWrongCode(t testing.TB, err error) {
	t.Helper()
	if diff := cmp.Diff(personal.FieldErrors{"code": personal.FieldErrorMismatch}, fieldErrors(err)); diff != "" {
		t.Fatalf("got %v, field errors (-want +got):\n%s", err, diff)
	}
}

// 404 comes before everything else, such as invalid credentials.
func TestTwoFactor_OperationsExistOnlyWhenOffered(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	calls := map[string]func() error{
		"two_factor": func() error {
			_, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{})
			return err
		},
		"two_factor_confirm": func() error {
			_, err := f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{})
			return err
		},
		"two_factor_codes": func() error {
			_, err := f.service.RenewRecoveryCodes(t.Context(), personal.RenewRecoveryCodesRequest{})
			return err
		},
		"two_factor_remove": func() error {
			_, err := f.service.RemoveOwnTwoFactor(t.Context(), personal.RemoveOwnTwoFactorRequest{})
			return err
		},
	}
	empty, err := seal.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]struct {
		keys  *seal.Keyring
		offer bool
		want  personal.Code
	}{
		"not offered":      {keyring(t), false, personal.CodeNotFound},
		"without keyring":  {nil, true, personal.CodeNotFound},
		"without any key":  {empty, true, personal.CodeNotFound},
		"offered":          {keyring(t), true, personal.CodeUnauthenticated},
		"not offered, nil": {nil, false, personal.CodeNotFound},
	} {
		f.settings.Keys = state.keys
		f.service = f.serve(f.store, mustHasher(t, cheap))
		f.service.OfferTwoFactor(state.offer)
		for operation, call := range calls {
			if got := personal.CodeOf(call()); got != state.want {
				t.Errorf("%s, %s: got %q, want %q", name, operation, got, state.want)
			}
		}
	}
}

// Neither the settings nor a missing key switch a second factor off.
func TestTwoFactor_IsNeededWhateverTheSettings(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	u := f.enrol(t, "ada")
	f.service.OfferTwoFactor(false)
	u.wantTry(t, t.Context(), "", personal.CodeCodeRequired)
	wantCode(t, uses["export"](t.Context(), f.service, u.in, ""), personal.CodeValidationFailed)
	u.wantTry(t, t.Context(), u.next(), "")

	keys := f.settings.Keys
	key, other := keys.Primary(), keyring(t)
	for _, lost := range []*seal.Keyring{nil, other} {
		var log bytes.Buffer
		f.settings.Keys = lost
		f.service = accounts.New(f.settings, f.store, mustHasher(t, cheap), f.host, slog.New(slog.NewTextHandler(&log, nil)), f.worker.Wake)
		f.service.OfferTwoFactor(true)
		u.wantTry(t, t.Context(), "", personal.CodeCodeRequired)
		for range 3 {
			u.wantTry(t, t.Context(), u.code(), personal.CodeUnavailable)
			wantCode(t, uses["export"](t.Context(), f.service, u.in, u.code()), personal.CodeUnavailable)
		}
		u.wantTry(t, t.Context(), "wrong", personal.CodeInvalidCode)
		u.wantTry(t, t.Context(), u.recoveryCode(), "")
		if lines := strings.Count(log.String(), "level=ERROR"); lines != 1 || !strings.Contains(log.String(), key) {
			t.Errorf("got %d errors in the log, want one with the id of the key:\n%s", lines, log.String())
		}
		u.next()
		u.next() // after a minute, an error is logged again
		u.wantTry(t, t.Context(), u.code(), personal.CodeUnavailable)
		if lines := strings.Count(log.String(), "level=ERROR"); lines != 2 {
			t.Errorf("a minute later: got %d errors in the log, want 2", lines)
		}
	}

	f.settings.Keys = keys
	f.service = f.serve(f.store, mustHasher(t, cheap))
	u.wantTry(t, t.Context(), u.next(), "")
	f.exec(t, "UPDATE personal_accounts SET two_factor_secret = x'00'")
	u.wantTry(t, t.Context(), u.next(), personal.CodeInternal)
	u.wantTry(t, t.Context(), u.recoveryCode(), "")
}

func TestBeginTwoFactor_NeedsAVerifiedEmailWhereTheSiteVerifies(t *testing.T) {
	for name, test := range map[string]struct {
		adjust  func(*accounts.Settings)
		prepare func(*testing.T, *fixture, int64)
		want    personal.Code
	}{
		"off":                      {func(*accounts.Settings) {}, func(*testing.T, *fixture, int64) {}, ""},
		"off, without e-mail":      {func(*accounts.Settings) {}, func(t *testing.T, f *fixture, id int64) { f.setEmail(t, id, "") }, ""},
		"optional":                 {optional, func(*testing.T, *fixture, int64) {}, personal.CodeEmailUnverified},
		"optional, without e-mail": {optional, func(t *testing.T, f *fixture, id int64) { f.setEmail(t, id, "") }, personal.CodeEmailUnverified},
		"optional, verified": {optional, func(t *testing.T, f *fixture, _ int64) {
			f.drain(t)
			if err := f.verify(t, f.tokens()[0]); err != nil {
				t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := offering(t, testdb.SQLite(t), test.adjust)
			in := f.register(t, "ada").Credentials
			test.prepare(t, f, in.UserID)
			begin := func(password string) error {
				_, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: in, Password: password})
				return err
			}
			wantCode(t, begin(goodPassword), test.want)
			if test.want == "" {
				return
			}
			wantCode(t, begin("wrong"), test.want) // before the password is judged
			_, err := f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: in})
			wantCode(t, err, test.want)
		})
	}
}

func TestConfirmTwoFactor_SecretWaitsForTenMinutes(t *testing.T) {
	for wait, want := range map[time.Duration]personal.Code{10*time.Minute - time.Microsecond: "",
		10 * time.Minute: personal.CodeTwoFactorOff} {
		f := offering(t, testdb.SQLite(t))
		u := &factor{f: f, in: f.register(t, "ada").Credentials}
		secret, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword})
		if err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(wait)
		u.secret = secret.Secret
		_, err = f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: u.code()})
		if got := personal.CodeOf(err); got != want {
			t.Errorf("after %v: got %q, want %q", wait, got, want)
		}
	}
}

// A recovery code of a former second factor is none of the new one.
func TestConfirmTwoFactor_TakesNoRecoveryCode(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	u := f.enrol(t, "ada")
	u.end(t, t.Context())
	if _, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword}); err != nil {
		t.Fatal(err)
	}
	_, err := f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: u.recoveryCode()})
	wantWrongCode(t, err)
}

func TestSignIn_SecondFactorConfirmedWhileHashingFails(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, s, h := spied(t, url, cheap)
		f.offer(t, s, h)
		u := &factor{f: f, in: f.register(t, "ada").Credentials, login: "ada"}
		h.while = func() { u.confirm(t, t.Context()) }
		u.wantTry(t, t.Context(), "", personal.CodeInvalidCredentials)
		sessions, err := f.service.Sessions(t.Context(), u.in)
		if err != nil || len(sessions) != 1 {
			t.Fatalf("got %d sessions, error %v; want the one that enrolled", len(sessions), err)
		}
		// The same with a code, while an administrator removes the second factor.
		f.clock.Advance(personaltest.CodePeriod)
		s.found = func() {
			if err := f.service.RemoveTwoFactor(t.Context(), personal.RemoveTwoFactorRequest{UserID: u.in.UserID}); err != nil {
				t.Error(err)
			}
		}
		u.wantTry(t, t.Context(), u.code(), personal.CodeInvalidCode)
		u.wantTry(t, t.Context(), "", "")
	})
}

// Each operation reports what happened and, if a recovery code authorised it, that use.
func TestTwoFactor_ReportsEveryChange(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url)
		u := f.enrol(t, "ada")
		id := u.in.UserID
		ctx := from(t, home, "")
		seen, mails := len(f.published(t, id)), len(f.host.Mails())
		want := func(subject string, events ...personal.EventType) {
			t.Helper()
			got := f.published(t, id)
			if !slices.Equal(got[seen:], events) {
				t.Errorf("got the events %q, want %q", got[seen:], events)
			}
			seen = len(got)
			var subjects []string
			for _, m := range f.host.Mails()[mails:] {
				subjects = append(subjects, m.Subject)
			}
			mails += len(subjects)
			if got := strings.Join(subjects, ", "); got != subject {
				t.Errorf("got the mails %q, want %q", got, subject)
			}
			f.clock.Advance(10 * time.Minute) // no limit of mails is reached
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const used, renewed, off = "A recovery code was used", "You have new recovery codes", "Two-factor sign-in was switched off"
		u.wantTry(t, ctx, u.next(), "")
		want("", personal.EventSignedIn)
		u.wantTry(t, ctx, u.recoveryCode(), "")
		want(used, personal.EventSignedIn, personal.EventRecoveryCodeUsed)
		u.wantTry(t, ctx, u.wrong(), personal.CodeInvalidCode)
		want("", personal.EventSignInFailed)
		u.wantTry(t, ctx, "", personal.CodeCodeRequired)
		want("")
		wantWrongCode(t, uses["export"](ctx, f.service, u.in, "malformed"))
		want("", personal.EventSignInFailed)
		must(uses["export"](ctx, f.service, u.in, u.recoveryCode()))
		want(used, personal.EventExported, personal.EventRecoveryCodeUsed)
		must(uses["email"](ctx, f.service, u.in, u.recoveryCode()))
		want("Confirm your e-mail address, "+used, personal.EventRecoveryCodeUsed)
		codes, err := f.service.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{Credentials: u.in, Password: goodPassword,
			Code: u.recoveryCode()})
		must(err)
		u.recoveryCodes = codes
		want(renewed+", "+used, personal.EventRecoveryCodes, personal.EventRecoveryCodeUsed)
		e, err := f.service.Export(ctx, personal.ExportRequest{Credentials: u.in, Password: goodPassword, Code: u.next()})
		must(err)
		want("", personal.EventExported)
		for _, event := range e.Events {
			switch event.Type {
			case personal.EventRecoveryCodes, personal.EventRecoveryCodeUsed:
				if event.Address != home {
					t.Errorf("the export has %s without the user's address", event.Type)
				}
			}
		}
		u.end(t, ctx)
		want(off, personal.EventTwoFactorOff)
		u.confirm(t, ctx)
		want("Two-factor sign-in was switched on", personal.EventTwoFactorOn)
		f.clock.Advance(time.Hour)
		admin := personal.WithCall(t.Context(), personal.Call{Administrator: "Olga"})
		must(f.service.RemoveTwoFactor(admin, personal.RemoveTwoFactorRequest{UserID: id}))
		want(off, personal.EventTwoFactorOff)
		events := f.host.Events()
		if last := events[len(events)-1]; last.Actor != personal.ActorAdministrator || last.ActorName != "Olga" {
			t.Errorf("got the actor %s %q, want the administrator", last.Actor, last.ActorName)
		}
		must(f.service.RemoveTwoFactor(admin, personal.RemoveTwoFactorRequest{UserID: id}))
		want("")
		wantCode(t, f.service.RemoveTwoFactor(admin, personal.RemoveTwoFactorRequest{UserID: id + 99}), personal.CodeNotFound)
	})
}

// The store checks that a code is unused, in the transaction of the operation.
func TestCodes_EachOperationUsesItsCodeUp(t *testing.T) {
	for name, use := range uses {
		f := offering(t, testdb.SQLite(t))
		u := f.enrol(t, "ada")
		must(t, use(t.Context(), f.service, u.in, u.recoveryCode()))
		want := 9
		switch name {
		case "two_factor_codes":
			want = 10 // new ones
		case "two_factor_remove":
			want = 0
		}
		if left, err := f.store.RecoveryCodesLeft(t.Context(), u.in.UserID); err != nil || left != want {
			t.Errorf("%s: got %d recovery codes left, error %v, want %d", name, left, err, want)
		}
	}
}

// What is logged, reported and stored shows neither secrets nor codes.
func TestTwoFactor_SecretsAppearNowhere(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	var log bytes.Buffer
	debug := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.service = accounts.New(f.settings, f.store, mustHasher(t, cheap), f.host, debug, f.worker.Wake)
	f.service.OfferTwoFactor(true)
	f.worker.Handlers = f.service.Jobs()
	u := f.enrol(t, "ada")
	secrets := append([]string{u.secret}, u.recoveryCodes...)
	note := func(code string) string {
		secrets = append(secrets, code)
		return code
	}
	var errs []error
	for _, code := range []string{note(u.next()), note(u.recoveryCode()), note("aaaa-bbbb-cccc-dddd-eeee-ffff"), note("wrong code")} {
		_, err := f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: goodPassword, Code: code})
		errs = append(errs, err, uses["export"](t.Context(), f.service, u.in, code), uses["two_factor_codes"](t.Context(), f.service, u.in, code))
	}
	f.exec(t, "UPDATE personal_accounts SET two_factor_secret = x'00'")
	errs = append(errs, uses["export"](t.Context(), f.service, u.in, note(u.next())))
	f.drain(t)
	seen := fmt.Sprint(log.String(), errs, f.host.Events(), f.host.Mails())
	entries, err := f.service.AuditEntries(t.Context(), personal.AuditEntriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	seen += fmt.Sprint(entries)
	for _, secret := range secrets {
		word := `\b` + strings.ReplaceAll(secret, "-", "-?") + `\b` // the digits of a code may be part of another number
		if regexp.MustCompile("(?i)" + word).MatchString(seen) {
			t.Errorf("%q appears in a log, an error, an event or a mail", secret)
		}
	}
}
