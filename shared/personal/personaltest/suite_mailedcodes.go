package personaltest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

var mailedCode = regexp.MustCompile(`(?m)^[0-9A-Z]{4}-[0-9A-Z]{4}$`)

// mailCode starts an attempt, for the user of a session if there is one, and returns it with the n-th code that
// was mailed to the user.
func (s *suite) mailCode(t *testing.T, u user, c personal.Credentials, n int) (attempt, code string) {
	t.Helper()
	r := personal.BeginMailedCodeRequest{Login: u.login}
	if c.UserID != 0 {
		r = personal.BeginMailedCodeRequest{Credentials: c, Purpose: personal.MailedCodeProve}
	}
	started, err := s.service.BeginMailedCode(t.Context(), r)
	if err != nil || len(started.Attempt) != 43 {
		t.Fatalf("asking for a code: got %q, %v", started.Attempt, err)
	}
	mail := s.awaitMail(t, n, u.email, func(m personal.Mail) bool { return mailedCode.MatchString(m.Text) })
	return started.Attempt, mailedCode.FindString(mail.Text)
}

func testMailedCodes(t *testing.T, s *suite) {
	u := s.verified(t)
	try := func(attempt, mailed, code string) (personal.SignedIn, error) {
		return s.service.AuthorizeMailedCode(t.Context(), personal.AuthorizeMailedCodeRequest{Attempt: attempt, MailedCode: mailed, Code: code})
	}
	_, err := try("", "", "")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"attempt": personal.FieldErrorRequired, "mailed_code": personal.FieldErrorRequired,
	})
	_, err = s.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"login": personal.FieldErrorRequired, "email": personal.FieldErrorRequired})
	nobody, err := s.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Login: "nobody-here"})
	if err != nil || len(nobody.Attempt) != 43 {
		t.Errorf("asking for a code for nobody: got %q, %v, want an attempt as for a user", nobody.Attempt, err)
	}
	attempt, code := s.mailCode(t, u, personal.Credentials{}, 1)
	for name, r := range map[string][2]string{
		"attempt without a code": {nobody.Attempt, code}, "made-up attempt": {strings.Repeat("A", 43), code}, "wrong code": {attempt, "UUUU-UUUU"},
	} {
		if _, err := try(r[0], r[1], ""); personal.CodeOf(err) != personal.CodeInvalidCode {
			t.Errorf("%s: got %v, want invalid_code", name, err)
		}
	}
	in, err := try(attempt, " "+strings.ToLower(code), "")
	if err != nil || in.Credentials.UserID != u.Credentials.UserID || in.Proof.Proof == "" {
		t.Fatalf("signing in: got user %d, error %v; want user %d and a proof", in.Credentials.UserID, err, u.Credentials.UserID)
	}
	if _, err := s.service.Export(t.Context(), personal.ExportRequest{Credentials: in.Credentials, Proof: in.Proof.Proof}); err != nil {
		t.Errorf("exporting with the proof of the sign-in: %v", err)
	}
	_, err = try(attempt, code, "")
	wantCode(t, err, personal.CodeInvalidCode)

	attempt, code = s.mailCode(t, u, in.Credentials, 2)
	prove := personal.ProveRequest{Credentials: in.Credentials, Attempt: attempt, MailedCode: "UUUU-UUUU"}
	_, err = s.service.Prove(t.Context(), prove)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"mailed_code": personal.FieldErrorMismatch})
	prove.MailedCode = code
	if _, err = s.service.Prove(t.Context(), prove); err != nil {
		t.Errorf("proving: %v", err)
	}
	_, err = try(attempt, code, "")
	wantCode(t, err, personal.CodeInvalidCode)
}

func testMailedCodeSecondFactor(t *testing.T, s *suite) {
	f := s.enrol(t)
	attempt, mailed := s.mailCode(t, f.user, personal.Credentials{}, 1)
	r := personal.AuthorizeMailedCodeRequest{Attempt: attempt, MailedCode: mailed}
	_, err := s.service.AuthorizeMailedCode(t.Context(), r)
	wantCode(t, err, personal.CodeCodeRequired)
	r.Code = "000000"
	_, err = s.service.AuthorizeMailedCode(t.Context(), r)
	wantCode(t, err, personal.CodeInvalidCode)
	r.Code = f.recoveryCode()
	if _, err = s.service.AuthorizeMailedCode(t.Context(), r); err != nil {
		t.Errorf("signing in with both codes: %v", err)
	}
}

func testMailedCodeRace(t *testing.T, s *suite) {
	u := s.verified(t)
	attempt, code := s.mailCode(t, u, personal.Credentials{}, 1)
	codes := together(32, func(int) personal.Code {
		_, err := s.service.AuthorizeMailedCode(t.Context(), personal.AuthorizeMailedCodeRequest{Attempt: attempt, MailedCode: code})
		return personal.CodeOf(err)
	})
	slices.Sort(codes)
	if codes[0] != "" || codes[1] != personal.CodeInvalidCode || codes[31] != personal.CodeInvalidCode {
		t.Errorf("got %q, want one success, and %s for the others", codes, personal.CodeInvalidCode)
	}
}
