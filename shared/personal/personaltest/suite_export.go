package personaltest

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func testExport(t *testing.T, s *suite) {
	ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("2001:db8::e:1"), Agent: "a browser"})
	u := s.register(t) // from an unknown address
	in, err := s.service.Authorize(ctx, personal.AuthorizeRequest{Login: u.login, Password: Password})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	export := func(c personal.Credentials, password string) (personal.Export, error) {
		return s.service.Export(ctx, personal.ExportRequest{Credentials: c, Password: password})
	}
	_, err = export(in.Credentials, "wrong horse battery")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorMismatch})
	_, err = export(in.Credentials, "")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorRequired})
	_, err = export(personal.Credentials{UserID: u.Credentials.UserID}, Password)
	wantCode(t, err, personal.CodeUnauthenticated)

	e, err := export(in.Credentials, Password)
	if err != nil {
		t.Fatalf("exporting: %v", err)
	}
	if diff := cmp.Diff(u.Profile, e.Profile); diff != "" || e.UserID != u.Credentials.UserID || e.Created.IsZero() || e.Truncated {
		t.Errorf("got user %d, created %v, truncated %t; want the whole user %d. Profile (-want +got):\n%s",
			e.UserID, e.Created, e.Truncated, u.Credentials.UserID, diff)
	}
	sessions, err := s.service.Sessions(ctx, in.Credentials)
	if err != nil {
		t.Fatalf("listing sessions: %v", err)
	}
	if diff := cmp.Diff(sessions, e.Sessions); diff != "" || len(sessions) != 2 {
		t.Errorf("got %d sessions, want 2. (-listed +exported):\n%s", len(e.Sessions), diff)
	}
	if len(e.KnownAddresses) != 1 || e.KnownAddresses[0].Address != "2001:db8::/64" || e.KnownAddresses[0].LastSeen.IsZero() {
		t.Errorf("got known addresses %+v, want that of the sign-in", e.KnownAddresses)
	}
	const own = "2001:db8::e:1"
	wantEvents(t, e.Events, []personal.ExportedEvent{
		{Type: personal.EventSignInFailed}, // perhaps by another person
		{Type: personal.EventSignedIn, Address: own}, {Type: personal.EventRegistered},
	})
	if e, err = export(in.Credentials, Password); err != nil {
		t.Fatalf("exporting again: %v", err)
	}
	wantEvents(t, e.Events[:1], []personal.ExportedEvent{{Type: personal.EventExported, Address: own}})
}

// wantEvents compares the events of an export, except for their times, which must not
// ascend. All are by users.
func wantEvents(t *testing.T, got, want []personal.ExportedEvent) {
	t.Helper()
	var timeless []personal.ExportedEvent
	for i, e := range got {
		if e.Time.IsZero() || i > 0 && e.Time.After(got[i-1].Time) {
			t.Errorf("event %d: got the time %v, want the newest event first", i, e.Time)
		}
		timeless = append(timeless, personal.ExportedEvent{Type: e.Type, Address: e.Address})
		if e.Actor != personal.ActorUser {
			t.Errorf("event %d: got the actor %q, want the user", i, e.Actor)
		}
	}
	if diff := cmp.Diff(want, timeless); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
