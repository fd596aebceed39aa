package personaltest

import (
	"context"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func testRecovery(t *testing.T, s *suite) {
	u := s.register(t)
	const fresh = "recovered, and safe again"
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login, Email: u.email}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	mail := s.mailTo(t, u.email, 1)
	if strings.Contains(mail.Text+mail.HTML+mail.Subject, u.login) {
		t.Fatal("the mail contains user input")
	}
	token := tokenIn(t, mail)
	if !s.alive(t, u.Credentials) {
		t.Fatal("requesting a recovery ended a session")
	}
	confirm := func(token, password string) error {
		recovered, err := s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{Token: token, Password: password,
			ConfirmPassword: password})
		wantUserOf(t, u, recovered.UserID, err)
		return err
	}
	wantFieldErrors(t, confirm(token, "short"), personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorTooShort})
	wantFieldErrors(t, confirm(token, u.email), personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorTooCommon})
	wantCode(t, confirm(strings.Repeat("A", 43), fresh), personal.CodeInvalidToken)
	wantCode(t, confirm("no token", fresh), personal.CodeInvalidToken)
	if err := confirm(token, fresh); err != nil {
		t.Fatalf("confirming the recovery: %v", err)
	}
	if s.alive(t, u.Credentials) {
		t.Fatal("a session is still valid after the recovery")
	}
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)
	s.signIn(t, u.login, fresh)
	wantCode(t, confirm(token, fresh+" twice"), personal.CodeInvalidToken)
}

func testRecoveryWithoutMatch(t *testing.T, s *suite) {
	u, other := s.register(t), s.register(t)
	for _, r := range []personal.RecoverRequest{
		{Email: "nobody-here@example.com"},
		{Login: "nobody-here"},
		{Login: u.login, Email: other.email},
	} {
		if err := s.service.Recover(t.Context(), r); err != nil {
			t.Fatalf("requesting a recovery without a matching account: %v", err)
		}
	}
	err := s.service.Recover(t.Context(), personal.RecoverRequest{})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"login": personal.FieldErrorRequired,
		"email": personal.FieldErrorRequired})

	// Requests are handled in order: when this mail has arrived, earlier ones have too.
	last := s.register(t)
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Email: strings.ToUpper(last.email)}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	s.mailTo(t, last.email, 1)
	for _, m := range s.host.Mails() {
		if m.Subject == verificationSubject {
			continue
		}
		if m.To == u.email || m.To == other.email || strings.HasPrefix(m.To, "nobody") {
			t.Fatalf("got a mail to %s, want none", m.To)
		}
	}
}

func testVerification(t *testing.T, s *suite) {
	resend := func(login, email string) error {
		return s.service.ResendVerification(t.Context(), personal.ResendVerificationRequest{Login: login, Email: email})
	}
	u := s.register(t)
	if u.Profile.EmailVerified {
		t.Fatal("a new e-mail is confirmed already")
	}
	mail := s.awaitMail(t, 1, u.email, func(m personal.Mail) bool { return m.Subject == verificationSubject })
	if strings.Contains(mail.Text+mail.HTML+mail.Subject, u.login) {
		t.Fatal("the mail contains user input")
	}
	token := tokenIn(t, mail)
	wantInvalidToken(t, s.recoverConfirm, token)
	id, err := s.confirmEmailOf(t.Context(), token, "another-login") // which is ignored: the account does not wait
	if err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	wantUserOf(t, u, id, err)
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || !p.EmailVerified || p.Email != u.email {
		t.Fatalf("after the confirmation: got e-mail %q, verified %t, error %v; want %q, confirmed", p.Email, p.EmailVerified, err, u.email)
	}
	if in, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password}); err != nil ||
		!in.Profile.EmailVerified {
		t.Fatalf("signing in: got verified %t, error %v; want a confirmed e-mail", in.Profile.EmailVerified, err)
	}
	wantInvalidToken(t, s.confirmEmail, token)
	if err := resend(u.login, u.email); err != nil {
		t.Fatalf("requesting a mail for a confirmed e-mail: %v", err)
	}
	wantFieldErrors(t, resend("", ""), personal.CodeValidationFailed,
		personal.FieldErrors{"login": personal.FieldErrorRequired, "email": personal.FieldErrorRequired})
}

// testWaiting has accounts wait for their addresses.
func testWaiting(t *testing.T, s *suite) {
	waiting := s.register(t)
	if waiting.Credentials.UserID != 0 {
		t.Fatal("a registration opened a session: the Service does not require verified e-mails")
	}
	isVerification := func(m personal.Mail) bool { return m.Subject == verificationSubject }
	token := tokenIn(t, s.awaitMail(t, 1, waiting.email, isVerification))
	confirm := func(login string) error {
		_, err := s.confirmEmailOf(t.Context(), token, login)
		return err
	}
	wantLogin := func(login string, want personal.FieldErrorCode) {
		t.Helper()
		wantFieldErrors(t, confirm(login), personal.CodeValidationFailed, personal.FieldErrors{"login": want})
	}
	authorize := personal.AuthorizeRequest{Login: waiting.login, Password: Password}
	for range 9 {
		wantLogin("", personal.FieldErrorRequired)
		wantLogin(waiting.email, personal.FieldErrorMismatch)
	}
	_, err := s.service.Authorize(t.Context(), authorize)
	wantCode(t, err, personal.CodeEmailUnverified)
	if err := confirm(strings.ToUpper(waiting.login)); err != nil {
		t.Fatalf("confirming the e-mail with the login: %v", err)
	}
	wantCode(t, confirm(waiting.login), personal.CodeInvalidToken)
	in, err := s.service.Authorize(t.Context(), authorize)
	if err != nil || !in.Profile.EmailVerified || in.Profile.Email != waiting.email {
		t.Fatalf("signing in: got e-mail %q, verified %t, error %v; want %q, verified", in.Profile.Email, in.Profile.EmailVerified, err,
			waiting.email)
	}

	guessed := s.register(t)
	token = tokenIn(t, s.awaitMail(t, 1, guessed.email, isVerification))
	for range 10 {
		wantLogin("another-login", personal.FieldErrorMismatch)
	}
	wantCode(t, confirm(guessed.login), personal.CodeInvalidToken)
}

func testChangeEmail(t *testing.T, s *suite) {
	u, other := s.register(t), s.register(t)
	_, fresh := s.newLogin()
	change := func(password, email string) error {
		return s.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: u.Credentials, Password: password, Email: email})
	}
	wantFieldErrors(t, change("not the password", "nowhere"), personal.CodeValidationFailed,
		personal.FieldErrors{"password": personal.FieldErrorMismatch, "email": personal.FieldErrorInvalidFormat})
	wantFieldErrors(t, change(Password, other.email), personal.CodeAlreadyExists, personal.FieldErrors{"email": personal.FieldErrorTaken})
	if err := change(Password, fresh); err != nil {
		t.Fatalf("requesting an e-mail change: %v", err)
	}
	token := tokenIn(t, s.mailTo(t, fresh, 1))
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.Email != u.email {
		t.Fatalf("before the confirmation: got e-mail %q, error %v; want %q", p.Email, err, u.email)
	}
	wantInvalidToken(t, s.recoverConfirm, token) // a token is valid for its own purpose only
	id, err := s.confirmEmailOf(t.Context(), token, "another-login")
	if err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	wantUserOf(t, u, id, err)
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.Email != fresh {
		t.Fatalf("after the confirmation: got e-mail %q, error %v; want %q", p.Email, err, fresh)
	}
	s.mailTo(t, u.email, 1) // the old address gets a notice
	wantInvalidToken(t, s.confirmEmail, token)
	_, err = s.confirmEmail(t.Context(), "")
	wantFieldErrors(t, err, personal.CodeValidationFailed,
		personal.FieldErrors{"token": personal.FieldErrorRequired})
	s.signIn(t, fresh, Password)
}

// recoverConfirm and confirmEmail redeem a token.
func (s *suite) recoverConfirm(ctx context.Context, token string) (int64, error) {
	recovered, err := s.service.RecoverConfirm(ctx, personal.RecoverConfirmRequest{Token: token, Password: Password + "!",
		ConfirmPassword: Password + "!"})
	return recovered.UserID, err
}

func (s *suite) confirmEmail(ctx context.Context, token string) (int64, error) {
	return s.confirmEmailOf(ctx, token, "")
}

func (s *suite) confirmEmailOf(ctx context.Context, token, login string) (int64, error) {
	return s.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{Token: token, Login: login})
}

func wantInvalidToken(t *testing.T, redeem func(context.Context, string) (int64, error), token string) {
	t.Helper()
	_, err := redeem(t.Context(), token)
	wantCode(t, err, personal.CodeInvalidToken)
}

// wantUserOf checks the user id that an operation with a mailed token has returned.
func wantUserOf(t *testing.T, u user, id int64, err error) {
	t.Helper()
	if want := u.Credentials.UserID; err == nil && id != want || err != nil && id != 0 {
		t.Fatalf("got the id of user %d with error %v, want that of user %d without one", id, err, want)
	}
}
