package system

import (
	"context"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// execute changes rows in the database behind the plugin's back, and returns how many.
// Values in the statement are of our own making.
func execute(t testing.TB, database, statement string) int64 {
	t.Helper()
	pools, err := dbconn.Open(database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	done, err := pools.Write.ExecContext(context.Background(), statement)
	if err != nil {
		t.Fatal(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitJobs waits until no job is left.
func (s *system) awaitJobs(t testing.TB) {
	t.Helper()
	pools, err := dbconn.Open(s.database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	eventually(t, "no mail or event waits", func() bool {
		var n int
		if err := pools.Read.QueryRowContext(context.Background(), "SELECT count(*) FROM personal_jobs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// confirmWaiting confirms the address of an account that waits for it.
func (s *system) confirmWaiting(t testing.TB, m message, login string) *response {
	t.Helper()
	return s.post(t, "email_confirm/", params{"token": m.token(t), "login": login})
}

// required are settings under which users confirm their address before the first
// sign-in. Limits per client address do not get in the way, but for that of taken
// e-mails, and deleted accounts are erased at once.
const required = "[registration]\nemail_verification = \"required\"\nenabled = true\nurl = \"https://site.example/verify#token={token}\"\n" +
	"[deletion]\ngrace = \"1s\"\n" +
	"[throttle.register]\nburst = 1000\n[throttle.taken_email]\nburst = 1\nevery = \"1h\"\n[throttle.confirm]\nburst = 1000\n[throttle.recover]\nburst = 1000\n"

// registerUnconfirmed registers a user where the address must be confirmed first.
func (s *system) registerUnconfirmed(t testing.TB, changes params) (user, *response) {
	t.Helper()
	p := applicant(changes)
	r := s.post(t, "register/", p).wantData(t)
	return user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string)}, r
}

// newConfirmedUser registers a user, who then confirms the address and signs in.
func (s *system) newConfirmedUser(t testing.TB) user {
	t.Helper()
	u, _ := s.registerUnconfirmed(t, nil)
	s.confirmWaiting(t, s.mailTo(t, mailtext.Verification, u.email), u.login).wantData(t)
	u.pair = s.signIn(t, u)
	return u
}
