package store_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// auditSummary queries the number of audit entries and the first and last of them.
const auditSummary = "SELECT count(*) || ': ' || coalesce(min(event_id) || '-' || max(event_id), '') FROM personal_audit"

func eventOf(account int64, number int) accounts.NewJob {
	e := personal.Event{ID: fmt.Sprintf("e%03d", number), Type: personal.EventSignedIn, Time: time.Unix(int64(number+1), 0),
		UserID: account, Address: "192.0.2.1", RequestID: "r"}
	return accounts.NewJob{Kind: accounts.KindEvent, Payload: []byte(e.ID), AccountID: account, Event: &e}
}

func newAccount(t *testing.T, s *store.Store, login string, jobs ...accounts.NewJob) (id int64) {
	t.Helper()
	session := accounts.Session{}
	copy(session.Selector[:], login)
	id, err := s.CreateAccount(t.Context(), accounts.Account{LoginKey: login}, session,
		func(int64) []accounts.NewJob { return jobs })
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDeleteAccount_AnonymisesAuditEntries(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		ada, bob := newAccount(t, s, "ada"), newAccount(t, s, "bob")
		for i, account := range []int64{ada, bob, 0} {
			if err := s.Enqueue(t.Context(), eventOf(account, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Enqueue(t.Context(), accounts.NewJob{Kind: "mail", AccountID: ada}); err != nil {
			t.Fatal(err)
		}
		remains := func(_ accounts.Account, j outbox.Job) []byte {
			if j.Kind == "mail" {
				return nil
			}
			return bytes.ToUpper(j.Payload)
		}
		if err := s.DeleteAccount(t.Context(), ada, remains, eventOf(ada, 3)); err != nil {
			t.Fatal(err)
		}
		// As of a failed sign-in that was verified while the account was deleted.
		if err := s.Charge(t.Context(), nil, s.Now(), eventOf(ada, 4)); err != nil {
			t.Fatal(err)
		}
		got := value[string](t, url, `SELECT `+joined(url, `event_id || ' ' || coalesce(account_id, 0) || ' ' || address || request_id`)+` FROM personal_audit`)
		if want := fmt.Sprintf("e000 0 ,e001 %d 192.0.2.1r,e002 0 192.0.2.1r,e003 0 192.0.2.1r,e004 0 ", bob); got != want {
			t.Errorf("got audit entries %q, want %q", got, want)
		}
		jobs, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail", accounts.KindEvent}, N: 10, Lease: time.Minute})
		if err != nil || len(jobs) != 3 || string(jobs[0].Payload) != "E000" {
			t.Errorf("got jobs %v (error %v), want three events, the first without an address", jobs, err)
		}
	})
}

func TestPrune_AuditEntriesByAgeAndNumber(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		for i := range 20 {
			if err := s.Enqueue(t.Context(), eventOf(0, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			options store.PruneOptions
			want    string
		}{
			{store.PruneOptions{}, "20: e000-e019"},
			{store.PruneOptions{AuditBefore: time.Unix(5, 0), Batch: 2}, "15: e005-e019"},
			{store.PruneOptions{MaxAudit: 6, Batch: 2}, "6: e014-e019"},
		} {
			if err := s.Prune(t.Context(), step.options); err != nil {
				t.Fatal(err)
			}
			if got := value[string](t, url, auditSummary); got != step.want {
				t.Errorf("%+v: got %s, want %s", step.options, got, step.want)
			}
		}
	})
}

// Guessing passwords, or signing in to one's own account, must not push other entries
// out of the audit log.
func TestPrune_FloodEventsPushNothingElseOut(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		types := []personal.EventType{
			personal.EventRegistered, personal.EventPasswordChanged, personal.EventSessionTheft, personal.EventUserDeleted,
			personal.EventSignInFailed, personal.EventThrottled, personal.EventSignedIn,
		}
		for i := range 28 {
			j := eventOf(0, i)
			j.Event.Type = types[min(i, 4)]
			if i > 4 {
				j.Event.Type = types[4+i%3]
			}
			if err := s.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Prune(t.Context(), store.PruneOptions{MaxAudit: 3, Batch: 2}); err != nil {
			t.Fatal(err)
		}
		got := value[string](t, url, `SELECT `+joined(url, `type`)+` FROM personal_audit`)
		if want := "registered,password_changed,session_theft,user_deleted,throttled,signed_in,sign_in_failed"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// When the host takes no events for a month, the oldest are dropped first.
func TestPrune_WaitingEventsAreLimitedLikeTheAuditLog(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		var log bytes.Buffer
		now := time.Unix(1000, 0)
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 20 {
			now = time.Unix(1001+int64(i), 0)
			for _, j := range []accounts.NewJob{eventOf(0, i), {Kind: "mail"}} {
				if err := s.Enqueue(t.Context(), j); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, step := range []struct {
			options store.PruneOptions
			want    string
			logs    string
		}{
			{store.PruneOptions{}, "20 from e000", ""},
			{store.PruneOptions{AuditBefore: time.Unix(1005, 0), MaxAudit: 15, Batch: 2}, "15 from e005", "events=5"},
			{store.PruneOptions{AuditBefore: time.Unix(1005, 0), MaxAudit: 6, Batch: 2}, "6 from e014", "events=9"},
		} {
			log.Reset()
			if err := s.Prune(t.Context(), step.options); err != nil {
				t.Fatal(err)
			}
			jobs, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 100})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%d from %s", len(jobs), jobs[0].Payload); got != step.want {
				t.Errorf("%+v: got %s, want %s", step.options, got, step.want)
			}
			if !strings.Contains(log.String(), step.logs) || step.logs == "" && log.Len() > 0 {
				t.Errorf("%+v: got log %q, want %q", step.options, log.String(), step.logs)
			}
		}
		mails, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail"}, N: 100})
		if err != nil || len(mails) != 20 {
			t.Errorf("got %d mails (error %v), want all 20", len(mails), err)
		}
	})
}

// joined is the SQL expression that joins the texts of all rows in the order of ids.
func joined(url, text string) string {
	if url[:6] == "sqlite" {
		return "group_concat(" + text + ", ',' ORDER BY id)"
	}
	return "string_agg(" + text + ", ',' ORDER BY id)"
}

func TestPrune_LimitsTheAuditEntriesOfOneAccountByType(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		ada, bob := newAccount(t, s, "ada"), newAccount(t, s, "bob")
		add := func(account int64, number int, kind personal.EventType) {
			t.Helper()
			j := eventOf(account, number)
			j.Event.Type = kind
			if err := s.Enqueue(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		add(ada, 0, personal.EventSessionTheft)
		for i := range 10 {
			add(ada, 1+i, personal.EventPasswordChanged)
			add(bob, 101+i, personal.EventSignedIn)
			add(0, 201+i, personal.EventSignInFailed)
		}
		summary := func() string {
			return value[string](t, url, "SELECT count(*) || ': ' || count(account_id) || ', ' || min(CASE WHEN type = 'password_changed' THEN event_id END) FROM personal_audit")
		}
		prune := func(each int) {
			t.Helper()
			if err := s.Prune(t.Context(), store.PruneOptions{MaxAuditPerAccount: each, Batch: 2}); err != nil {
				t.Fatal(err)
			}
		}
		prune(0)
		if got, want := summary(), "31: 21, e001"; got != want {
			t.Errorf("without a limit: got %s, want %s", got, want)
		}
		prune(3)
		if got, want := summary(), "17: 7, e008"; got != want {
			t.Errorf("pruned: got %s, want %s", got, want)
		}
		add(ada, 11, personal.EventPasswordChanged)
		prune(3)
		if got, want := summary(), "17: 7, e009"; got != want {
			t.Errorf("pruned again: got %s, want %s", got, want)
		}
	})
}
