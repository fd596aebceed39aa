package system

import (
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestInvitation_LetsAUserChooseTheirFirstPassword invites a user with the command, whose
// mail the plugin sends that runs on the database.
func TestInvitation_LetsAUserChooseTheirFirstPassword(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		const login, email = "Invited", "invited@example.com"
		out, err := s.command(t, "user", "create", login, "--email", email, "--invite", "--locale", "ru")
		if err != nil {
			t.Fatal(err, out)
		}
		invitation := s.mailTo(t, mailtext.Invitation, email)
		if !strings.Contains(invitation.text, "Код действителен 7 дн.") {
			t.Errorf("got the mail %s, want it in Russian and for 7 days", invitation.text)
		}
		for _, password := range []string{"!", recovered} { // "!" is what the database has in place of a hash
			s.post(t, "auth/", params{"login": login, "password": password}).want(t, "invalid_credentials")
		}
		s.post(t, "recover_confirm/", confirm(invitation.token(t), recovered)).want(t, "")
		s.post(t, "recover_confirm/", confirm(invitation.token(t), recovered)).want(t, "invalid_token")
		p := s.post(t, "auth/", params{"login": login, "password": recovered}).pair(t)
		s.wantVerified(t, p, true)

		if out, err := s.command(t, "user", "sign-out", login); err != nil || !strings.Contains(out, "have ended: 1.") {
			t.Errorf("signing the user out: got %s, error %v, want one session", out, err)
		}
		s.wantDead(t, "a session that an administrator has ended", p)
		s.awaitJobs(t)
		for _, kind := range []string{"user_created", "user_invited", "recovered", "email_verified", "user_signed_out"} {
			if n := s.events(t, kind, p.ID); n != 1 {
				t.Errorf("got %d events %s, want 1", n, kind)
			}
		}
		if notices := s.mailsTo(t, mailtext.Recovered, email); len(notices) > 0 {
			t.Errorf("got %d notices of a recovery, want none for a first password", len(notices))
		}
	})
}
