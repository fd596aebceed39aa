package accounts_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// enrolled returns an account with a second factor, whose user has signed in at home, on
// the default limits.
func enrolled(t *testing.T, url string) *factor {
	t.Helper()
	f, h := guarded(t, url)
	f.offer(t, f.store, h)
	u := f.enrol(t, "ada")
	u.wantTry(t, at(t, home), u.code(), "")
	f.clock.Advance(24 * time.Hour) // all limits are regained
	return u
}

// From whatever addresses: they are all unknown.
func TestCodes_ThirtyOf300GuessesAreJudgedInAnHour(t *testing.T) {
	u := enrolled(t, testdb.SQLite(t))
	judged := 0
	for i := range 300 {
		switch code := u.try(at(t, fmt.Sprintf("198.51.%d.%d", i/200, i%200)), u.wrong()); code {
		case personal.CodeInvalidCode:
			judged++
		case personal.CodeTooManyAttempts:
		default:
			t.Fatalf("guess %d: got %q", i, code)
		}
		u.f.clock.Advance(12 * time.Second)
		if i%60 == 59 { // the owner signs in at a known address between guesses
			u.wantTry(t, at(t, home), "", personal.CodeCodeRequired)
			u.wantTry(t, at(t, home), u.code(), "")
		}
	}
	if judged < 10 || judged > 14 {
		t.Errorf("got %d judged codes, want 10 and one for each 15 minutes", judged)
	}
}

// A thief who knows the password before there is a second factor can sign in from many
// addresses. They are not fully known any more once the factor is on.
func TestCodes_AddressesKnownByPasswordAloneHaveNoLimitOfTheirOwn(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.offer(t, f.store, h)
		u := &factor{f: f, in: f.register(t, "ada").Credentials, login: "ada"}
		address := func(i int) string { return fmt.Sprintf("198.51.%d.7", i) }
		const thief = 5
		for i := range thief {
			if _, err := f.service.Authorize(at(t, address(i)), personal.AuthorizeRequest{Login: "ada", Password: goodPassword}); err != nil {
				t.Fatal(err)
			}
		}
		f.wantTry(t, home, "ada", goodPassword, "")
		u.confirm(t, at(t, home))
		f.clock.Advance(24 * time.Hour)
		judged := 0
		for i := range 10 * thief {
			if u.try(at(t, address(i%thief)), u.wrong()) == personal.CodeInvalidCode {
				judged++
			}
		}
		if judged != 10 {
			t.Errorf("got %d judged codes, want 10", judged)
		}
		u.wantTry(t, at(t, home), u.code(), "") // where the owner has confirmed
	})
}

// Sign-ins and operations of signed-in users count together.
func TestCodes_LimitHoldsForAllOperationsTogether(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		u := enrolled(t, url)
		abroad := at(t, abroad)
		tries := 0
		for range 2 {
			u.wantTry(t, abroad, u.wrong(), personal.CodeInvalidCode)
			for operation, use := range uses {
				if operation == "email" || operation == "password" {
					continue // so that the limit is reached exactly
				}
				wantWrongCode(t, use(abroad, u.f.service, u.in, u.wrong()))
				tries++
			}
		}
		if tries += 2; tries != 10 {
			t.Fatalf("got %d codes, want as many as the limit allows", tries)
		}
		u.wantTry(t, abroad, u.wrong(), personal.CodeTooManyAttempts)
		u.wantTry(t, abroad, u.recoveryCode(), personal.CodeTooManyAttempts) // correct, but refused
		for operation, use := range uses {
			if got := personal.CodeOf(use(abroad, u.f.service, u.in, u.code())); got != personal.CodeTooManyAttempts {
				t.Errorf("%s: got %q, want a refusal by the limit", operation, got)
			}
		}
		// The known address has its own limit, and a code that is missing costs nothing.
		for range 10 {
			u.wantTry(t, at(t, home), "", personal.CodeCodeRequired)
		}
		u.f.clock.Advance(15 * time.Minute)
		for range 10 {
			u.wantTry(t, at(t, home), u.wrong(), personal.CodeInvalidCode)
		}
		u.wantTry(t, at(t, home), u.code(), personal.CodeTooManyAttempts)
		u.wantTry(t, abroad, u.code(), "") // 15 minutes have passed
		u.wantTry(t, at(t, "198.51.100.8"), u.wrong(), personal.CodeInvalidCode)
		u.wantTry(t, at(t, "198.51.100.9"), u.wrong(), personal.CodeTooManyAttempts) // only the completed one was refunded
	})
}

// A code is judged only when nothing else is wrong.
func TestCodes_WrongPasswordChargesNone(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.offer(t, f.store, h)
	u := f.enrol(t, "ada")
	f.changePassword(t, f.register(t, "bob").Credentials, goodPassword, otherPassword)
	f.exec(t, "UPDATE personal_accounts SET password_hash = (SELECT password_hash FROM personal_accounts WHERE login = 'bob')")
	for operation, use := range uses {
		for range 2 {
			if got := fieldErrors(use(at(t, abroad), f.service, u.in, u.code())); len(got) != 1 || got["code"] != "" {
				t.Errorf("%s: got the field errors %v, want that of the password", operation, got)
			}
		}
	}
	u.wantTry(t, at(t, abroad), u.code(), personal.CodeInvalidCredentials)
	for i := range 10 {
		_, err := f.service.Authorize(at(t, fmt.Sprintf("198.51.100.%d", i)),
			personal.AuthorizeRequest{Login: "ada", Password: otherPassword, Code: u.wrong()})
		wantCode(t, err, personal.CodeInvalidCode)
	}
}

func TestConfirmTwoFactor_CountsAgainstTheLimitOfCodes(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.offer(t, f.store, h)
	u := &factor{f: f, in: f.register(t, "ada").Credentials, login: "ada"}
	f.wantTry(t, home, "ada", goodPassword, "")
	secret, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword})
	if err != nil {
		t.Fatal(err)
	}
	u.secret = secret.Secret
	confirm := func(address, code string) error {
		_, err := f.service.ConfirmTwoFactor(at(t, address), personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: code})
		return err
	}
	for range 10 {
		wantWrongCode(t, confirm(abroad, u.wrong()))
	}
	wantCode(t, confirm(abroad, u.code()), personal.CodeTooManyAttempts)
	wantCode(t, confirm(home, u.code()), "")
}

// Guesses with the correct password use up the limits of guesses, but not those of correct
// passwords, which hold for the user's known addresses too.
func TestSignIn_OnlyCompletedOnesAreRefundedWithASecondFactor(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.settings.Throttle.SignInAccount = throttle.Limit{Burst: 2, Every: 24 * time.Hour}
	f.offer(t, f.store, h)
	u := f.enrol(t, "ada")
	for range 7 {
		u.wantTry(t, at(t, abroad), "", personal.CodeCodeRequired)
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
	}
	u.wantTry(t, at(t, abroad), u.code(), personal.CodeTooManyAttempts) // the limit by login and address
	u.wantTry(t, at(t, home), u.code(), "")
	f.clock.Advance(time.Minute) // allows one more
	u.wantTry(t, at(t, abroad), u.code(), "")
	for range 13 { // a completed sign-in clears the limit
		u.wantTry(t, at(t, abroad), "", personal.CodeCodeRequired)
	}
	u.wantTry(t, at(t, abroad), u.next(), personal.CodeTooManyAttempts) // of correct passwords: two sign-ins were completed
}

func TestSignIn_DisabledAccountWithASecondFactorIsCharged(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.settings.Throttle.SignInAccount = throttle.Limit{Burst: 2, Every: 24 * time.Hour}
	f.offer(t, f.store, h)
	u := f.enrol(t, "ada")
	f.disable(t, u.in.UserID)
	for _, code := range []string{"", u.code()} { // judged before the code
		u.wantTry(t, at(t, abroad), code, personal.CodeAccountDisabled)
	}
	u.wantTry(t, at(t, abroad), "", personal.CodeTooManyAttempts)
}

// A thief of the mailbox must not get another ten codes for each recovery.
func TestRecoverConfirm_MakesNoAddressKnownWithASecondFactor(t *testing.T) {
	u := enrolled(t, testdb.SQLite(t))
	f := u.f
	for range 10 {
		u.wantTry(t, at(t, "198.51.100.1"), u.wrong(), personal.CodeInvalidCode)
	}
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	_, err := f.service.RecoverConfirm(at(t, abroad), personal.RecoverConfirmRequest{
		Token: f.tokens()[0], Password: goodPassword, ConfirmPassword: goodPassword,
	})
	if err != nil {
		t.Fatal(err)
	}
	u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeTooManyAttempts)
}

// block stores a hundred refused codes, of which the last one blocks, as
// [TestCodes_RefusedOnesAreToldAndBlocked] enters them.
func (u *factor) block(t *testing.T) {
	t.Helper()
	u.f.exec(t, fmt.Sprintf(`INSERT INTO personal_refused_codes (account_id, refused, blocks, noticed)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT %d, %d + i, i = 100, FALSE FROM n`,
		u.in.UserID, u.f.clock.Now().Add(-time.Second).UnixMicro()))
	u.wantTry(t, at(t, abroad), u.next(), personal.CodeCodesBlocked)
	(&resident{u, t}).signIn(home)
}

// told returns how many notices of refused codes were mailed.
func (f *fixture) told(t *testing.T) (n int) {
	t.Helper()
	f.drain(t)
	for _, m := range f.host.Mails() {
		if m.Subject == "Wrong codes were entered with your password" {
			n++
		}
	}
	return n
}

func TestCodes_RefusedOnesAreToldAndBlocked(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		u := enrolled(t, url)
		f := u.f
		wantTold := func(want int) {
			t.Helper()
			if got := f.told(t); got != want {
				t.Errorf("got %d notices, want %d", got, want)
			}
		}
		for range 5 { // where the user is fully known
			u.wantTry(t, at(t, home), u.wrong(), personal.CodeInvalidCode)
		}
		code := u.code()
		u.wantTry(t, at(t, home), code, "")
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
		wantWrongCode(t, uses["export"](t.Context(), f.service, u.in, code)) // without an address, and used
		wantTold(0)
		u.wantTry(t, at(t, "198.51.100.9"), "malformed", personal.CodeInvalidCode)
		wantTold(1)
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
		f.clock.Advance(24*time.Hour - time.Second)
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
		wantTold(1)
		f.clock.Advance(time.Second)
		u.wantTry(t, at(t, "198.51.100.77"), u.next(), "") // resets nothing
		for range 94 {
			f.clock.Advance(15 * time.Minute)
			u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
		}
		wantTold(2)
		u.wantTry(t, at(t, "198.51.100.78"), u.next(), "") // 99 were refused
		f.clock.Advance(6 * time.Hour)
		(&resident{u, t}).signIn(home)
		wantWrongCode(t, uses["export"](at(t, abroad), f.service, u.in, u.wrong()))
		wantTold(3)
		last := f.clock.Now()

		f.clock.Advance(time.Hour)
		for range 20 { // it costs none of the ten codes
			u.wantTry(t, at(t, abroad), u.code(), personal.CodeCodesBlocked)
			u.wantTry(t, t.Context(), u.wrong(), personal.CodeCodesBlocked)
			f.clock.Advance(time.Minute)
		}
		u.wantTry(t, at(t, abroad), "", personal.CodeCodeRequired)
		wantCode(t, uses["two_factor_codes"](at(t, abroad), f.service, u.in, u.next()), "") // by a session
		u.wantTry(t, at(t, home), u.next(), "")
		e, err := f.service.Explain(t.Context(), personal.ExplainRequest{Login: "ada"})
		want := personal.Verdict{Reason: personal.ReasonCodesBlocked, Action: personal.ActionLiftLimits, Until: last.Add(30 * 24 * time.Hour)}
		if err != nil || len(e.Verdicts) == 0 || e.Verdicts[0] != want {
			t.Errorf("got %+v and error %v, want %+v first", e.Verdicts, err, want)
		}
		f.clock.Advance(last.Add(30*24*time.Hour - time.Microsecond).Sub(f.clock.Now()))
		u.wantTry(t, at(t, abroad), u.code(), personal.CodeCodesBlocked)
		f.clock.Advance(time.Microsecond)
		u.wantTry(t, at(t, abroad), u.code(), "")
	})
}

func TestCodes_BlockEnds(t *testing.T) {
	for name, end := range map[string]struct {
		do      func(t *testing.T, u *factor)
		blocked bool
	}{
		"password/": {func(t *testing.T, u *factor) {
			wantCode(t, uses["password"](at(t, home), u.f.service, u.in, u.next()), "")
			u.f.exec(t, "UPDATE personal_known_addresses SET credential_version = NULL")
		}, false},
		"a recovery code": {func(t *testing.T, u *factor) { u.wantTry(t, at(t, abroad), u.recoveryCode(), "") }, false},
		"a recovery code in an operation": {func(t *testing.T, u *factor) {
			wantCode(t, uses["export"](t.Context(), u.f.service, u.in, u.recoveryCode()), "")
		}, false},
		"an administrator": {func(t *testing.T, u *factor) {
			if err := u.f.service.LiftLimits(t.Context(), personal.LiftLimitsRequest{UserID: u.in.UserID}); err != nil {
				t.Fatal(err)
			}
		}, false},
		"not a correct code at home": {func(t *testing.T, u *factor) { u.wantTry(t, at(t, home), u.next(), "") }, true},
		"not a correct code in an operation": {func(t *testing.T, u *factor) {
			wantCode(t, uses["export"](at(t, abroad), u.f.service, u.in, u.next()), "")
		}, true},
		"not a recovery": {func(t *testing.T, u *factor) {
			(&resident{u, t}).recover(home)
			u.wantTry(t, at(t, home), u.next(), "") // fully known for codes
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := enrolled(t, testdb.SQLite(t))
			u.block(t)
			end.do(t, u)
			password := goodPassword
			if name == "password/" {
				password = otherPassword
			}
			want := personal.Code("")
			if end.blocked {
				want = personal.CodeCodesBlocked
			}
			_, err := u.f.service.Authorize(at(t, "198.51.100.9"), personal.AuthorizeRequest{Login: "ada", Password: password, Code: u.next()})
			wantCode(t, err, want)
		})
	}
}

func TestCodes_AreNotLimitedWithThrottlingOff(t *testing.T) {
	f := offering(t, testdb.SQLite(t))
	u := f.enrol(t, "ada")
	for range 101 {
		u.wantTry(t, at(t, abroad), u.wrong(), personal.CodeInvalidCode)
	}
	u.wantTry(t, at(t, abroad), u.code(), "")
	if n := f.told(t); n != 0 {
		t.Errorf("got %d notices of refused codes, want none", n)
	}
}

// An address is known for its own account only, even if the login of one account is the
// e-mail of another (imported).
func TestCodes_KnownAddressIsOfTheAccountItself(t *testing.T) {
	f, h := guarded(t, testdb.SQLite(t))
	f.offer(t, f.store, h)
	u := f.enrol(t, "ada")
	f.register(t, "bob")
	f.exec(t, "UPDATE personal_accounts SET login = 'bob@example.com', login_key = 'bob@example.com' WHERE login = 'ada'")
	f.wantTry(t, abroad, "bob", goodPassword, "")
	for range 10 {
		wantWrongCode(t, uses["export"](at(t, home), f.service, u.in, u.wrong()))
	}
	wantCode(t, uses["export"](at(t, abroad), f.service, u.in, u.code()), personal.CodeTooManyAttempts)
}

// Behind a proxy that is not configured, all callers have its address: it gives none of them
// the privileges of a fully known one.
func TestCodes_SharedAddressIsNotFullyKnown(t *testing.T) {
	u := enrolled(t, testdb.SQLite(t))
	ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("10.0.0.9"), Shared: true})
	u.wantTry(t, ctx, u.code(), "") // the user
	for range 3 {
		u.wantTry(t, ctx, u.wrong(), personal.CodeInvalidCode)
	}
	if got := u.f.told(t); got != 1 {
		t.Errorf("got %d notices of three refused codes, want 1", got)
	}
}
