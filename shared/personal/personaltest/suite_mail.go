package personaltest

import (
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
		return s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{Token: token, Password: password, ConfirmPassword: password})
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
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"login": personal.FieldErrorRequired, "email": personal.FieldErrorRequired})

	// Requests are handled in order: when this mail has arrived, earlier ones have too.
	last := s.register(t)
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Email: strings.ToUpper(last.email)}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	s.mailTo(t, last.email, 1)
	for _, m := range s.host.Mails() {
		if m.To == u.email || m.To == other.email || strings.HasPrefix(m.To, "nobody") {
			t.Fatalf("got a mail to %s, want none", m.To)
		}
	}
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
	wantCode(t, s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: token, Password: Password, ConfirmPassword: Password,
	}), personal.CodeInvalidToken) // a token is valid for its own purpose only
	if err := s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token}); err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.Email != fresh {
		t.Fatalf("after the confirmation: got e-mail %q, error %v; want %q", p.Email, err, fresh)
	}
	s.mailTo(t, u.email, 1) // the old address gets a notice
	wantCode(t, s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token}), personal.CodeInvalidToken)
	wantFieldErrors(t, s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{}), personal.CodeValidationFailed,
		personal.FieldErrors{"token": personal.FieldErrorRequired})
	s.signIn(t, fresh, Password)
}
