package personaltest

import (
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// manyWays is a user with a passkey, an identity, and a session that each of them began.
type manyWays struct {
	user
	device       *softkey.Authenticator
	identity     personal.Identity
	byKey, byOID personal.Credentials
}

// otherWays gives a user other ways in. code is that of their second factor.
func (s *administrationSuite) otherWays(t *testing.T, u user, code func() string) manyWays {
	t.Helper()
	w := manyWays{user: u}
	w.device, _ = s.addPasskey(t, u.Credentials, code())
	var err error
	if w.identity, err = s.linked(t, u, s.prove(t, u.Credentials, code())); err != nil {
		t.Fatalf("linking: %v", err)
	}
	key, err := s.passkeySignIn(t, w.device, "")
	if err != nil {
		t.Fatalf("signing in with the passkey: %v", err)
	}
	in, err := s.signInBy(t, personal.SignInRequest{Identity: w.identity, Method: method, SecondFactorDone: true})
	if err != nil {
		t.Fatalf("signing in with the identity: %v", err)
	}
	w.byKey, w.byOID = key.Credentials, in.Credentials
	return w
}

func noCode() string { return "" }

// wantWays checks whether passkey and identity sign the user in, and whether their sessions go on.
func (s *administrationSuite) wantWays(t *testing.T, w manyWays, ways, sessions bool) {
	t.Helper()
	_, err := s.passkeySignIn(t, w.device, "")
	if got := err == nil || personal.CodeOf(err) == personal.CodeCodeRequired; got != ways {
		t.Errorf("signing in with the passkey: got %v, want it kept: %t", err, ways)
	}
	_, err = s.signInBy(t, personal.SignInRequest{Identity: w.identity, Method: method})
	if got := err == nil || personal.CodeOf(err) == personal.CodeCodeRequired; got != ways {
		t.Errorf("signing in with the identity: got %v, want it kept: %t", err, ways)
	}
	if s.alive(t, w.byKey) != sessions || s.alive(t, w.byOID) != sessions {
		t.Errorf("want that the sessions of passkey and identity go on: %t", sessions)
	}
}

// wantCounts checks the events of one removal.
func (s *administrationSuite) wantCounts(t *testing.T, id int64, by personal.Actor) {
	t.Helper()
	for _, e := range s.awaitEvents(t, id, personal.EventPasskeyRemoved, personal.EventIdentityUnlinked) {
		if removed := e.Type == personal.EventPasskeyRemoved || e.Type == personal.EventIdentityUnlinked; removed && (e.Count != 1 || e.Actor != by) {
			t.Errorf("got %+v, want the number, by the %s", e, by)
		}
	}
}

func testRemoveOtherWaysIn(t *testing.T, s *administrationSuite) {
	w := s.otherWays(t, s.verified(t), noCode)
	id := w.Credentials.UserID
	for range 2 { // without any it changes nothing
		if err := s.administration.RemoveOtherWaysIn(t.Context(), id); err != nil {
			t.Fatalf("removing other ways in: %v", err)
		}
	}
	s.wantWays(t, w, false, false)
	if !s.alive(t, w.Credentials) {
		t.Error("a session has ended that the password began")
	}
	s.wantCounts(t, id, personal.ActorAdministrator)
	for _, email := range []bool{true, false} { // which is not verified
		u, i := s.visitor(t, email)
		wantCode(t, s.administration.RemoveOtherWaysIn(t.Context(), u.Credentials.UserID), personal.CodeLastWayIn)
		s.wantIdentity(t, i, u.Credentials.UserID)
	}
	wantCode(t, s.administration.RemoveOtherWaysIn(t.Context(), id+1000), personal.CodeNotFound)
}

func testFactorWithOtherWays(t *testing.T, s *administrationSuite) {
	for _, keep := range []bool{true, false} {
		f := factorUser{user: s.verified(t)}
		s.switchOn(t, &f)
		w := s.otherWays(t, f.user, f.recoveryCode)
		id := w.Credentials.UserID
		r := personal.RemoveTwoFactorRequest{UserID: id, KeepOtherWaysIn: keep}
		if err := s.administration.RemoveTwoFactor(t.Context(), r); err != nil {
			t.Fatalf("removing a second factor: %v", err)
		}
		s.wantWays(t, w, keep, false)
		count := "no longer signs in: passkeys: 1, links with other services: 1."
		if keep {
			count = "besides the password: passkeys: 1, links with other services: 1."
		} else {
			s.wantCounts(t, id, personal.ActorAdministrator)
		}
		if mail := s.mailAbout(t, w.email, "Two-factor sign-in was switched off"); !strings.Contains(mail.Text, count) {
			t.Errorf("kept: %t: got the notice %q, want %q", keep, mail.Text, count)
		}
	}
}

func testPasswordOtherWays(t *testing.T, s *administrationSuite) {
	w := s.otherWays(t, s.verified(t), noCode)
	change := personal.ChangePasswordRequest{Credentials: w.Credentials, OldPassword: Password, Password: Password, ConfirmPassword: Password}
	pair, err := s.service.ChangePassword(t.Context(), change)
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	s.wantWays(t, w, true, false)
	const count = "still signs in to your account: passkeys: 1, links with other services: 1."
	if mail := s.mailAbout(t, w.email, "Your password was changed"); !strings.Contains(mail.Text, count) {
		t.Errorf("got the notice %q, want %q", mail.Text, count)
	}
	in, err := s.signInBy(t, personal.SignInRequest{UserID: pair.UserID, Method: method})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	change.Credentials, change.RemoveOtherWaysIn = in.Credentials, true
	if pair, err = s.service.ChangePassword(t.Context(), change); err != nil {
		t.Fatalf("changing the password and removing other ways in: %v", err)
	}
	s.wantWays(t, w, false, false)
	if s.alive(t, pair) {
		t.Error("the session goes on although the identity that began it was removed")
	}
	s.wantCounts(t, pair.UserID, personal.ActorUser)
	s.awaitMail(t, 1, w.email, func(m personal.Mail) bool {
		return m.Subject == "Your password was changed" &&
			strings.Contains(m.Text, "no longer signs in: passkeys: 1, links with other services: 1.") && !strings.Contains(m.Text, "still signs in")
	})
	s.signIn(t, w.login, Password)
}

func testResetAccess(t *testing.T, s *administrationSuite) {
	ctx := t.Context()
	f := factorUser{user: s.verified(t)}
	s.switchOn(t, &f)
	w := s.otherWays(t, f.user, f.recoveryCode)
	id := w.Credentials.UserID
	if err := s.administration.DisableUser(ctx, id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	reset := func(id int64, email string) error {
		return s.administration.ResetAccess(ctx, personal.ResetAccessRequest{UserID: id, Email: email})
	}
	_, email := s.newLogin()
	wantFieldErrors(t, reset(id, ""), personal.CodeValidationFailed, personal.FieldErrors{"email": personal.FieldErrorRequired})
	wantFieldErrors(t, reset(id, "x"), personal.CodeValidationFailed, personal.FieldErrors{"email": personal.FieldErrorInvalidFormat})
	wantFieldErrors(t, reset(id, s.register(t).email), personal.CodeAlreadyExists, personal.FieldErrors{"email": personal.FieldErrorTaken})
	wantCode(t, reset(id+1000, email), personal.CodeNotFound)
	if err := reset(id, email); err != nil {
		t.Fatalf("resetting: %v", err)
	}
	event := s.awaitEvents(t, id, personal.EventAccessReset)[0]
	if event.Actor != personal.ActorAdministrator {
		t.Errorf("got %+v, want an event by the administrator", event)
	}
	s.mailAbout(t, w.email, "The access to your account was reset")
	record := s.record(t, id)
	if record.Email != email || record.EmailVerified || record.TwoFactor || record.Disabled || len(record.Passkeys)+len(record.Identities) > 0 {
		t.Errorf("got %+v, want the new e-mail, unverified, and nothing else that opens the account", record)
	}
	s.wantWays(t, w, false, false)
	_, err := s.authorize(t, w.login, Password, "")
	wantCode(t, err, personal.CodeInvalidCredentials)
	_, err = s.signInBy(t, personal.SignInRequest{UserID: id, Method: method, SecondFactorDone: true})
	wantCode(t, err, personal.CodeEmailUnverified)
	token := tokenIn(t, s.mailAbout(t, email, "Set a new password"))
	if _, err := s.recoverConfirm(ctx, token); err != nil {
		t.Fatalf("completing the recovery: %v", err)
	}
	s.signIn(t, w.login, Password+"!")
	if !s.record(t, id).EmailVerified {
		t.Error("the recovery has not verified the e-mail")
	}
}
