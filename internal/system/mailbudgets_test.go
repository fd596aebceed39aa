package system

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// knowAddress makes an address fully known to a user, since two days ago, as a sign-in would have.
func (s *system) knowAddress(t testing.TB, u user, address string) {
	t.Helper()
	now := time.Now()
	execute(t, s.database, fmt.Sprintf(`INSERT INTO personal_known_addresses (account_id, address, seen, since, credential_version, email_key)
		SELECT id, '%s', %d, %d, credential_version, email_key FROM personal_accounts WHERE id = %d`,
		address, now.UnixMicro(), now.Add(-48*time.Hour).UnixMicro(), u.ID))
}

// One network does to a mailbox what it can: with accounts that it registers with tagged
// forms of the address, and with requests for recoveries of its owner.
func TestMailBudgets_OneNetworkNeitherFloodsNorStarves(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		s := start(t, options{database: database, settings: cheap + unthrottled, flags: []string{"--trusted-proxy", "127.0.0.0/8"}})
		owner := s.newUser(t)
		const home, thief = "203.0.113.1", "192.0.2.66"
		s.knowAddress(t, owner, home)
		s.awaitJobs(t)
		local, domain, _ := strings.Cut(owner.email, "@")
		recoveries := func() int {
			t.Helper()
			s.awaitJobs(t)
			return len(s.mailsTo(t, mailtext.Recovery, owner.email))
		}
		for i := range 24 {
			network := from(fmt.Sprint("198.51.100.", 1+i))
			p := applicant(params{"email": fmt.Sprintf("%s+%d@%s", local, i, domain)})
			stranger := s.do(t, call{path: "register/", header: network, params: p}).pair(t)
			for _, c := range []call{
				{path: "recover/", params: params{"email": owner.email}},
				{path: "recover/", params: params{"login": p["login"]}},
				{path: "email_resend/", params: params{"login": p["login"]}},
				{path: "password/", as: stranger, params: params{"old_password": p["password"], "password": recovered, "confirm_password": recovered}},
			} {
				c.header = network
				s.do(t, c).want(t, "")
			}
		}
		before, strangers := recoveries(), 0
		for _, m := range s.mails(t) {
			if strings.HasPrefix(m.to, local+"+") {
				strangers++
			}
		}
		// Two at once, and one in a quarter of an hour. A change of the password can drop mails that were counted, even all about other accounts.
		if before < 2 || before > 3 || strangers > 2 {
			t.Errorf("one network caused %d recoveries of the owner and %d mails about other accounts, want two each at most", before, strangers)
		}
		for i := range 2 {
			s.do(t, call{path: "recover/", header: from(home), params: params{"login": owner.login}}).want(t, "")
			if got := recoveries(); got != before+1+i {
				t.Errorf("got %d recoveries after %d of the owner, before %d", got, i+1, before)
			}
		}
		s.do(t, call{path: "auth/", header: from(thief), params: params{"login": owner.login, "password": owner.password}}).want(t, "")
		s.do(t, call{path: "password/", as: owner.pair, header: from(home), params: params{
			"old_password": owner.password, "password": recovered, "confirm_password": recovered,
		}}).want(t, "")
		s.awaitJobs(t)
		for _, kind := range []mailtext.Kind{mailtext.NewAddress, mailtext.PasswordChanged} {
			if n := len(s.mailsTo(t, kind, owner.email)); n != 1 {
				t.Errorf("got %d notices %s to the owner, want one", n, kind)
			}
		}
	})
}
