package accounts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// A made-up 0.3.0 has stored an event with its audit entry, and a job of a kind that this version does not know.
func TestEvents_OneOfALaterVersionIsPassedOn(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	id := f.register(t, "ada").Credentials.UserID
	e := personal.Event{ID: "later", Type: "passkey_renamed", Time: f.clock.Now().UTC(), UserID: id, Actor: "assistant", Method: "gesture"}
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	renamed := strings.Replace(string(payload), "{", `{"renamed":{"to":"phone"},`, 1)
	for _, j := range []accounts.NewJob{
		{Kind: "rename", Payload: []byte(`{}`), AccountID: id}, {Kind: accounts.KindEvent, Payload: []byte(renamed), AccountID: id, Event: &e},
	} {
		if err := f.store.Enqueue(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	f.drain(t)
	if got := f.awaitEvent(t, e.Type); !cmp.Equal(got, e) {
		t.Errorf("the host got %+v, want %+v", got, e)
	}
	page, err := f.service.AuditEntries(t.Context(), personal.AuditEntriesRequest{Type: e.Type})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Type != e.Type || page.Entries[0].Actor != e.Actor {
		t.Errorf("got audit entries %+v, %v, want that of the event", page.Entries, err)
	}
	jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"rename"}, N: 1, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Errorf("got jobs %v, %v, want that of the unknown kind", jobs, err)
	}
}

func TestEvents_RefusedOneIsHandedOverAgainBeforeTheNext(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	refusals := 2
	f.host.PublishEventFunc = func(context.Context, personal.Event) error {
		if refusals--; refusals >= 0 {
			return errors.New("not now")
		}
		return nil
	}
	f.disable(t, f.register(t, "ada").Credentials.UserID)
	for range 3 {
		f.drain(t)
		f.clock.Advance(time.Hour)
	}
	var got []personal.EventType
	for _, e := range f.host.Events() {
		got = append(got, e.Type)
	}
	if diff := cmp.Diff([]personal.EventType{personal.EventRegistered, personal.EventUserDisabled}, got); diff != "" {
		t.Error(diff)
	}
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error, want one")
	}
}

func TestEvents_RefusedAttemptsAreLimited(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		id := f.register(t, "ada").Credentials.UserID
		f.drain(t)
		known := len(f.host.Events())
		for range 20 {
			f.try(t, "203.0.113.1", "ada", otherPassword)
		}
		f.try(t, "203.0.113.1", "nobody", otherPassword)
		f.drain(t)
		got := map[string]int{}
		for _, e := range f.host.Events()[known:] {
			got[fmt.Sprintf("%s of %d at %s", e.Type, e.UserID, e.Address)]++
		}
		want := map[string]int{
			fmt.Sprintf("sign_in_failed of %d at 203.0.113.1", id): 5,
			"sign_in_failed of 0 at 203.0.113.1":                   1,
			"throttled of 0 at 203.0.113.1":                        5,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// The thief of a session may guess the password where an operation requires it.
func TestEvents_WrongPasswordOfASignedInUser(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		var log bytes.Buffer
		woken := 0
		f.service = accounts.New(f.settings, f.store, h, f.host, slog.New(slog.NewTextHandler(&log, nil)), func() { woken++ })
		in := f.register(t, "ada")
		woken = 0
		f.drain(t)
		known := len(f.host.Events())
		for i := range 20 {
			if i%2 == 0 {
				_, err := f.service.ChangePassword(at(t, "203.0.113.1"),
					personal.ChangePasswordRequest{Credentials: in.Credentials, OldPassword: "wrong"})
				wantRefused(t, err)
				continue
			}
			wantRefused(t, f.service.ChangeEmail(at(t, "203.0.113.1"), personal.ChangeEmailRequest{Credentials: in.Credentials, Password: "wrong"}))
		}
		f.drain(t)
		got := map[string]int{}
		for _, e := range f.host.Events()[known:] {
			got[fmt.Sprintf("%s of %d", e.Type, e.UserID)]++
		}
		want := map[string]int{fmt.Sprintf("sign_in_failed of %d", in.Credentials.UserID): 5, "throttled of 0": 5}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if woken != 10 {
			t.Errorf("got %d wake-ups, want 10, one for each event", woken)
		}
		if n := strings.Count(log.String(), `msg="authentication failed" address=203.0.113.1 identifier=`); n != 14 {
			t.Errorf("got %d log lines of failures, want 14:\n%s", n, &log)
		}
		if n := strings.Count(log.String(), `msg="too many attempts" address=203.0.113.1`+"\n"); n != 5 {
			t.Errorf("got %d log lines of throttled attempts, want 5:\n%s", n, &log)
		}
	})
}

func TestEvents_DistributedGuessesAreLimited(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	for i := range 300 {
		f.try(t, fmt.Sprintf("2001:db8:0:%x::1", i), fmt.Sprint("user", i), otherPassword)
	}
	jobs, err := f.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 1000, Lease: time.Minute})
	if err != nil || len(jobs) != 100 {
		t.Errorf("got %d events after 300 failures (error %v), want 100", len(jobs), err)
	}
}

// A user may type a password into the login field. The log still tells logins
// apart.
func TestSignIn_LogHoldsNothingTyped(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	var lines [2]bytes.Buffer
	for i := range lines {
		s := accounts.New(f.settings, f.store, mustHasher(t, cheap), f.host, slog.New(slog.NewTextHandler(&lines[i], nil)), func() {})
		for _, login := range []string{"hunter2hunter2", "HUNTER2hunter2", "another"} {
			_, err := s.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: otherPassword})
			wantCode(t, err, personal.CodeInvalidCredentials)
		}
	}
	identifiers := func(log string) (ids []string) {
		for line := range strings.Lines(log) {
			if _, id, found := strings.Cut(line, "identifier="); found {
				ids = append(ids, strings.TrimSpace(id))
			}
		}
		return ids
	}
	one, other := identifiers(lines[0].String()), identifiers(lines[1].String())
	if len(one) != 3 || one[0] != one[1] || one[0] == one[2] {
		t.Errorf("got identifiers %v, want the first two equal and the third another", one)
	}
	if len(other) != 3 || one[0] == other[0] {
		t.Errorf("got digests %v and %v, want others in another process", one, other)
	}
	if text := strings.ToLower(lines[0].String()); strings.Contains(text, "hunter2") || strings.Contains(text, otherPassword) {
		t.Errorf("got a log with typed texts:\n%s", text)
	}
}

func TestRecover_EventHasTheRequestsAddress(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.register(t, "ada")
	if err := f.service.Recover(at(t, "203.0.113.7"), personal.RecoverRequest{Login: "ada"}); err != nil {
		t.Fatal(err)
	}
	f.drain(t)
	events := f.host.Events()
	if last := events[len(events)-1]; last.Type != personal.EventRecoveryRequested || last.Address != "203.0.113.7" {
		t.Errorf("got %+v, want recovery_requested from 203.0.113.7", last)
	}
}

func TestEvents_NameTheirActor(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada").Credentials
		f.refreshTimes(t, in, 2, time.Minute)
		_, err := f.service.Refresh(t.Context(), in)
		wantCode(t, err, personal.CodeUnauthenticated)
		ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("192.0.2.7"), Administrator: "Olga"})
		wantCode(t, f.service.DisableUser(ctx, in.UserID), "")
		f.drain(t)
		got := map[personal.EventType]string{}
		for _, e := range f.host.Events() {
			got[e.Type] = string(e.Actor) + " " + e.ActorName
		}
		for kind, want := range map[personal.EventType]string{
			personal.EventRegistered: "user ", personal.EventSessionTheft: "system ", personal.EventUserDisabled: "administrator Olga",
		} {
			if got[kind] != want {
				t.Errorf("%s: got actor %q, want %q", kind, got[kind], want)
			}
		}
	})
}
