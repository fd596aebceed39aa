package accounts_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestSetEmail_EarlierRequestsAreNotMailed(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		c := f.register(t, "ada").Credentials
		if err := f.service.Recover(t.Context(), personal.RecoverRequest{Email: "ada@example.com"}); err != nil {
			t.Fatal(err)
		}
		change := personal.ChangeEmailRequest{Credentials: c, Password: goodPassword, Email: "thief@example.com"}
		if err := f.service.ChangeEmail(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		f.setEmail(t, c.UserID, "ada@example.org")
		f.drain(t)
		if diff := cmp.Diff([]string{"ada@example.com"}, f.recipients()); diff != "" || len(f.tokens()) > 0 {
			t.Errorf("got %d tokens, want none; mails besides the notice: %s", len(f.tokens()), diff)
		}
		f.wantNoJobs(t)
	})
}

func TestSetEmail_DuringRecoverySendsNothing(t *testing.T) {
	f, s, _ := spied(t, testdb.SQLite(t), cheap)
	id := f.register(t, "ada").Credentials.UserID
	f.worker.Handlers = f.service.Jobs() // which use the spy
	s.found = func() { f.setEmail(t, id, "ada@example.org") }
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	if tokens := f.tokens(); s.found != nil || len(tokens) > 0 {
		t.Errorf("got %d mailed tokens, want none", len(tokens))
	}
}

// A user who was imported without an e-mail can recover a forgotten password.
func TestSetEmail_AllowsRecovery(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		id := f.imported(t, "ada", "")
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		f.setEmail(t, id, "ada@example.org")
		f.recoverNow(t, personal.RecoverRequest{Email: "ada@example.org"})
		if diff := cmp.Diff([]string{"ada@example.org"}, f.recipients()); diff != "" {
			t.Fatal(diff)
		}
		if err := f.confirm(t, f.tokens()[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := f.signIn("ada", otherPassword); err != nil {
			t.Error(err)
		}
	})
}

func TestChangeEmail_WorksWithoutAnEmail(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.imported(t, "ada", "")
		in, err := f.signIn("ada", goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		change := personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "ada@example.org"}
		if err := f.service.ChangeEmail(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		f.drain(t)
		if diff := cmp.Diff([]string{"ada@example.org"}, f.recipients()); diff != "" {
			t.Fatal(diff)
		}
		if _, err := f.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: f.tokens()[0]}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.signIn("ada@example.org", goodPassword); err != nil {
			t.Error(err)
		}
	})
}
