package personaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func asError(err error) (*personal.Error, bool) {
	var e *personal.Error
	return e, errors.As(err, &e)
}

func testRegister(t *testing.T, s *suite) {
	login, email := s.newLogin()
	in, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: strings.ToUpper(login), Password: Password, ConfirmPassword: Password, Email: email,
		Fields: map[string]personal.Input{
			"name":      personal.Text("Ada Lovelace"),
			"age":       {Kind: personal.InputNumber, Text: "36"},
			"height":    personal.Text("1.7"),
			"city":      personal.Text("oslo"),
			"interests": {Kind: personal.InputList, List: []string{"engines", "poetry"}},
		},
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	if c := in.Credentials; c.UserID < 1 || c.UserID > 1<<53-1 || len(c.UserHash) != 43 {
		t.Fatalf("got user_id %d and a hash of %d characters, want 1 … 2^53−1 and 43", c.UserID, len(c.UserHash))
	}
	name := "Ada Lovelace"
	want := personal.Profile{Login: strings.ToUpper(login), Name: &name, Email: email, Fields: []personal.ProfileField{
		{Name: "phone"}, {Name: "age", Value: int64(36)}, {Name: "height", Value: 1.7}, {Name: "newsletter", Value: false},
		{Name: "city", Value: "oslo"}, {Name: "interests", Value: []string{"engines", "poetry"}}, {Name: "number"},
	}}
	if diff := cmp.Diff(want, in.Profile); diff != "" {
		t.Fatalf("profile (-want +got):\n%s", diff)
	}
	again, err := s.service.Profile(t.Context(), in.Credentials)
	if err != nil {
		t.Fatalf("reading the profile: %v", err)
	}
	again.FreshFor = 0 // as the module's settings say
	if diff := cmp.Diff(want, again); diff != "" {
		t.Fatalf("stored profile (-want +got):\n%s", diff)
	}
}

func testTypedIdentifiers(t *testing.T, s *suite) {
	login, email := s.newLogin()
	in, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: "\u00a0" + login + " ", Password: Password, ConfirmPassword: Password, Email: "\t" + email + "\u2003\r\n",
		Fields: map[string]personal.Input{"city": personal.Text("oslo")},
	})
	if err != nil || in.Profile.Login != login || in.Profile.Email != email {
		t.Fatalf("got %q, %q, %v, want %s and %s", in.Profile.Login, in.Profile.Email, err, login, email)
	}
	for _, typed := range []string{login + "\n", "\u3000" + email + " "} {
		if _, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: typed, Password: Password}); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	}
	_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: " \u00a0", Password: Password})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"login": personal.FieldErrorRequired})
	_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: Password + " "})
	wantCode(t, err, personal.CodeInvalidCredentials) // a password is what was typed
}

func testAllFieldErrors(t *testing.T, s *suite) {
	_, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: "a@b", Password: "short", ConfirmPassword: "other", Email: "nowhere",
		Fields: map[string]personal.Input{
			"phone": personal.Text("none"), "age": personal.Text("200"), "interests": {Kind: personal.InputOther},
			"shoe_size": personal.Text("40"), "name": personal.Text("a\x00b"),
		},
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"login": personal.FieldErrorInvalidFormat, "password": personal.FieldErrorTooShort, "confirm_password": personal.FieldErrorMismatch,
		"email": personal.FieldErrorInvalidFormat, "phone": personal.FieldErrorInvalidFormat, "age": personal.FieldErrorOutOfRange,
		"interests": personal.FieldErrorInvalidType, "shoe_size": personal.FieldErrorUnknownField, "name": personal.FieldErrorInvalidFormat,
		"city": personal.FieldErrorRequired,
	})

	c, ctx := s.register(t).Credentials, t.Context()
	for operation, test := range map[string]struct {
		unreadable string // a parameter that the decoder cannot read
		call       func(personal.FieldErrors) error
		want       personal.FieldErrors // of the other parameters
	}{
		"Authorize": {"login", func(f personal.FieldErrors) error {
			_, err := s.service.Authorize(ctx, personal.AuthorizeRequest{FieldErrors: f})
			return err
		}, personal.FieldErrors{"password": personal.FieldErrorRequired}},
		"Register": {"email", func(f personal.FieldErrors) error {
			_, err := s.service.Register(ctx, personal.RegisterRequest{Login: "a@b", Password: "short", FieldErrors: f})
			return err
		}, personal.FieldErrors{
			"login": personal.FieldErrorInvalidFormat, "password": personal.FieldErrorTooShort,
			"confirm_password": personal.FieldErrorRequired, "city": personal.FieldErrorRequired,
		}},
		"Recover": {"login", func(f personal.FieldErrors) error {
			return s.service.Recover(ctx, personal.RecoverRequest{Email: "nowhere", FieldErrors: f})
		}, personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}},
		"RecoverConfirm": {"token", func(f personal.FieldErrors) error {
			_, err := s.service.RecoverConfirm(ctx, personal.RecoverConfirmRequest{Password: "short", FieldErrors: f})
			return err
		}, personal.FieldErrors{"password": personal.FieldErrorTooShort, "confirm_password": personal.FieldErrorRequired}},
		"ChangePassword": {"password", func(f personal.FieldErrors) error {
			_, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{Credentials: c, ConfirmPassword: "other", FieldErrors: f})
			return err
		}, personal.FieldErrors{"old_password": personal.FieldErrorRequired, "confirm_password": personal.FieldErrorMismatch}},
		"ChangeEmail": {"email", func(f personal.FieldErrors) error {
			return s.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c, FieldErrors: f})
		}, personal.FieldErrors{"password": personal.FieldErrorRequired}},
		"ConfirmEmail": {"token", func(f personal.FieldErrors) error {
			_, err := s.service.ConfirmEmail(ctx, personal.ConfirmEmailRequest{FieldErrors: f})
			return err
		}, personal.FieldErrors{}},
		"Delete": {"code", func(f personal.FieldErrors) error {
			_, err := s.service.Delete(ctx, personal.DeleteRequest{Credentials: c, FieldErrors: f})
			return err
		}, personal.FieldErrors{"password": personal.FieldErrorRequired}},
		"Logout": {"all", func(f personal.FieldErrors) error {
			return s.service.Logout(ctx, personal.LogoutRequest{Credentials: c, FieldErrors: f})
		}, personal.FieldErrors{}},
		"RevokeSession": {"id", func(f personal.FieldErrors) error {
			return s.service.RevokeSession(ctx, personal.RevokeSessionRequest{Credentials: c, FieldErrors: f})
		}, personal.FieldErrors{}},
	} {
		err := test.call(personal.FieldErrors{test.unreadable: personal.FieldErrorInvalidType})
		test.want[test.unreadable] = personal.FieldErrorInvalidType
		t.Run(operation, func(t *testing.T) { wantFieldErrors(t, err, personal.CodeValidationFailed, test.want) })
	}
	if !s.alive(t, c) {
		t.Fatal("a rejected request ended the session")
	}
}

func testTaken(t *testing.T, s *suite) {
	u := s.register(t)
	free, freeEmail := s.newLogin()
	for name, test := range map[string]struct {
		login, email string
		want         personal.FieldErrors
	}{
		"both":   {strings.ToUpper(u.login), strings.ToUpper(u.email), personal.FieldErrors{"login": personal.FieldErrorTaken}},
		"login":  {u.login, freeEmail, personal.FieldErrors{"login": personal.FieldErrorTaken}},
		"e-mail": {free, u.email, personal.FieldErrors{"email": personal.FieldErrorTaken}},
	} {
		_, err := s.service.Register(t.Context(), personal.RegisterRequest{
			Login: test.login, Password: Password, ConfirmPassword: Password, Email: test.email,
			Fields: map[string]personal.Input{"city": personal.Text("riga")},
		})
		t.Run(name, func(t *testing.T) { wantFieldErrors(t, err, personal.CodeAlreadyExists, test.want) })
	}
}

func testRegistrationRace(t *testing.T, s *suite) {
	const callers = 32
	login, email := s.newLogin()
	codes := together(callers, func(int) personal.Code {
		_, err := s.service.Register(t.Context(), personal.RegisterRequest{
			Login: login, Password: Password, ConfirmPassword: Password, Email: email,
			Fields: map[string]personal.Input{"city": personal.Text("riga")},
		})
		return personal.CodeOf(err)
	})
	counts := map[personal.Code]int{}
	for _, code := range codes {
		counts[code]++
	}
	if diff := cmp.Diff(map[personal.Code]int{"": 1, personal.CodeAlreadyExists: callers - 1}, counts); diff != "" {
		t.Fatalf("results by code (-want +got):\n%s", diff)
	}
}

// together calls f n times concurrently.
func together[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	var gate, running sync.WaitGroup
	gate.Add(1)
	for i := range n {
		running.Go(func() {
			gate.Wait()
			results[i] = f(i)
		})
	}
	gate.Done()
	running.Wait()
	return results
}

func testReadOnly(t *testing.T, s *suite) {
	u := s.register(t)
	sent := map[string]personal.Input{"number": personal.Text("1"), "note": personal.Text("x"), "groups": personal.Text("admin"),
		"user_id": personal.Text("1")}
	want := personal.FieldErrors{"number": personal.FieldErrorReadOnly, "note": personal.FieldErrorReadOnly,
		"groups": personal.FieldErrorReadOnly, "user_id": personal.FieldErrorReadOnly}
	_, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: u.Credentials, Fields: sent})
	wantFieldErrors(t, err, personal.CodeValidationFailed, want)

	login, email := s.newLogin()
	sent["city"] = personal.Text("riga")
	_, err = s.service.Register(t.Context(), personal.RegisterRequest{
		Login: login, Password: Password, ConfirmPassword: Password, Email: email, Fields: sent,
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, want)
}

func testRepeatedScalar(t *testing.T, s *suite) {
	twice := map[string]personal.Input{"phone": {Kind: personal.InputRepeated, List: []string{"12345", "67890"}}}
	_, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Fields: twice})
	wantCode(t, err, personal.CodeMalformedRequest) // checked before the credentials
	_, err = s.service.Register(t.Context(), personal.RegisterRequest{Fields: twice})
	wantCode(t, err, personal.CodeMalformedRequest)
}

func testUnknownNames(t *testing.T, s *suite) {
	u := s.register(t)
	update := func(names ...string) error {
		fields := map[string]personal.Input{"age": personal.Text("old")}
		for _, name := range names {
			fields[name] = personal.Text("a")
		}
		_, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: u.Credentials, Fields: fields})
		return err
	}
	var many []string
	want := personal.FieldErrors{"age": personal.FieldErrorInvalidType}
	for i := range 100 {
		many = append(many, fmt.Sprintf("n%02d", i))
		if i < 50 {
			want[many[i]] = personal.FieldErrorUnknownField
		}
	}
	wantFieldErrors(t, update(many...), personal.CodeValidationFailed, want)
	wantCode(t, update(strings.Repeat("n", 64)), personal.CodeValidationFailed)
	wantCode(t, update(strings.Repeat("n", 65)), personal.CodeTooLarge)
	_, err := s.service.Register(t.Context(), personal.RegisterRequest{Fields: map[string]personal.Input{strings.Repeat("n", 65): {}}})
	wantCode(t, err, personal.CodeTooLarge)
}

func testUpdateProfile(t *testing.T, s *suite) {
	u := s.register(t)
	got, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: u.Credentials,
		Fields:      map[string]personal.Input{"phone": personal.Text("+371 12345"), "name": {}},
	})
	if err != nil {
		t.Fatalf("updating the profile: %v", err)
	}
	want := u.Profile
	want.Name = nil
	want.Fields = append([]personal.ProfileField{{Name: "phone", Value: "+371 12345"}}, u.Profile.Fields[1:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("profile (-want +got):\n%s", diff)
	}
	_, err = s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: u.Credentials,
		Fields:      map[string]personal.Input{"age": personal.Text("30"), "city": {}, "login": personal.Text("x")},
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"city": personal.FieldErrorRequired,
		"login": personal.FieldErrorReadOnly})
	after, err := s.service.Profile(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("reading the profile: %v", err)
	}
	after.FreshFor = 0
	if diff := cmp.Diff(want, after); diff != "" {
		t.Fatalf("profile after a rejected update (-want +got):\n%s", diff)
	}
}

func testSchemaChange(t *testing.T, s *suite) {
	u := s.register(t)
	before := sampleFields()
	t.Cleanup(func() { s.fields.set(before) })
	s.fields.set(append(sampleFields()[1:], personal.Field{Name: "company", Type: personal.TypeText}))
	p, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: u.Credentials, Fields: map[string]personal.Input{"company": personal.Text("Analytical")},
	})
	if err != nil {
		t.Fatalf("setting an added field: %v", err)
	}
	if last := p.Fields[len(p.Fields)-1]; last.Name != "company" || last.Value != "Analytical" {
		t.Fatalf("got %v as the last field, want the added one", last)
	}
	for _, f := range p.Fields {
		if f.Name == "phone" {
			t.Fatal("got a removed field in the profile")
		}
	}
	_, err = s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: u.Credentials, Fields: map[string]personal.Input{"phone": personal.Text("12345")},
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"phone": personal.FieldErrorUnknownField})
}

func testFields(t *testing.T, s *suite) {
	fields, err := s.service.Fields(t.Context())
	if err != nil {
		t.Fatalf("reading the fields: %v", err)
	}
	all := sampleFields()
	if diff := cmp.Diff(all[:len(all)-1], fields); diff != "" {
		t.Fatalf("fields (-want +got):\n%s", diff)
	}
}

func testFeatures(t *testing.T, s *suite) {
	s.wantFeatures(t, personal.VerificationOptional)
}

// wantFeatures wants the features under the default settings and a certain verification.
func (s *suite) wantFeatures(t *testing.T, verification personal.EmailVerification) {
	t.Helper()
	got, err := s.service.Features(t.Context())
	if err != nil {
		t.Fatalf("reading the features: %v", err)
	}
	want := personal.Features{
		PasswordMinLength: 8, PasswordMaxBytes: 1024, LoginMinLength: 3, LoginMaxLength: 64, LoginWithEmail: true,
		EmailVerification: verification, TwoFactor: true, Passkeys: true, MailedCode: true, DeletionGrace: 168 * time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("features (-want +got):\n%s", diff)
	}
}

func testDeadline(t *testing.T, s *suite) {
	login, email := s.newLogin()
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := s.service.Register(past, personal.RegisterRequest{
		Login: login, Password: Password, ConfirmPassword: Password, Email: email,
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	wantCode(t, err, personal.CodeUnavailable)
}
