package personaloidc_test

import (
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// A thief with the password links their own user at the provider. A new password leaves them that, and its notice says
// so. What other remedies leave shows TestTakeOver_RemediesLeaveWhatTheTableSays of internal/accounts.
func TestTakeOver_NoticeCountsTheThiefsIdentity(t *testing.T) {
	w := newWorld(t)
	login, subject := name("owner"), name("thief")
	email := login + "@example.com"
	owner := w.register(login, email, true)
	w.provider.is(subject, "")
	thief := w.browser()
	thief.get(startPath)
	thief.signIn(login, linkPath)
	thief.post(linkPath, nil)
	w.wantIdentity(subject, owner.UserID)

	_, err := w.module.Service().ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: owner, OldPassword: password, Password: password + "!", ConfirmPassword: password + "!",
	})
	if err != nil {
		t.Fatal(err)
	}
	thief.wantSignedIn("")
	thief.get(startPath)
	thief.want(200, "/account")
	if !strings.Contains(w.mail(email, "Your password was changed"), "links with other services: 1.") {
		t.Error("the notice does not count what still signs in")
	}
}
