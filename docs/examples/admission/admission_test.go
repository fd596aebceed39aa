package admission

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/cms-personal/personal/shared/personal"
)

func request(operation personal.OperationName, email string) personal.AdmissionRequest {
	return personal.AdmissionRequest{Operation: operation, Email: email}
}

// want checks the code of a decision and the only field error; "" for none.
func want(t *testing.T, what string, err error, code personal.Code, field string) {
	t.Helper()
	if own, ok := errors.AsType[*personal.AdmissionError](err); ok {
		var fields personal.FieldErrors
		for name, field := range own.FieldErrors {
			fields.Add(name, field.Code)
		}
		err = fields.Err()
	}
	if got := fmt.Sprint(err); personal.CodeOf(err) != code || field != "" && !strings.HasSuffix(got, ": "+field) {
		t.Errorf("%s: got %v, want %q %s", what, err, code, field)
	}
}

func TestInvites_BelongToOneLoginAndEmail(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "cms.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(CreateInvites + `; INSERT INTO invites (code) VALUES ('first'), ('second')`); err != nil {
		t.Fatal(err)
	}
	invites := &Invites{DB: db}
	as := func(login, code, email string) error {
		r := personal.AdmissionRequest{Operation: personal.OpRegister, Login: login, Email: email}
		return invites.Judge(personal.WithTransient(t.Context(), map[string]string{"invite": code}), r)
	}
	judge := func(code, email string) error { return as("anna", code, email) }
	want(t, "no invite", judge("", "anna@example.com"), personal.CodeValidationFailed, "invite=required")
	want(t, "an unknown invite", judge("third", "anna@example.com"), personal.CodeValidationFailed, "invite=mismatch")
	want(t, "no e-mail", judge("first", ""), personal.CodeValidationFailed, "email=invalid_format")
	for _, refused := range []string{"anna@example.com ", "<anna@example.com>", "Anna <anna@example.com>", "anna@example.com (home)",
		"anna@gmail"} {
		want(t, refused, judge("first", refused), personal.CodeValidationFailed, "email=invalid_format")
	}
	want(t, "a login that is too short", as("an", "first", "anna@example.com"), personal.CodeValidationFailed, "login=too_short")
	want(t, "an invite", judge("first", "anna@example.com"), "", "")
	want(t, "another attempt", judge("first", "Anna@Example.com"), "", "")
	for _, login := range []string{"boris", "Anna"} { // with required, several accounts can wait for one e-mail
		want(t, "login "+login, as(login, "first", "anna@example.com"), personal.CodeValidationFailed, "invite=mismatch")
	}
	want(t, "another attempt after others", judge("first", "anna@example.com"), "", "")
	want(t, "another e-mail", judge("first", "boris@example.com"), personal.CodeValidationFailed, "invite=mismatch")
	want(t, "another invite", judge("second", "boris@example.com"), "", "")
	if _, err := db.Exec(`UPDATE invites SET taken = taken - 3601`); err != nil {
		t.Fatal(err)
	}
	want(t, "an hour later", judge("first", "anna@example.com"), personal.CodeValidationFailed, "invite=mismatch")
	want(t, "a sign-in", invites.Judge(t.Context(), request(personal.OpAuthorize, "")), "", "")
}

func TestTerms_MustBeAccepted(t *testing.T) {
	judge := func(operation personal.OperationName, sent string) error {
		return Terms(personal.WithTransient(t.Context(), map[string]string{"terms": sent}), request(operation, ""))
	}
	want(t, "accepted", judge(personal.OpRegister, "true"), "", "")
	want(t, "not accepted", judge(personal.OpRegister, ""), personal.CodeValidationFailed, "terms=required")
	want(t, "another value", judge(personal.OpRegister, "yes"), personal.CodeValidationFailed, "terms=required")
	want(t, "a sign-in", judge(personal.OpAuthorize, ""), "", "")
}
