package personaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// created creates a user whose city is riga.
func (s *administrationSuite) created(t *testing.T, invite bool) (id int64, login, email string) {
	t.Helper()
	login, email = s.newLogin()
	id, err := s.administration.CreateUser(t.Context(), personal.CreateUserRequest{
		Login: login, Email: email, Invite: invite, Fields: map[string]personal.Input{
			"name": personal.Text("Anna"), "city": personal.Text("riga"), "number": personal.Text("N 1"), "note": personal.Text("VIP"),
		},
	})
	if err != nil {
		t.Fatalf("creating a user: %v", err)
	}
	return id, login, email
}

func testCreateUser(t *testing.T, s *administrationSuite) {
	id, login, email := s.created(t, false)
	record := s.record(t, id)
	if record.Login != login || record.Email != email || record.Name == nil || *record.Name != "Anna" || record.EmailVerified ||
		record.Disabled {
		t.Errorf("got %+v, want the user as created, with an unconfirmed e-mail", record.User)
	}
	if diff := cmp.Diff(map[string]any{"city": "riga", "number": "N 1", "note": "VIP", "newsletter": false}, valuesOf(record)); diff != "" {
		t.Errorf("values, with read-only and hidden ones and a default (-want +got):\n%s", diff)
	}
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: "!"})
	wantCode(t, err, personal.CodeInvalidCredentials)
	s.awaitEvents(t, id, personal.EventUserCreated)

	for name, test := range map[string]struct {
		request personal.CreateUserRequest
		code    personal.Code
		want    personal.FieldErrors
	}{
		"taken login": {personal.CreateUserRequest{Login: login, Email: "x" + email}, personal.CodeAlreadyExists,
			personal.FieldErrors{"login": personal.FieldErrorTaken}},
		"taken e-mail": {personal.CreateUserRequest{Login: login + "x", Email: email}, personal.CodeAlreadyExists,
			personal.FieldErrors{"email": personal.FieldErrorTaken}},
		"invitation without e-mail": {personal.CreateUserRequest{Login: login + "x", Invite: true}, personal.CodeValidationFailed,
			personal.FieldErrors{"email": personal.FieldErrorRequired}},
		"invalid values": {personal.CreateUserRequest{Login: "a b", Email: "nobody", Locale: "?", Fields: map[string]personal.Input{
			"city": personal.Text("atlantis"), "other": personal.Text("x"), "id": personal.Text("1"),
		}}, personal.CodeValidationFailed, personal.FieldErrors{
			"login": personal.FieldErrorInvalidFormat, "email": personal.FieldErrorInvalidFormat, "locale": personal.FieldErrorInvalidFormat,
			"city": personal.FieldErrorNotInList, "other": personal.FieldErrorUnknownField, "id": personal.FieldErrorReadOnly,
		}},
		"repeated scalar": {personal.CreateUserRequest{Login: login + "x", Fields: map[string]personal.Input{
			"city": {Kind: personal.InputRepeated, List: []string{"riga", "riga"}},
		}}, personal.CodeMalformedRequest, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.administration.CreateUser(t.Context(), test.request)
			wantFieldErrors(t, err, test.code, test.want)
		})
	}
	bare, err := s.administration.CreateUser(t.Context(), personal.CreateUserRequest{Login: login + "bare"}) // without the required city
	if err != nil {
		t.Fatal(err)
	}
	record = s.record(t, bare)
	if record.Email != "" || record.Name != nil {
		t.Errorf("got %+v, want a user without e-mail and name", record.User)
	}
	if diff := cmp.Diff(map[string]any{"newsletter": false}, valuesOf(record)); diff != "" {
		t.Errorf("values, of which none was sent (-want +got):\n%s", diff)
	}
}

// valuesOf returns the user fields that have a value.
func valuesOf(r personal.UserRecord) map[string]any {
	values := map[string]any{}
	for _, f := range r.Fields {
		if f.Value != nil {
			values[f.Name] = f.Value
		}
	}
	return values
}

func testInvitation(t *testing.T, s *administrationSuite) {
	id, login, email := s.created(t, true)
	s.awaitEvents(t, id, personal.EventUserCreated, personal.EventUserInvited)
	token := tokenIn(t, s.mailTo(t, email, 1))
	accepted, err := s.recoverConfirm(t.Context(), " "+token+"\n")
	if err != nil || accepted != id {
		t.Fatalf("accepting the invitation: got user %d, error %v, want %d", accepted, err, id)
	}
	_, err = s.recoverConfirm(t.Context(), token)
	wantCode(t, err, personal.CodeInvalidToken)
	s.signIn(t, login, Password+"!")
	if record := s.record(t, id); !record.EmailVerified {
		t.Error("got an unconfirmed e-mail after the invitation was accepted")
	}
	s.awaitEvents(t, id, personal.EventRecovered, personal.EventEmailVerified)
}
