package accounts_test

import (
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// TestProfile_DeceptiveTextStaysButIsNotAdded changes the profile of an account whose name
// and city were stored by a version without the rule.
func TestProfile_DeceptiveTextStaysButIsNotAdded(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.setFields("2", cityAndAge)
	const old, added = "\u202eold", "\u2066new"
	c := f.register(t, "ada").Credentials
	name := old
	if _, err := f.store.UpdateProfile(t.Context(), c.UserID, func(a *accounts.Account) []accounts.NewJob {
		a.Name, a.Fields = &name, userfields.Values{"city": old}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for by, update := range map[string]func(map[string]personal.Input) error{
		"user": func(fields map[string]personal.Input) error {
			_, err := f.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: c, Fields: fields})
			return err
		},
		"administrator": func(fields map[string]personal.Input) error {
			return f.service.UpdateUser(t.Context(), personal.UpdateUserRequest{UserID: c.UserID, Fields: fields})
		},
	} {
		for _, parameter := range []string{"name", "city"} {
			if err := update(map[string]personal.Input{parameter: personal.Text(added)}); fieldErrors(err)[parameter] != personal.FieldErrorInvalidFormat {
				t.Errorf("%s, another %s: got %v, want invalid_format", by, parameter, err)
			}
			if err := update(map[string]personal.Input{parameter: personal.Text(old), "age": personal.Text("40")}); err != nil {
				t.Errorf("%s, the same %s: got %v, want success", by, parameter, err)
			}
		}
	}
	if p := f.profile(t, c); *p.Name != old {
		t.Errorf("got the name %q, want that it stays", *p.Name)
	}

	sent := map[string]personal.Input{"name": personal.Text(added), "city": personal.Text(added)}
	_, err := f.service.Register(t.Context(), personal.RegisterRequest{
		Login: "eve", Email: "eve@example.com", Password: goodPassword, ConfirmPassword: goodPassword, Fields: sent,
	})
	if got := fieldErrors(err); len(got) != 2 || got["name"] != personal.FieldErrorInvalidFormat ||
		got["city"] != personal.FieldErrorInvalidFormat {
		t.Errorf("registration: got %v, want invalid_format for both", err)
	}
	_, err = f.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: "eve", Fields: sent})
	if got := fieldErrors(err); len(got) != 2 {
		t.Errorf("a user of an administrator: got %v, want invalid_format for both", err)
	}
}
