package personaloidc_test

import (
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// A thief with the password links their own user at the provider. They stay in only as long as
// the owner and the administrators leave them.
func TestTakeOver_ThiefWithTheirOwnIdentity(t *testing.T) {
	ctx := t.Context()
	changed := personal.ChangePasswordRequest{OldPassword: password, Password: password + "!", ConfirmPassword: password + "!"}
	recovered := func(w *world, email string) error {
		_, err := w.module.Service().RecoverConfirm(ctx, personal.RecoverConfirmRequest{
			Token: w.token(email, "Set a new password"), Password: password + "!", ConfirmPassword: password + "!",
		})
		return err
	}
	for remedy, test := range map[string]struct {
		do       func(w *world, owner personal.Credentials, email string) error
		identity bool // the thief still signs in with it
		session  bool // the thief is still signed in
	}{
		"password": {do: func(w *world, owner personal.Credentials, _ string) error {
			changed.Credentials, changed.RemoveOtherWaysIn = owner, false
			_, err := w.module.Service().ChangePassword(ctx, changed)
			return err
		}, identity: true},
		"password without other ways in": {do: func(w *world, owner personal.Credentials, _ string) error {
			changed.Credentials, changed.RemoveOtherWaysIn = owner, true
			_, err := w.module.Service().ChangePassword(ctx, changed)
			return err
		}},
		"recovery": {do: func(w *world, _ personal.Credentials, email string) error {
			if err := w.module.Service().Recover(ctx, personal.RecoverRequest{Email: email}); err != nil {
				return err
			}
			return recovered(w, email)
		}},
		"sign-out": {do: func(w *world, owner personal.Credentials, _ string) error {
			return w.module.Administration().RevokeUserSessions(ctx, owner.UserID)
		}, identity: true},
		"removal of other ways in": {do: func(w *world, owner personal.Credentials, _ string) error {
			return w.module.Administration().RemoveOtherWaysIn(ctx, owner.UserID)
		}, session: true},
		"reset": {do: func(w *world, owner personal.Credentials, email string) error {
			err := w.module.Administration().ResetAccess(ctx, personal.ResetAccessRequest{UserID: owner.UserID, Email: "new." + email})
			if err != nil {
				return err
			}
			return recovered(w, "new."+email)
		}},
	} {
		t.Run(remedy, func(t *testing.T) {
			w := newWorld(t)
			login, subject := name("owner"), name("thief")
			email := login + "@example.com"
			owner := w.register(login, email, true)
			w.provider.is(subject, "")
			thief := w.browser()
			thief.get(startPath)
			thief.get(linkPath)
			thief.signIn(login, linkPath)
			thief.post(linkPath, nil)
			thief.want(200, "/account")
			w.wantIdentity(subject, owner.UserID)

			if err := test.do(w, owner, email); err != nil {
				t.Fatal(err)
			}
			if test.session {
				thief.wantSignedIn(login)
			} else {
				thief.wantSignedIn("")
			}
			again := w.browser()
			again.get(startPath)
			if test.identity {
				again.want(200, "/account")
			} else {
				again.want(200, choosePath)
				w.wantIdentity(subject, 0)
			}
			if remedy == "password" && !strings.Contains(w.mail(email, "Your password was changed"), "links with other services: 1.") {
				t.Error("the notice does not count what still signs in")
			}
		})
	}
}
