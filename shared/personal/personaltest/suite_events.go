package personaltest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func testEvents(t *testing.T, s *administrationSuite) {
	call := personal.Call{RequestID: "events", Address: netip.MustParseAddr("2001:db8::e")}
	ctx := personal.WithCall(t.Context(), call)
	signIn := func(login, password string) error {
		_, err := s.service.Authorize(ctx, personal.AuthorizeRequest{Login: login, Password: password})
		return err
	}
	login, email := s.newLogin()
	in, err := s.service.Register(ctx, personal.RegisterRequest{
		Login: login, Password: Password, ConfirmPassword: Password, Email: email,
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	id := in.Credentials.UserID
	want := []personal.EventType{personal.EventRegistered}
	for _, step := range []struct {
		does func() error
		code personal.Code
		told personal.EventType
	}{
		{func() error { return signIn(login, "wrong wrong") }, personal.CodeInvalidCredentials, personal.EventSignInFailed},
		{func() error { return signIn(email, Password) }, "", personal.EventSignedIn},
		{func() error {
			_, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
				Credentials: in.Credentials, OldPassword: Password, Password: Password + "!", ConfirmPassword: Password + "!",
			})
			return err
		}, "", personal.EventPasswordChanged},
		{func() error { return s.administration.DisableUser(ctx, id) }, "", personal.EventUserDisabled},
		{func() error { return signIn(login, Password+"!") }, personal.CodeAccountDisabled, personal.EventSignInFailed},
		{func() error { return s.administration.EnableUser(ctx, id) }, "", personal.EventUserEnabled},
		{func() error { return s.administration.DeleteUser(ctx, id) }, "", personal.EventUserDeleted},
	} {
		wantCode(t, step.does(), step.code)
		want = append(want, step.told)
	}
	wantCode(t, signIn(login, Password), personal.CodeInvalidCredentials) // nobody's by now
	events := s.eventsAt(t, call.Address.String(), id, len(want)+1)
	got, ofNobody := []personal.EventType{}, 0
	for _, e := range events {
		if e.UserID == 0 && e.Type == personal.EventSignInFailed && e.RequestID == "events" {
			ofNobody++
			continue
		}
		got = append(got, e.Type)
	}
	if diff := cmp.Diff(want, got); diff != "" || ofNobody != 1 {
		t.Fatalf("%d failures of nobody's, events of the user (-want +got):\n%s", ofNobody, diff)
	}
}

// eventsAt waits for n different events that a user had or an address caused, and
// returns them in the order of their first delivery.
func (s *administrationSuite) eventsAt(t *testing.T, address string, userID int64, n int) []personal.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		all, err := s.host.AwaitEvents(ctx, known+1)
		if err != nil {
			t.Fatalf("no %d events: %v", n, err)
		}
		known = len(all)
		var events []personal.Event
		seen := map[string]bool{}
		for _, e := range all {
			if !seen[e.ID] && (e.UserID == userID || e.UserID == 0 && e.Address == address) {
				events = append(events, e)
			}
			seen[e.ID] = true
		}
		if len(events) >= n {
			return events
		}
	}
}
