package system

import (
	"context"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestDisabledAccount disables an account as an administrator would by hand: in
// the database.
func TestDisabledAccount(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u, other, marker := s.newUser(t), s.newUser(t), s.newUser(t)
		next := s.refresh(t, u.pair)
		s.postAs(t, next, "email/", params{"password": u.password, "email": "new-" + u.email}).want(t, "")
		token := s.mailTo(t, "new-"+u.email).token(t)
		disable(t, database, u.login)

		s.wantDead(t, "a disabled account's session", next)
		s.wantDead(t, "an earlier hash of it", u.pair)
		s.getAs(t, next, "auth_refresh/").want(t, "unauthenticated")
		s.post(t, "auth/", params{"login": u.login, "password": u.password}).want(t, "account_disabled")
		s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong"}).want(t, "invalid_credentials")
		s.post(t, "email_confirm/", params{"token": token}).want(t, "invalid_token")
		s.post(t, "register/", applicant(params{"login": u.login})).wantFaults(t, "already_exists", faults{"login": "taken"})
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.post(t, "recover/", params{"login": marker.login}).want(t, "")
		s.mailTo(t, marker.email)
		if n := len(s.mailsTo(t, u.email)); n != 0 {
			t.Errorf("%d recovery mails went to a disabled account", n)
		}
		s.wantAlive(t, "another account", other.pair)
		if s.events(t, "session_theft", u.ID) != 0 {
			t.Error("a disabled account's hash raised an alarm")
		}
	})
}

func disable(t testing.TB, database, login string) {
	t.Helper()
	pools, err := dbconn.Open(database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	// The login is one of our own making.
	done, err := pools.Write.ExecContext(context.Background(), "UPDATE personal_accounts SET disabled = (1 = 1) WHERE login = '"+login+"'")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%d accounts were disabled: %v", n, err)
	}
}
