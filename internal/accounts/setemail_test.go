package accounts_test

import (
	"errors"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

func (f *fixture) setEmail(t *testing.T, id int64, email string) {
	t.Helper()
	if err := f.service.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: email}); err != nil {
		t.Fatalf("setting an e-mail: %v", err)
	}
}

// recipients returns the addresses of the sent mails, in order.
func (f *fixture) recipients() (to []string) {
	for _, m := range f.host.Mails() {
		to = append(to, m.To)
	}
	return to
}

// imported makes an account like one imported from another system.
func (f *fixture) imported(t *testing.T, login, email string) int64 {
	t.Helper()
	in := f.register(t, "imported")
	a, err := f.store.Account(t.Context(), in.Credentials.UserID)
	if err != nil {
		t.Fatal(err)
	}
	f.delete(t, a.ID)
	a.Login, a.LoginKey = login, login
	a.Email = accounts.Email{Address: email, Key: email}
	id, err := f.store.CreateAccount(t.Context(), a, accounts.Session{}, func(int64) []accounts.NewJob { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSetEmail_LoginThatIsTheEmailFollowsIt(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.imported(t, "ada@example.com", "ada@example.com")
		err := f.service.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id})
		var refused *personal.Error
		if !errors.As(err, &refused) || refused.Code != personal.CodeValidationFailed ||
			refused.FieldErrors["email"] != personal.FieldErrorRequired {
			t.Errorf("removing the e-mail: got %v, want a missing email", err)
		}
		f.setEmail(t, id, "Ada@Example.org")
		record, err := f.service.User(t.Context(), id)
		if err != nil || record.Login != "Ada@Example.org" || record.Email != "Ada@Example.org" {
			t.Errorf("got %+v (error %v), want the new e-mail as login", record.User, err)
		}
	})
}
