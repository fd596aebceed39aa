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
		t.Fatalf("asking for a recovery: %v", err)
	}
	mail := s.mailTo(t, u.email, 1)
	if strings.Contains(mail.Text+mail.HTML+mail.Subject, u.login) {
		t.Fatal("the mail holds what a user typed")
	}
	token := tokenIn(t, mail)
	if !s.alive(t, u.Credentials) {
		t.Fatal("asking for a recovery ended a session")
	}
	confirm := func(token, password string) error {
		return s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{Token: token, Password: password, ConfirmPassword: password})
	}
	wantFaults(t, confirm(token, "short"), personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorTooShort})
	wantFaults(t, confirm(token, u.email), personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorTooCommon})
	wantCode(t, confirm(strings.Repeat("A", 43), fresh), personal.CodeInvalidToken)
	wantCode(t, confirm("no token", fresh), personal.CodeInvalidToken)
	if err := confirm(token, fresh); err != nil {
		t.Fatalf("confirming the recovery: %v", err)
	}
	if s.alive(t, u.Credentials) {
		t.Fatal("a session outlived the recovery")
	}
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)
	s.signIn(t, u.login, fresh)
	wantCode(t, confirm(token, fresh+" twice"), personal.CodeInvalidToken)
}

func testRecoveryOfNobody(t *testing.T, s *suite) {
	u, other := s.register(t), s.register(t)
	for _, r := range []personal.RecoverRequest{
		{Email: "nobody-here@example.com"},
		{Login: "nobody-here"},
		{Login: u.login, Email: other.email},
	} {
		if err := s.service.Recover(t.Context(), r); err != nil {
			t.Fatalf("asking for a recovery of nobody's account: %v", err)
		}
	}
	err := s.service.Recover(t.Context(), personal.RecoverRequest{})
	wantFaults(t, err, personal.CodeValidationFailed, personal.FieldErrors{"login": personal.FieldErrorRequired, "email": personal.FieldErrorRequired})

	// What was asked for first is dealt with first: when this one's mail is there,
	// the others' would be.
	last := s.register(t)
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Email: strings.ToUpper(last.email)}); err != nil {
		t.Fatalf("asking for a recovery: %v", err)
	}
	s.mailTo(t, last.email, 1)
	for _, m := range s.host.Mails() {
		if m.To == u.email || m.To == other.email || strings.HasPrefix(m.To, "nobody") {
			t.Fatal("a mail was sent that nobody should get")
		}
	}
}

func testChangeEmail(t *testing.T, s *suite) {
	u, other := s.register(t), s.register(t)
	_, fresh := s.newLogin()
	change := func(password, email string) error {
		return s.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: u.Credentials, Password: password, Email: email})
	}
	wantFaults(t, change("not the password", "nowhere"), personal.CodeValidationFailed,
		personal.FieldErrors{"password": personal.FieldErrorMismatch, "email": personal.FieldErrorInvalidFormat})
	wantFaults(t, change(Password, other.email), personal.CodeAlreadyExists, personal.FieldErrors{"email": personal.FieldErrorTaken})
	if err := change(Password, fresh); err != nil {
		t.Fatalf("asking for another e-mail: %v", err)
	}
	token := tokenIn(t, s.mailTo(t, fresh, 1))
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.Email != u.email {
		t.Fatalf("the e-mail changed before it was confirmed: %q, %v", p.Email, err)
	}
	wantCode(t, s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: token, Password: Password, ConfirmPassword: Password,
	}), personal.CodeInvalidToken) // a token is good for its purpose alone
	if err := s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token}); err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	if p, err := s.service.Profile(t.Context(), u.Credentials); err != nil || p.Email != fresh {
		t.Fatalf("the e-mail after its confirmation: %q, %v", p.Email, err)
	}
	s.mailTo(t, u.email, 1) // the old address is told
	wantCode(t, s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: token}), personal.CodeInvalidToken)
	wantFaults(t, s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{}), personal.CodeValidationFailed,
		personal.FieldErrors{"token": personal.FieldErrorRequired})
	s.signIn(t, fresh, Password)
}
