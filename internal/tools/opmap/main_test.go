package main

import (
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

func TestMap_HasWhatAnOperationConsistsOf(t *testing.T) {
	t.Chdir("../../..")
	m, err := read()
	if err != nil {
		t.Fatal(err)
	}
	page, err := m.page()
	if err != nil {
		t.Fatal(err)
	}
	for operation, want := range map[string]string{
		"Authorize": "|auth|authorize.go|accounts.go, sessions.go, twofactorcode.go|signin.go|" +
			"code_refused, new_address, recovery_code_used|login.with_email, session.absolute, session.idle, session.proof_lifetime," +
			" throttle.guess…, throttle.sign_in_account, throttle.sign_in_address|suite_sessions.go|",
		"ResendVerification": "|email_resend|verification.go|accounts.go, jobs.go, verification.go|" +
			"verification.go, personaladmin/internal/support/support.go|verification|login.with_email, registration.email_verification," +
			" registration.url, registration.verification_lifetime, throttle.recover, throttle.recover_all|suite_mail.go|",
		"RemoveTwoFactor": "|twofactor.go|twofactor.go|personaladmin/internal/users/actions.go|two_factor_off||suite_two_factor.go|",
	} {
		row := ""
		for line := range strings.Lines(page) {
			if rest, ok := strings.CutPrefix(line, "|"+operation+"|"); ok {
				row = "|" + strings.TrimSpace(rest)
			}
		}
		if row != want {
			t.Errorf("the row of %s is\n%s\nwant\n%s", operation, row, want)
		}
	}
	if _, err := m.row(personal.Operation{Name: "Teleport"}); err == nil {
		t.Error("an operation without a rule has a row")
	}
}
