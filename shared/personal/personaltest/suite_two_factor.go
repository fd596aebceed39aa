package personaltest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// factorUser is a user with a second factor.
type factorUser struct {
	user
	secret        string
	used          string // the code that confirmed the second factor
	recoveryCodes []string
}

// code returns the code that the user's app shows next, which is valid already. A test that
// needs another one takes a recovery code: the module may judge a later code too early, or
// the present one too late.
func (u factorUser) code() string { return Code(u.secret, time.Now().Add(CodePeriod)) }

// recoveryCode returns a recovery code that was not returned before.
func (u *factorUser) recoveryCode() string {
	code := u.recoveryCodes[0]
	u.recoveryCodes = u.recoveryCodes[1:]
	return code
}

// verified creates an account with a verified e-mail, which may have a second factor.
func (s *suite) verified(t *testing.T) user {
	t.Helper()
	u := s.register(t)
	_, err := s.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.Credentials, Password: Password})
	if personal.CodeOf(err) == personal.CodeNotFound {
		t.Fatal("the module does not offer second factors: it needs their setting and a secret key")
	}
	wantCode(t, err, personal.CodeEmailUnverified)
	mail := s.awaitMail(t, 1, u.email, func(m personal.Mail) bool { return m.Subject == verificationSubject })
	if _, err := s.confirmEmail(t.Context(), tokenIn(t, mail)); err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	return u
}

// begin makes a secret for the user.
func (s *suite) begin(t *testing.T, c personal.Credentials) string {
	t.Helper()
	secret, err := s.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: c, Password: Password})
	if err != nil {
		t.Fatalf("making a secret: %v", err)
	}
	return secret.Secret
}

func (s *suite) confirmFactor(t *testing.T, c personal.Credentials, code string) (personal.ConfirmedTwoFactor, error) {
	return s.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: c, Code: code})
}

// enrol creates an account with a second factor.
func (s *suite) enrol(t *testing.T) factorUser {
	t.Helper()
	u := factorUser{user: s.verified(t)}
	s.switchOn(t, &u)
	return u
}

// switchOn switches the second factor of a user on.
func (s *suite) switchOn(t *testing.T, u *factorUser) {
	t.Helper()
	u.secret = s.begin(t, u.Credentials)
	s.confirmSecret(t, u)
}

// switchOnWith is switchOn with a proof.
func (s *suite) switchOnWith(t *testing.T, u *factorUser, proof string) {
	t.Helper()
	secret, err := s.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.Credentials, Proof: proof})
	if err != nil {
		t.Fatalf("making a secret with a proof: %v", err)
	}
	u.secret = secret.Secret
	s.confirmSecret(t, u)
}

func (s *suite) confirmSecret(t *testing.T, u *factorUser) {
	t.Helper()
	u.used = Code(u.secret, time.Now())
	confirmed, err := s.confirmFactor(t, u.Credentials, u.used)
	if err != nil {
		t.Fatalf("confirming a second factor: %v", err)
	}
	u.Credentials, u.recoveryCodes = confirmed.Credentials, confirmed.RecoveryCodes
}

// authorize signs in with a code.
func (s *suite) authorize(t *testing.T, login, password, code string) (personal.SignedIn, error) {
	return s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: password, Code: code})
}

func testTwoFactor(t *testing.T, s *suite) {
	u := s.verified(t)
	other := s.signIn(t, u.login, Password)
	secret, err := s.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.Credentials, Password: Password})
	if err != nil {
		t.Fatalf("making a secret: %v", err)
	}
	if len(secret.Secret) != 32 || !strings.HasPrefix(secret.URI, "otpauth://totp/") || !strings.Contains(secret.URI, secret.Secret) {
		t.Fatal("got a secret that is not 32 characters of base32 within an otpauth URI")
	}
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.TwoFactor {
		t.Fatalf("before the confirmation: got two_factor %t, error %v; want none", p.TwoFactor, err)
	}
	s.signIn(t, u.login, Password) // a secret that waits counts for nothing
	used := Code(secret.Secret, time.Now())
	former := u.Credentials
	confirmed, err := s.confirmFactor(t, former, used)
	if err != nil || len(confirmed.RecoveryCodes) != 10 {
		t.Fatalf("confirming: got %d recovery codes, error %v; want 10", len(confirmed.RecoveryCodes), err)
	}
	if u.Credentials = confirmed.Credentials; s.alive(t, former) || u.Credentials.UserID != former.UserID {
		t.Error("after the confirmation: want a new pair in place of the former one")
	}
	f := factorUser{u, secret.Secret, used, confirmed.RecoveryCodes}
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || !p.TwoFactor {
		t.Fatalf("after the confirmation: got two_factor %t, error %v; want one", p.TwoFactor, err)
	}
	if s.alive(t, other) {
		t.Error("another session is still valid after the confirmation")
	}
	code, recovery := f.code(), f.recoveryCode()
	for _, attempt := range []struct {
		name, password, code string
		want                 personal.Code
	}{
		{"wrong password", "not the password", code, personal.CodeInvalidCredentials},
		{"no code", Password, "", personal.CodeCodeRequired},
		{"malformed code", Password, "code", personal.CodeInvalidCode},
		{"code of the confirmation", Password, used, personal.CodeInvalidCode},
		{"code that was not judged before", Password, code[:3] + " " + code[3:], ""},
		{"the same code again", Password, code, personal.CodeInvalidCode},
		{"recovery code", Password, recovery, ""},
		{"recovery code again", Password, recovery, personal.CodeInvalidCode},
		{"recovery code, written otherwise", Password, strings.ReplaceAll(strings.ToLower(f.recoveryCode()), "-", " "), ""},
	} {
		in, err := s.authorize(t, u.login, attempt.password, attempt.code)
		if got := personal.CodeOf(err); got != attempt.want || err == nil && !in.Profile.TwoFactor {
			t.Errorf("%s: got code %q (%v), two_factor %t; want %q", attempt.name, got, err, in.Profile.TwoFactor, attempt.want)
		}
	}
}

// authorizedOperations are the operations that need the code of a user who has a second
// factor, with valid parameters otherwise. Each may end the caller's session.
func (s *suite) authorizedOperations(t *testing.T) map[string]func(c personal.Credentials, password, code string) error {
	ctx := t.Context()
	return map[string]func(c personal.Credentials, password, code string) error{
		"ChangePassword": func(c personal.Credentials, password, code string) error {
			_, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
				Credentials: c, OldPassword: password, Password: Password + "!", ConfirmPassword: Password + "!", Code: code,
			})
			return err
		},
		"ChangeEmail": func(c personal.Credentials, password, code string) error {
			_, email := s.newLogin()
			return s.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, Password: password, Email: email, Code: code})
		},
		"Export": func(c personal.Credentials, password, code string) error {
			_, err := s.service.Export(ctx, personal.ExportRequest{Credentials: c, Password: password, Code: code})
			return err
		},
		"Delete": func(c personal.Credentials, password, code string) error {
			_, err := s.service.Delete(ctx, personal.DeleteRequest{Credentials: c, Password: password, Code: code})
			return err
		},
		"RenewRecoveryCodes": func(c personal.Credentials, password, code string) error {
			_, err := s.service.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{Credentials: c, Password: password, Code: code})
			return err
		},
		"RemoveOwnTwoFactor": func(c personal.Credentials, password, code string) error {
			_, err := s.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: c, Password: password, Code: code})
			return err
		},
	}
}

func testTwoFactorOperations(t *testing.T, s *suite) {
	for name, call := range s.authorizedOperations(t) {
		t.Run(name, func(t *testing.T) {
			u := s.enrol(t)
			password, required, mismatch := "password", personal.FieldErrorRequired, personal.FieldErrorMismatch
			if name == "ChangePassword" {
				password = "old_password"
			}
			used := u.recoveryCode()
			if _, err := s.authorize(t, u.login, Password, used); err != nil {
				t.Fatalf("signing in: %v", err)
			}
			wantCode(t, call(personal.Credentials{UserID: u.Credentials.UserID}, Password, u.code()), personal.CodeUnauthenticated)
			for _, attempt := range []struct {
				password, code string
				want           personal.FieldErrors
			}{
				{"", "", personal.FieldErrors{password: required, "code": required}},
				{"not the password", "", personal.FieldErrors{password: mismatch, "code": required}},
				{"not the password", used, personal.FieldErrors{password: mismatch}}, // a code is judged only when nothing else is wrong
				{Password, "", personal.FieldErrors{"code": required}},
				{Password, "000", personal.FieldErrors{"code": mismatch}},
				{Password, u.used, personal.FieldErrors{"code": mismatch}},
				{Password, used, personal.FieldErrors{"code": mismatch}},
			} {
				wantFieldErrors(t, call(u.Credentials, attempt.password, attempt.code), personal.CodeValidationFailed, attempt.want)
			}
			if err := call(u.Credentials, Password, u.code()); err != nil {
				t.Errorf("with a code: %v", err)
			}
		})
	}
}

func testTwoFactorChanges(t *testing.T, s *suite) {
	ctx := t.Context()
	u := s.enrol(t)
	_, err := s.service.BeginTwoFactor(ctx, personal.BeginTwoFactorRequest{Credentials: u.Credentials, Password: "not the password"})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorMismatch})
	_, err = s.service.BeginTwoFactor(ctx, personal.BeginTwoFactorRequest{Credentials: u.Credentials, Password: Password})
	wantCode(t, err, personal.CodeTwoFactorOn)

	former := u.recoveryCodes
	u.recoveryCodes, err = s.service.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{
		Credentials: u.Credentials, Password: Password, Code: former[0],
	})
	if err != nil || len(u.recoveryCodes) != 10 {
		t.Fatalf("renewing recovery codes: got %d, error %v; want 10", len(u.recoveryCodes), err)
	}
	_, err = s.authorize(t, u.login, Password, former[1])
	wantCode(t, err, personal.CodeInvalidCode)
	other, err := s.authorize(t, u.login, Password, u.recoveryCode())
	if err != nil {
		t.Fatalf("signing in with a new recovery code: %v", err)
	}
	kept, err := s.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: u.Credentials, Password: Password,
		Code: u.recoveryCode()})
	if err != nil {
		t.Fatalf("removing the second factor: %v", err)
	}
	if s.alive(t, other.Credentials) || s.alive(t, u.Credentials) || !s.alive(t, kept) {
		t.Error("after the removal: want the caller's session with a new pair, and no other one")
	}
	u.Credentials = kept
	if in, err := s.authorize(t, u.login, Password, "ignored"); err != nil || in.Profile.TwoFactor {
		t.Errorf("after the removal: got two_factor %t, error %v; want a sign-in without a code", in.Profile.TwoFactor, err)
	}
	s.switchOn(t, &u)
	_, err = s.authorize(t, u.login, Password, former[2])
	wantCode(t, err, personal.CodeInvalidCode)
}

// A client that has lost a response sends the same request again.
func testTwoFactorRepeats(t *testing.T, s *suite) {
	u := s.verified(t)
	former := u.Credentials
	code := Code(s.begin(t, former), time.Now())
	confirmed, err := s.confirmFactor(t, former, code)
	if err != nil {
		t.Fatalf("confirming a second factor: %v", err)
	}
	for name, c := range map[string]personal.Credentials{"former": former, "new": confirmed.Credentials} {
		again, err := s.confirmFactor(t, c, code)
		if err != nil || again.Credentials != confirmed.Credentials || !slices.Equal(again.RecoveryCodes, confirmed.RecoveryCodes) {
			t.Errorf("with the %s pair: got %d recovery codes, error %v; want the same response", name, len(again.RecoveryCodes), err)
		}
	}
	if s.alive(t, former) {
		t.Error("the former pair is valid in another operation")
	}
	_, err = s.confirmFactor(t, former, code)
	wantCode(t, err, personal.CodeUnauthenticated)
	_, err = s.confirmFactor(t, confirmed.Credentials, code)
	wantCode(t, err, personal.CodeTwoFactorOff)

	renew := func(code string) ([]string, error) {
		return s.service.RenewRecoveryCodes(t.Context(), personal.RenewRecoveryCodesRequest{
			Credentials: confirmed.Credentials, Password: Password, Code: code,
		})
	}
	used := confirmed.RecoveryCodes[0]
	codes, err := renew(used)
	if err != nil {
		t.Fatalf("renewing recovery codes: %v", err)
	}
	if again, err := renew(used); err != nil || !slices.Equal(again, codes) {
		t.Errorf("renewing again: got %d recovery codes, error %v; want the same response", len(again), err)
	}
	_, err = renew("000000")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorMismatch})
	_, err = renew(used)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorMismatch})
}

func testTwoFactorOff(t *testing.T, s *suite) {
	u := s.verified(t)
	for name, call := range s.authorizedOperations(t) {
		if name != "RenewRecoveryCodes" && name != "RemoveOwnTwoFactor" {
			continue
		}
		wantFieldErrors(t, call(u.Credentials, "not the password", ""), personal.CodeValidationFailed,
			personal.FieldErrors{"password": personal.FieldErrorMismatch, "code": personal.FieldErrorRequired})
		wantCode(t, call(u.Credentials, Password, "000000"), personal.CodeTwoFactorOff)
	}
	_, err := s.confirmFactor(t, u.Credentials, "")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorRequired})
	_, err = s.confirmFactor(t, u.Credentials, "000000")
	wantCode(t, err, personal.CodeTwoFactorOff)
	_, err = s.confirmFactor(t, personal.Credentials{UserID: u.Credentials.UserID}, "000000")
	wantCode(t, err, personal.CodeUnauthenticated)

	secret, other := s.begin(t, u.Credentials), s.signIn(t, u.login, Password)
	_, err = s.confirmFactor(t, other, Code(secret, time.Now()))
	wantCode(t, err, personal.CodeTwoFactorOff) // it waits in another session
	_, err = s.confirmFactor(t, u.Credentials, "code")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorMismatch})
	second := s.begin(t, u.Credentials)
	_, err = s.confirmFactor(t, u.Credentials, Code(secret, time.Now()))
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorMismatch}) // of an earlier secret
	fresh, err := s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: u.Credentials, OldPassword: Password, Password: Password + "!", ConfirmPassword: Password + "!", Code: "ignored",
	})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	_, err = s.confirmFactor(t, fresh, Code(second, time.Now()))
	wantCode(t, err, personal.CodeTwoFactorOff) // it was made with the former password
}

// No way around the second factor leads to an account without one.
func testTwoFactorStays(t *testing.T, s *suite) {
	ctx := t.Context()
	u := s.enrol(t)
	wantFactor := func(password string) {
		t.Helper()
		if _, err := s.authorize(t, u.login, password, ""); personal.CodeOf(err) != personal.CodeCodeRequired {
			t.Fatalf("signing in without a code: got %v, want %s", err, personal.CodeCodeRequired)
		}
	}
	if err := s.service.Recover(ctx, personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	recovery := s.awaitMail(t, 1, u.email, func(m personal.Mail) bool { return m.Subject == "Set a new password" })
	if _, err := s.recoverConfirm(ctx, tokenIn(t, recovery)); err != nil {
		t.Fatalf("recovering: %v", err)
	}
	password := Password + "!"
	wantFactor(password)

	in, err := s.authorize(t, u.login, password, u.recoveryCode())
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	_, email := s.newLogin()
	change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: password, Email: email, Code: u.recoveryCode()}
	if err := s.service.ChangeEmail(ctx, change); err != nil {
		t.Fatalf("requesting an e-mail change: %v", err)
	}
	if _, err := s.confirmEmail(ctx, tokenIn(t, s.mailTo(t, email, 1))); err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	u.email = email
	wantFactor(password)

	_, err = s.service.Delete(ctx, personal.DeleteRequest{Credentials: in.Credentials, Password: password, Code: u.recoveryCode()})
	if err != nil {
		t.Fatalf("deleting the account: %v", err)
	}
	_, err = s.authorize(t, u.login, password, "")
	wantCode(t, err, personal.CodeAccountDisabled) // judged before the code
	if _, err := s.undo(t, s.deletionToken(t, u.user)); err != nil {
		t.Fatalf("undoing the deletion: %v", err)
	}
	wantFactor(password)
	if _, err := s.authorize(t, u.login, password, u.code()); err != nil {
		t.Errorf("signing in with a code at the end: %v", err)
	}
}

// The same code in many sign-ins at once opens one session.
func testTwoFactorRace(t *testing.T, s *suite) {
	const callers = 8
	u := s.enrol(t)
	for kind, code := range map[string]string{"code": u.code(), "recovery code": u.recoveryCode()} {
		codes := together(callers, func(int) personal.Code {
			_, err := s.authorize(t, u.login, Password, code)
			return personal.CodeOf(err)
		})
		counts := map[personal.Code]int{}
		for _, code := range codes {
			counts[code]++
		}
		if counts[""] != 1 || counts[personal.CodeInvalidCode] != callers-1 {
			t.Errorf("%s in %d sign-ins: got %v, want one success", kind, callers, counts)
		}
	}
}

// Removing the second factor of a user ends their sessions.
func testRemoveTwoFactor(t *testing.T, s *administrationSuite) {
	u := s.enrol(t)
	id := u.Credentials.UserID
	if record := s.record(t, id); !record.TwoFactor {
		t.Error("the record does not show the second factor")
	}
	for range 2 { // without a second factor it changes nothing
		if err := s.administration.RemoveTwoFactor(t.Context(), personal.RemoveTwoFactorRequest{UserID: id}); err != nil {
			t.Fatalf("removing the second factor: %v", err)
		}
	}
	if s.record(t, id).TwoFactor || s.alive(t, u.Credentials) {
		t.Error("after the removal: the record shows a second factor, or the session is still valid")
	}
	in, err := s.authorize(t, u.login, Password, "")
	if err != nil || in.Profile.TwoFactor {
		t.Errorf("after the removal: got two_factor %t, error %v; want a sign-in without a code", in.Profile.TwoFactor, err)
	}
	s.awaitEvents(t, id, personal.EventTwoFactorOn, personal.EventTwoFactorOff)
}
