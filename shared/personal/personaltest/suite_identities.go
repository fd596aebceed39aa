package personaltest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// method is how a host authenticates users in these tests.
const method = "oidc"

// signInBy signs a user in whom the host has authenticated.
func (s *administrationSuite) signInBy(t *testing.T, r personal.SignInRequest) (personal.SignedIn, error) {
	t.Helper()
	ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("2001:db8::f:1"), Agent: "a browser"})
	return s.administration.SignIn(ctx, r)
}

// newIdentity returns an identity that no account has.
func (s *suite) newIdentity() personal.Identity {
	_, subject := s.newLogin()
	return personal.Identity{Issuer: "https://provider.example", Subject: subject}
}

// visitor creates a user without a password, whose first identity is linked, and signs them in.
func (s *administrationSuite) visitor(t *testing.T, email bool) (u user, i personal.Identity) {
	t.Helper()
	login, address := s.newLogin()
	if !email {
		address = ""
	}
	id, err := s.administration.CreateUser(t.Context(), personal.CreateUserRequest{Login: login, Email: address})
	if err != nil {
		t.Fatalf("creating a user: %v", err)
	}
	i = s.newIdentity()
	err = s.administration.LinkIdentity(t.Context(), personal.LinkIdentityRequest{Identity: i, UserID: id})
	if err != nil {
		t.Fatalf("linking the first identity: %v", err)
	}
	in, err := s.signInBy(t, personal.SignInRequest{Identity: i, Method: method})
	if err != nil || in.Credentials.UserID != id {
		t.Fatalf("signing in: got user %d, %v; want %d", in.Credentials.UserID, err, id)
	}
	return user{login, address, in}, i
}

func (s *administrationSuite) wantIdentity(t *testing.T, i personal.Identity, want int64) {
	t.Helper()
	id, err := s.administration.FindIdentity(t.Context(), i)
	if want == 0 {
		wantCode(t, err, personal.CodeNotFound)
	} else if err != nil || id != want {
		t.Fatalf("finding %v: got user %d, error %v; want %d", i, id, err, want)
	}
}

// wantUsed returns when the only identity of a user was last used, and checks that it was between two times.
func (s *administrationSuite) wantUsed(t *testing.T, id int64, from, to time.Time) time.Time {
	t.Helper()
	list := s.record(t, id).Identities
	if len(list) != 1 || list[0].LastUsed.Before(from) || list[0].LastUsed.After(to) {
		t.Fatalf("got the identities %+v, want one that was last used from %v to %v", list, from, to)
	}
	return list[0].LastUsed
}

func testSignIn(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	in, err := s.signInBy(t, personal.SignInRequest{UserID: id, Method: method, Code: "ignored"})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	if diff := cmp.Diff(u.Profile, in.Profile); diff != "" || in.Credentials.UserID != id || !s.alive(t, in.Credentials) {
		t.Errorf("got %+v, want a valid session of user %d. Profile (-want +got):\n%s", in, id, diff)
	}
	s.signIn(t, u.login, Password)
	sessions, err := s.service.Sessions(t.Context(), in.Credentials)
	if err != nil {
		t.Fatalf("listing sessions: %v", err)
	}
	methods := map[string]int{}
	for _, session := range sessions {
		methods[session.Method]++
		if session.Current && (session.Method != method || session.Address != "2001:db8::f:1" || session.Agent != "a browser") {
			t.Errorf("got the session %+v, want the method of the sign-in, and address and agent of its call", session)
		}
	}
	if diff := cmp.Diff(map[string]int{method: 1, personal.MethodPassword: 1, personal.MethodRegistration: 1}, methods); diff != "" {
		t.Errorf("methods of sessions (-want +got):\n%s", diff)
	}
	event := s.awaitEvents(t, id, personal.EventSignedIn)[0]
	if event.Method != method || event.Actor != personal.ActorUser || event.Address != "2001:db8::f:1" {
		t.Errorf("got the event %+v, want the method, by the user at their address", event)
	}
	log, err := s.administration.AuditEntries(t.Context(), personal.AuditEntriesRequest{UserID: id, Type: personal.EventSignedIn})
	if err != nil || len(log.Entries) != 2 || log.Entries[0].Method != personal.MethodPassword || log.Entries[1].Method != method {
		t.Errorf("got the entries %+v, error %v; want one for each method", log.Entries, err)
	}

	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	_, err = s.signInBy(t, personal.SignInRequest{UserID: id, Method: method})
	wantCode(t, err, personal.CodeAccountDisabled)
	_, err = s.signInBy(t, personal.SignInRequest{UserID: id + 1000, Method: method})
	wantCode(t, err, personal.CodeNotFound)
	for name, want := range map[string]personal.FieldErrorCode{
		"":                             personal.FieldErrorRequired,
		"Open ID":                      personal.FieldErrorInvalidFormat,
		strings.Repeat("x", 33):        personal.FieldErrorTooLong,
		personal.MethodPassword:        personal.FieldErrorTaken,
		personal.MethodPasskey:         personal.FieldErrorTaken,
		personal.MethodRegistration:    personal.FieldErrorTaken,
		"saml_2" + "\u0430":            personal.FieldErrorInvalidFormat,
		strings.Repeat("x", 31) + "\n": personal.FieldErrorInvalidFormat,
	} {
		_, err := s.signInBy(t, personal.SignInRequest{UserID: id, Method: name})
		wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"method": want})
	}
}

// An identity signs in whoever has it now, or no one.
func testSignInByIdentity(t *testing.T, s *administrationSuite) {
	u := s.verified(t)
	id := u.Credentials.UserID
	link := func() personal.Identity {
		i, err := s.linked(t, u, s.prove(t, u.Credentials, ""))
		if err != nil {
			t.Fatalf("linking: %v", err)
		}
		return i
	}
	i := link()
	s.wantUsed(t, id, time.Time{}, time.Time{})
	signIn := func(i personal.Identity, id int64) error {
		in, err := s.signInBy(t, personal.SignInRequest{Identity: i, UserID: id, Method: method})
		if err == nil && in.Credentials.UserID != u.Credentials.UserID {
			t.Errorf("got user %d, want %d", in.Credentials.UserID, u.Credentials.UserID)
		}
		return err
	}
	wantCode(t, signIn(i, id), personal.CodeMalformedRequest)
	wantCode(t, signIn(i, id+1000), personal.CodeMalformedRequest)
	wantCode(t, signIn(s.newIdentity(), 0), personal.CodeNotFound)
	wantCode(t, signIn(personal.Identity{}, 0), personal.CodeNotFound)
	wantFieldErrors(t, signIn(personal.Identity{Subject: strings.Repeat("x", 256)}, 0), personal.CodeValidationFailed,
		personal.FieldErrors{"issuer": personal.FieldErrorRequired, "subject": personal.FieldErrorTooLong})
	if err := signIn(personal.Identity{}, id); err != nil {
		t.Errorf("by the user id alone: got %v", err)
	}
	s.wantUsed(t, id, time.Time{}, time.Time{})
	if err := signIn(i, 0); err != nil {
		t.Errorf("by the identity: got %v", err)
	}
	s.wantUsed(t, id, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	err := s.administration.UnlinkIdentity(t.Context(), personal.UnlinkIdentityRequest{Identity: i, UserID: id})
	if err != nil {
		t.Fatalf("unlinking: %v", err)
	}
	wantCode(t, signIn(i, 0), personal.CodeNotFound)
	for range 5 { // whichever comes first, no session is left
		i := link()
		opened := make([]personal.SignedIn, 2)
		errs := together(2, func(n int) error {
			if n == 0 {
				return s.administration.UnlinkIdentity(t.Context(), personal.UnlinkIdentityRequest{Identity: i, UserID: id})
			}
			var err error
			opened[n], err = s.signInBy(t, personal.SignInRequest{Identity: i, Method: method})
			return err
		})
		if errs[0] != nil || errs[1] != nil && personal.CodeOf(errs[1]) != personal.CodeNotFound || s.alive(t, opened[1].Credentials) {
			t.Errorf("together: unlinking: %v, signing in: %v; want no session left", errs[0], errs[1])
		}
	}
}

func testSignInWithCode(t *testing.T, s *administrationSuite) {
	u := s.enrol(t)
	request := personal.SignInRequest{UserID: u.Credentials.UserID, Method: method}
	code := u.recoveryCode()
	for _, attempt := range []struct {
		code string
		want personal.Code
	}{{"", personal.CodeCodeRequired}, {"000", personal.CodeInvalidCode}, {u.used, personal.CodeInvalidCode}, {code, ""},
		{code, personal.CodeInvalidCode}, {u.code(), ""}} {
		request.Code = attempt.code
		if _, err := s.signInBy(t, request); personal.CodeOf(err) != attempt.want {
			t.Errorf("code %q: got %v, want %q", attempt.code, err, attempt.want)
		}
	}
	request.Code, request.SecondFactorDone = "", true
	if _, err := s.signInBy(t, request); err != nil {
		t.Errorf("when the host vouches for a second factor: got %v", err)
	}
}

// The first identity of a new account needs no proof, and no other one does without it.
func testFirstIdentity(t *testing.T, s *administrationSuite) {
	ctx := t.Context()
	u, i := s.visitor(t, true)
	id := u.Credentials.UserID
	s.wantIdentity(t, i, id)
	s.wantIdentity(t, personal.Identity{Issuer: i.Issuer, Subject: strings.ToUpper(i.Subject)}, 0)
	s.wantIdentity(t, personal.Identity{Issuer: i.Issuer + "/", Subject: i.Subject}, 0)
	s.awaitEvents(t, id, personal.EventIdentityLinked)
	link := func(i personal.Identity, id int64) error {
		return s.administration.LinkIdentity(ctx, personal.LinkIdentityRequest{Identity: i, UserID: id})
	}
	if err := link(i, id); err != nil {
		t.Errorf("linking it again: got %v", err)
	}
	needed := personal.FieldErrors{"proof": personal.FieldErrorRequired}
	wantFieldErrors(t, link(s.newIdentity(), id), personal.CodeValidationFailed, needed)
	wantFieldErrors(t, link(s.newIdentity(), s.register(t).Credentials.UserID), personal.CodeValidationFailed, needed)
	wantCode(t, link(s.newIdentity(), id+1000), personal.CodeNotFound)
	other, _, _ := s.created(t, false)
	wantFieldErrors(t, link(i, other), personal.CodeAlreadyExists, personal.FieldErrors{"subject": personal.FieldErrorTaken})
	if _, err := s.signInBy(t, personal.SignInRequest{UserID: other, Method: method}); err != nil {
		t.Fatalf("signing in without an identity: %v", err)
	}
	if err := s.administration.RevokeUserSessions(ctx, other); err != nil {
		t.Fatalf("ending sessions: %v", err)
	}
	wantFieldErrors(t, link(s.newIdentity(), other), personal.CodeValidationFailed, needed) // they were signed in once
	invalid := personal.Identity{Issuer: "", Subject: strings.Repeat("x", 256)}
	want := personal.FieldErrors{"issuer": personal.FieldErrorRequired, "subject": personal.FieldErrorTooLong}
	wantFieldErrors(t, link(invalid, id), personal.CodeValidationFailed, want)
	_, err := s.administration.FindIdentity(ctx, invalid)
	wantFieldErrors(t, err, personal.CodeValidationFailed, want)
	wantFieldErrors(t, s.administration.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: invalid, UserID: id}),
		personal.CodeValidationFailed, want)
	longest := personal.Identity{Issuer: strings.Repeat("\x00", 255), Subject: strings.Repeat("ж", 127) + "'"}
	third, _, _ := s.created(t, false)
	if err := link(longest, third); err != nil {
		t.Fatalf("linking the longest identity: %v", err)
	}
	s.wantIdentity(t, longest, third)

	record := s.record(t, id)
	if len(record.Identities) != 1 || record.Identities[0].Identity != i ||
		time.Since(record.Identities[0].Linked).Abs() > time.Hour {
		t.Errorf("got the identities %+v in the record, want %v, linked now", record.Identities, i)
	}
	if err := s.administration.DeleteUser(ctx, id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	s.wantIdentity(t, i, 0)
}

func testUnlinkIdentity(t *testing.T, s *administrationSuite) {
	ctx := t.Context()
	unlink := func(i personal.Identity, id int64) error {
		return s.administration.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: i, UserID: id})
	}
	bare, only := s.visitor(t, false)
	wantCode(t, unlink(only, bare.Credentials.UserID), personal.CodeLastWayIn)
	if !s.alive(t, bare.Credentials) {
		t.Error("a refused removal has ended a session")
	}
	s.wantIdentity(t, only, bare.Credentials.UserID)

	u := s.verified(t)
	id := u.Credentials.UserID
	i, err := s.linked(t, u, s.prove(t, u.Credentials, ""))
	if err != nil {
		t.Fatalf("linking: %v", err)
	}
	in, err := s.signInBy(t, personal.SignInRequest{UserID: id, Method: method})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	for _, unknown := range []personal.Identity{s.newIdentity(), only} {
		if err := unlink(unknown, id); err != nil {
			t.Errorf("unlinking an identity that the account does not have: %v", err)
		}
	}
	wantCode(t, unlink(i, id+1000), personal.CodeNotFound)
	s.wantIdentity(t, only, bare.Credentials.UserID)
	s.wantIdentity(t, i, id)
	if err := unlink(i, id); err != nil {
		t.Fatalf("unlinking: %v", err)
	}
	s.wantIdentity(t, i, 0)
	if s.alive(t, in.Credentials) {
		t.Error("a session that the host has opened is still valid")
	}
	s.awaitEvents(t, id, personal.EventIdentityUnlinked)
}

// A recovery removes identities, and ends their sessions.
func testRecoveredIdentity(t *testing.T, s *administrationSuite) {
	u, i := s.visitor(t, true)
	id := u.Credentials.UserID
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Email: u.email}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	recovery := s.awaitMail(t, 1, u.email, func(m personal.Mail) bool { return m.Subject == "Set a new password" })
	if _, err := s.recoverConfirm(t.Context(), tokenIn(t, recovery)); err != nil {
		t.Fatalf("recovering: %v", err)
	}
	s.wantIdentity(t, i, 0)
	_, err := s.signInBy(t, personal.SignInRequest{Identity: i, Method: method})
	wantCode(t, err, personal.CodeNotFound)
	if s.alive(t, u.Credentials) {
		t.Error("a session is still valid after the recovery")
	}
	if event := s.awaitEvents(t, id, personal.EventIdentityUnlinked)[0]; event.Count != 1 {
		t.Errorf("got %+v, want the number of identities", event)
	}
	in, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password + "!"})
	if err != nil {
		t.Fatalf("signing in with the new password: %v", err)
	}
	sessions, err := s.service.Sessions(t.Context(), in.Credentials)
	if err != nil || slices.ContainsFunc(sessions, func(s personal.Session) bool { return s.Method == method }) {
		t.Errorf("got the sessions %+v, error %v; want none that the host has opened", sessions, err)
	}
}

// Of accounts that link one identity at once, one gets it.
func testIdentityRace(t *testing.T, s *administrationSuite) {
	const callers = 8
	s.visitor(t, false) // or skip
	i := s.newIdentity()
	ids := make([]int64, callers)
	for n := range ids {
		ids[n], _, _ = s.created(t, false)
	}
	codes := together(callers, func(n int) personal.Code {
		return personal.CodeOf(s.administration.LinkIdentity(context.WithoutCancel(t.Context()),
			personal.LinkIdentityRequest{Identity: i, UserID: ids[n]}))
	})
	won := 0
	for n, code := range codes {
		switch code {
		case "":
			won++
			s.wantIdentity(t, i, ids[n])
		case personal.CodeAlreadyExists:
		default:
			t.Errorf("got %q, want already_exists", code)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d accounts got the identity, want one", won, callers)
	}
}

// linked links a new identity to the account of a user, who proves that they ask.
func (s *administrationSuite) linked(t *testing.T, u user, proof string) (personal.Identity, error) {
	t.Helper()
	i := s.newIdentity()
	return i, s.administration.LinkIdentity(t.Context(), personal.LinkIdentityRequest{Identity: i, Credentials: u.Credentials, Proof: proof})
}

// A copied session without its proof links and unlinks nothing.
func testProvedIdentity(t *testing.T, s *administrationSuite) {
	ctx := t.Context()
	s.visitor(t, true) // or skip
	unconfirmed := s.register(t)
	if _, err := s.linked(t, unconfirmed, s.prove(t, unconfirmed.Credentials, "")); personal.CodeOf(err) != personal.CodeEmailUnverified {
		t.Errorf("with an e-mail that is not confirmed: got %v", err)
	}
	u := s.verified(t)
	u.Credentials = s.signIn(t, u.login, Password)
	other := s.signIn(t, u.login, Password)
	proof, others := s.prove(t, u.Credentials, ""), s.prove(t, other, "")
	refused := func(c personal.Credentials, i personal.Identity, proof string, want personal.FieldErrorCode) {
		t.Helper()
		fields := personal.FieldErrors{"proof": want}
		err := s.administration.LinkIdentity(ctx, personal.LinkIdentityRequest{Identity: s.newIdentity(), Credentials: c, Proof: proof,
			UserID: c.UserID})
		wantFieldErrors(t, err, personal.CodeValidationFailed, fields)
		err = s.administration.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: i, Credentials: c, Proof: proof, UserID: c.UserID})
		wantFieldErrors(t, err, personal.CodeValidationFailed, fields)
	}
	i, err := s.linked(t, u, proof)
	if err != nil {
		t.Fatalf("linking: %v", err)
	}
	s.wantIdentity(t, i, u.Credentials.UserID)
	event := s.awaitEvents(t, u.Credentials.UserID, personal.EventIdentityLinked)[0]
	if event.Actor != personal.ActorUser {
		t.Errorf("got %+v, want an event by the user", event)
	}
	refused(u.Credentials, i, "", personal.FieldErrorRequired)
	refused(u.Credentials, i, others, personal.FieldErrorMismatch)
	refused(u.Credentials, i, strings.Repeat("A", 43), personal.FieldErrorMismatch)
	stranger := personal.Credentials{UserID: u.Credentials.UserID, UserHash: unconfirmed.Credentials.UserHash}
	err = s.administration.LinkIdentity(ctx, personal.LinkIdentityRequest{Identity: s.newIdentity(), Credentials: stranger, Proof: proof})
	wantCode(t, err, personal.CodeUnauthenticated)
	s.prove(t, u.Credentials, "")
	refused(u.Credentials, i, proof, personal.FieldErrorMismatch) // another one was made
	proof = s.prove(t, u.Credentials, "")
	fresh, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{Credentials: u.Credentials, Proof: proof, Password: Password,
		ConfirmPassword: Password})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	refused(fresh, i, proof, personal.FieldErrorMismatch) // of another credential version
	s.wantIdentity(t, i, u.Credentials.UserID)

	export, err := s.service.Export(ctx, personal.ExportRequest{Credentials: fresh, Proof: s.prove(t, fresh, "")})
	if err != nil || len(export.Identities) != 1 || export.Identities[0].Identity != i {
		t.Errorf("got the identities %+v in an export, error %v; want %v", export.Identities, err, i)
	}
	opened, err := s.signInBy(t, personal.SignInRequest{UserID: u.Credentials.UserID, Method: method})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	proof = s.prove(t, fresh, "")
	if err := s.administration.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: i, Credentials: fresh, Proof: proof}); err != nil {
		t.Fatalf("unlinking: %v", err)
	}
	s.wantIdentity(t, i, 0)
	if s.alive(t, opened.Credentials) || !s.alive(t, fresh) {
		t.Error("after unlinking: want that the session of the host's sign-in has ended, and no other one")
	}
}

// A sign-in at the provider a moment ago is a proof. It is none of a code.
func testSignInProof(t *testing.T, s *administrationSuite) {
	u := s.enrol(t)
	id := u.Credentials.UserID
	now := time.Now()
	for name, test := range map[string]struct {
		at    time.Time
		want  bool
		until time.Time
	}{
		"unknown":               {time.Time{}, false, time.Time{}},
		"now":                   {now, true, now.Add(5 * time.Minute)},
		"two minutes ago":       {now.Add(-2 * time.Minute), true, now.Add(3 * time.Minute)},
		"five minutes ago":      {now.Add(-5 * time.Minute), false, time.Time{}},
		"in ten seconds":        {now.Add(10 * time.Second), true, now.Add(5 * time.Minute)},
		"in two minutes":        {now.Add(2 * time.Minute), false, time.Time{}},
		"in another millennium": {now.AddDate(1000, 0, 0), false, time.Time{}},
	} {
		in, err := s.signInBy(t, personal.SignInRequest{UserID: id, Method: method, SecondFactorDone: true, AuthenticatedAt: test.at})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := in.Proof.Proof != ""; got != test.want || in.Proof.Until.Sub(test.until).Abs() > time.Minute {
			t.Errorf("authenticated %s: got a proof: %t until %v, want %t until %v", name, got, in.Proof.Until, test.want, test.until)
		}
		export := personal.ExportRequest{Credentials: in.Credentials, Proof: in.Proof.Proof}
		if _, err := s.service.Export(t.Context(), export); test.want && name == "now" && err != nil {
			t.Errorf("authenticated %s: the proof is refused: %v", name, err)
		}
	}
}
