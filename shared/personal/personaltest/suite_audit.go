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
		do    func() error
		code  personal.Code
		event personal.EventType
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
		wantCode(t, step.do(), step.code)
		want = append(want, step.event)
	}
	wantCode(t, signIn(login, Password), personal.CodeInvalidCredentials) // the account no longer exists
	events := s.eventsAt(t, call.Address.String(), id, len(want)+1)
	got, withoutUser := []personal.EventType{}, 0
	for _, e := range events {
		if e.UserID == 0 && e.Type == personal.EventSignInFailed && e.RequestID == "events" {
			withoutUser++
			continue
		}
		got = append(got, e.Type)
	}
	if diff := cmp.Diff(want, got); diff != "" || withoutUser != 1 {
		t.Fatalf("got %d failed sign-ins without a user, want 1; events of the user (-want +got):\n%s", withoutUser, diff)
	}
}

// eventsAt waits for n different events that are about a user or, without a user, come
// from an address. It returns them in the order of their first delivery.
func (s *administrationSuite) eventsAt(t *testing.T, address string, userID int64, n int) []personal.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		all, err := s.host.AwaitEvents(ctx, known+1)
		if err != nil {
			t.Fatalf("waiting for %d events: %v", n, err)
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

// audit returns the events of a page of audit entries.
func (s *administrationSuite) audit(t *testing.T, r personal.AuditEntriesRequest) (events []personal.Event, page personal.AuditPage) {
	t.Helper()
	page, err := s.administration.AuditEntries(t.Context(), r)
	if err != nil {
		t.Fatalf("reading audit entries: %v", err)
	}
	for i, e := range page.Entries {
		if i > 0 && e.Cursor >= page.Entries[i-1].Cursor {
			t.Fatalf("got cursor %d after %d, want descending cursors", e.Cursor, page.Entries[i-1].Cursor)
		}
		events = append(events, e.Event)
	}
	return events, page
}

func testAuditEntries(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	ctx := personal.WithCall(t.Context(), personal.Call{
		RequestID: "Audit-" + u.login, Address: netip.MustParseAddr("2001:db8::a0d1"), Administrator: "Ada_" + u.login,
	})
	if err := s.administration.DisableUser(ctx, id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	if err := s.administration.EnableUser(ctx, id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	all := s.eventsAt(t, "2001:db8::a0d1", id, 3)
	slices.Reverse(all)
	events, page := s.audit(t, personal.AuditEntriesRequest{UserID: id})
	if diff := cmp.Diff(all, events); diff != "" || page.Next != 0 {
		t.Fatalf("got next %d, want 0; entries of the user (-published events, newest first +got):\n%s", page.Next, diff)
	}
	enabled, disabled, registered := all[0], all[1], all[2]
	for name, test := range map[string]struct {
		r    personal.AuditEntriesRequest
		want []personal.Event
	}{
		"a type":                       {personal.AuditEntriesRequest{UserID: id, Type: personal.EventUserDisabled}, []personal.Event{disabled}},
		"an unknown type":              {personal.AuditEntriesRequest{UserID: id, Type: "nonsense"}, nil},
		"another user":                 {personal.AuditEntriesRequest{UserID: id + 1000}, nil},
		"the request ID, of all users": {personal.AuditEntriesRequest{Text: "audit-" + strings.ToUpper(u.login)}, []personal.Event{enabled, disabled}},
		"the actor's name":             {personal.AuditEntriesRequest{Text: " ada_" + u.login + " "}, []personal.Event{enabled, disabled}},
		"part of the address":          {personal.AuditEntriesRequest{UserID: id, Text: "8::A0D"}, []personal.Event{enabled, disabled}},
		"a wildcard":                   {personal.AuditEntriesRequest{UserID: id, Text: "Ada%"}, nil},
		"another wildcard":             {personal.AuditEntriesRequest{UserID: id, Text: "A_a_"}, nil},
		"times":                        {personal.AuditEntriesRequest{UserID: id, Since: registered.Time, Until: enabled.Time.Add(time.Microsecond)}, all},
		"times after":                  {personal.AuditEntriesRequest{UserID: id, Since: enabled.Time.Add(time.Microsecond)}, nil},
		"times before":                 {personal.AuditEntriesRequest{UserID: id, Until: registered.Time}, nil},
		"every filter": {personal.AuditEntriesRequest{
			Type: personal.EventUserEnabled, UserID: id, Text: "audit", Since: enabled.Time, Until: enabled.Time.Add(time.Second), Limit: personal.MaxAuditLimit,
		}, []personal.Event{enabled}},
		"the largest page":          {personal.AuditEntriesRequest{UserID: id, Limit: 3}, all},
		"the entries after another": {personal.AuditEntriesRequest{UserID: id, After: page.Entries[0].Cursor}, all[1:]},
	} {
		got, page := s.audit(t, test.r)
		if diff := cmp.Diff(test.want, got); diff != "" || page.Next != 0 {
			t.Errorf("by %s: got next %d, want 0; entries (-want +got):\n%s", name, page.Next, diff)
		}
	}

	first, page := s.audit(t, personal.AuditEntriesRequest{UserID: id, Limit: 2})
	s.register(t) // a newer entry
	second, last := s.audit(t, personal.AuditEntriesRequest{UserID: id, Limit: 2, After: page.Next})
	if diff := cmp.Diff(all, slices.Concat(first, second)); diff != "" || len(first) != 2 || last.Next != 0 {
		t.Errorf("got next %d, want 0; pages (-want +got):\n%s", last.Next, diff)
	}

	if err := s.administration.DeleteUser(ctx, id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if left, _ := s.audit(t, personal.AuditEntriesRequest{UserID: id}); left != nil {
		t.Errorf("got entries %+v of a deleted user, want none", left)
	}
}

func testInvalidAuditFilters(t *testing.T, s *administrationSuite) {
	long := strings.Repeat("x", personal.MaxSearchLength+1)
	for _, test := range []struct {
		r    personal.AuditEntriesRequest
		want personal.FieldErrors
	}{
		{
			personal.AuditEntriesRequest{Type: personal.EventType(long), Text: "a\x00b", UserID: -1, After: -1, Limit: personal.MaxAuditLimit + 1},
			personal.FieldErrors{
				"type": personal.FieldErrorTooLong, "text": personal.FieldErrorInvalidFormat,
				"user_id": personal.FieldErrorOutOfRange, "after": personal.FieldErrorOutOfRange, "limit": personal.FieldErrorOutOfRange,
			},
		},
		{
			personal.AuditEntriesRequest{Type: "a\nb", Text: long, Limit: -1},
			personal.FieldErrors{"type": personal.FieldErrorInvalidFormat, "text": personal.FieldErrorTooLong, "limit": personal.FieldErrorOutOfRange},
		},
	} {
		_, err := s.administration.AuditEntries(t.Context(), test.r)
		wantFieldErrors(t, err, personal.CodeValidationFailed, test.want)
	}
}
