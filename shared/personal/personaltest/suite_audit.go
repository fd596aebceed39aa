package personaltest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// audit returns the events of a page of audit entries.
func (s *administrationSuite) audit(t *testing.T, r personal.AuditEntriesRequest) (events []personal.Event, page personal.AuditPage) {
	t.Helper()
	page, err := s.administration.AuditEntries(t.Context(), r)
	if err != nil {
		t.Fatalf("reading audit entries: %v", err)
	}
	for i, e := range page.Entries {
		if i > 0 && e.Cursor >= page.Entries[i-1].Cursor {
			t.Fatalf("cursor %d is listed behind %d", e.Cursor, page.Entries[i-1].Cursor)
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
		t.Fatalf("next %d, entries of the user (-as told to the host, newest first +got):\n%s", page.Next, diff)
	}
	enabled, disabled, registered := all[0], all[1], all[2]
	for name, test := range map[string]struct {
		r    personal.AuditEntriesRequest
		want []personal.Event
	}{
		"a type":                       {personal.AuditEntriesRequest{UserID: id, Type: personal.EventUserDisabled}, []personal.Event{disabled}},
		"a type nobody knows":          {personal.AuditEntriesRequest{UserID: id, Type: "nonsense"}, nil},
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
		"the largest page":           {personal.AuditEntriesRequest{UserID: id, Limit: 3}, all},
		"the entries behind another": {personal.AuditEntriesRequest{UserID: id, After: page.Entries[0].Cursor}, all[1:]},
	} {
		got, page := s.audit(t, test.r)
		if diff := cmp.Diff(test.want, got); diff != "" || page.Next != 0 {
			t.Errorf("by %s: next %d, entries (-want +got):\n%s", name, page.Next, diff)
		}
	}

	first, page := s.audit(t, personal.AuditEntriesRequest{UserID: id, Limit: 2})
	s.register(t) // a newer entry
	second, last := s.audit(t, personal.AuditEntriesRequest{UserID: id, Limit: 2, After: page.Next})
	if diff := cmp.Diff(all, slices.Concat(first, second)); diff != "" || len(first) != 2 || last.Next != 0 {
		t.Errorf("next %d, pages (-want +got):\n%s", last.Next, diff)
	}

	if err := s.administration.DeleteUser(ctx, id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	if left, _ := s.audit(t, personal.AuditEntriesRequest{UserID: id}); left != nil {
		t.Errorf("entries of a deleted user: %+v", left)
	}
}

func testAuditFaults(t *testing.T, s *administrationSuite) {
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
		wantFaults(t, err, personal.CodeValidationFailed, test.want)
	}
}
