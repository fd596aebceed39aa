package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
)

// node is a process on a machine whose wall clock jumps.
type node struct {
	*store.Store
	jumped atomic.Int64 // of the wall clock
	passed atomic.Int64 // of time, beyond the real one
}

func newNode(t *testing.T, url string) *node {
	n := &node{}
	began := time.Now()
	n.Store = migrated(t, url, store.Options{Machine: store.Machine{
		Wall:      func() time.Time { return time.Now().Round(0).Add(time.Duration(n.jumped.Load() + n.passed.Load())) },
		Monotonic: func() time.Duration { return time.Since(began) + time.Duration(n.passed.Load()) },
	}})
	return n
}

// round does what the background work of a process does: it returns the accounts that are to be
// erased and the jobs that are due.
func (n *node) round(t *testing.T, idle time.Duration) (erased []int64, claimed []outbox.Job) {
	t.Helper()
	now := n.Now()
	erased, err := n.DueErasures(t.Context(), now.Add(-idle), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Prune(t.Context(), store.PruneOptions{
		Lifetimes: accounts.Lifetimes{SeenAfter: now.Add(-idle), CreatedAfter: now.Add(-idle)}, AuditBefore: now.Add(-idle),
		MailsBefore: now.Add(-idle), PendingBefore: now.Add(-idle), AddressesBefore: now.Add(-idle), CodesBefore: now.Add(-idle),
	}); err != nil {
		t.Fatal(err)
	}
	if claimed, err = n.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"leased"}, Lease: time.Minute, N: 10}); err != nil {
		t.Fatal(err)
	}
	return erased, claimed
}

// The wall clock of one node jumps, before any of its rounds or between them: nothing is removed,
// erased or claimed before its time, and what it stores until then has the right time.
func TestTime_JumpOfOneNodesClockHarmsNothing(t *testing.T) {
	const idle = 30 * time.Minute
	jumps := []time.Duration{-time.Hour, 5 * time.Minute, time.Hour, 365 * 24 * time.Hour}
	testdb.Databases(t, func(t *testing.T, url string) {
		right, wrong := newNode(t, url), newNode(t, url)
		began := right.Now()
		session := func(i byte) accounts.Session {
			now := wrong.Now()
			return accounts.Session{Selector: token.Selector{i}, Created: now, Rotated: now, LastSeen: now}
		}
		id, err := right.CreateAccount(t.Context(), accounts.Account{LoginKey: "anna", Login: "anna", PasswordHash: "hash", CredentialVersion: 1},
			session(0),
			func(int64) []accounts.NewJob { return []accounts.NewJob{{Kind: "leased"}} })
		if err != nil {
			t.Fatal(err)
		}
		gone, err := right.CreateAccount(t.Context(), accounts.Account{LoginKey: "bert", Login: "bert", PasswordHash: "hash",
			CredentialVersion: 1}, session(1),
			func(int64) []accounts.NewJob { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := right.RequestDeletion(t.Context(), gone, 1, right.Now().Add(idle), accounts.CodeUse{}); err != nil {
			t.Fatal(err)
		}
		// On a busy machine a measurement of the database's clock may put off by milliseconds what is due.
		var leased []outbox.Job
		for try := 0; len(leased) == 0 && try < 1000; try++ {
			leased, err = right.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"leased"}, Lease: 2 * time.Minute, N: 1})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(leased) != 1 {
			t.Fatalf("got jobs %v, want the one", leased)
		}
		for i, jump := range jumps {
			wrong.jumped.Store(int64(jump))
			if away := wrong.Now().Sub(right.Now()).Abs(); away > time.Minute {
				t.Errorf("jump of %v: the time of the node is %v away from the other's", jump, away)
			}
			if _, _, err := wrong.FindSession(t.Context(), token.Selector{}, accounts.AccountState); err != nil {
				t.Fatal(err)
			}
			stored := session(byte(2 + i))
			stored.AccountID = id
			if _, err := wrong.OpenSession(t.Context(), accounts.OpenSession{Session: stored, CredentialVersion: 1, MaxSessions: 100}); err != nil {
				t.Fatal(err)
			}
			erased, claimed := wrong.round(t, idle)
			if len(erased) > 0 || len(claimed) > 0 {
				t.Errorf("jump of %v: got accounts %v to erase and jobs %v, want none", jump, erased, claimed)
			}
			if wrong.DeletionHeld() == 0 {
				t.Errorf("jump of %v: the node goes on to remove, want it to wait", jump)
			}
			sessions, err := wrong.Sessions(t.Context(), id, accounts.Lifetimes{})
			if err != nil || len(sessions) != 2+i {
				t.Fatalf("jump of %v: got %d sessions (%v), want %d", jump, len(sessions), err, 2+i)
			}
			if late := slices.ContainsFunc(sessions, func(s accounts.Session) bool { return s.Created.Sub(began).Abs() > 10*time.Minute }); late {
				t.Errorf("jump of %v: got a session with a wrong time: %v", jump, sessions)
			}
		}

		// The clock is right again, and after an hour of agreement the node goes on.
		wrong.jumped.Store(0)
		wrong.round(t, idle)
		wrong.passed.Store(int64(59 * time.Minute))
		if wrong.round(t, 1); wrong.DeletionHeld() == 0 {
			t.Error("the node goes on to remove after 59 minutes, want an hour")
		}
		wrong.passed.Store(int64(61 * time.Minute))
		wrong.round(t, 1)
		wantLeft := 0
		if wrong.DeletionHeld() > 0 { // PostgreSQL's own clock did not pass
			wantLeft = 1 + len(jumps)
		}
		sessions, err := wrong.Sessions(t.Context(), id, accounts.Lifetimes{})
		if err != nil || len(sessions) != wantLeft {
			t.Errorf("got %d sessions (%v), want %d", len(sessions), err, wantLeft)
		}
	})
}

// A new process has no memory of a jump: it compares its time with that of the last round.
func TestTime_NewProcessNoticesAJumpBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		lastRound time.Duration // ago
		removes   bool
	}{
		"the last round was a minute ago": {time.Minute, true},
		"a year ago":                      {365 * 24 * time.Hour, false},
		"in a year":                       {-365 * 24 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				before := newNode(t, url)
				before.round(t, time.Hour)
				now := before.Now()
				id, err := before.CreateAccount(t.Context(), accounts.Account{LoginKey: "anna", CredentialVersion: 1},
					accounts.Session{Created: now, LastSeen: now}, func(int64) []accounts.NewJob { return nil })
				if err != nil {
					t.Fatal(err)
				}
				execute(t, url, fmt.Sprintf("UPDATE personal_sweeps SET began = %d WHERE step = 'last round'", now.Add(-c.lastRound).UnixMicro()))
				after := newNode(t, url)
				after.round(t, -time.Hour) // the session seems expired
				if _, err := after.OpenSession(t.Context(), accounts.OpenSession{
					Session:           accounts.Session{AccountID: id, Selector: token.Selector{1}, Created: now, LastSeen: now},
					CredentialVersion: 1, MaxSessions: 100, Lifetimes: accounts.Lifetimes{SeenAfter: now.Add(time.Hour)},
				}); err != nil {
					t.Fatal(err)
				}
				sessions, err := after.Sessions(t.Context(), id, accounts.Lifetimes{})
				if err != nil || (len(sessions) == 1) != c.removes {
					t.Errorf("got %d sessions (%v), want that the old one is removed: %t", len(sessions), err, c.removes)
				}
			})
		})
	}
}

// What removes rows by their time, but not in a round, waits for the first round too, and while deletion
// is held.
func TestTime_OperationsRemoveNothingWhileTheClockMayBeWrong(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		n := newNode(t, url)
		now := n.Now()
		account := accounts.Account{LoginKey: "anna", CredentialVersion: 1, Disabled: true, EraseAt: now}
		id, err := n.CreateAccount(t.Context(), account, accounts.Session{Created: now, LastSeen: now}, func(int64) []accounts.NewJob { return nil })
		if err != nil {
			t.Fatal(err)
		}
		selector := byte(0)
		// signIn removes the sessions that seem expired, and returns how many there were and are.
		signIn := func(n *node) (before, after int) {
			t.Helper()
			execute(t, url, "UPDATE personal_accounts SET disabled = (1 = 0)")
			count := func() int {
				all, err := n.Sessions(t.Context(), id, accounts.Lifetimes{})
				if err != nil {
					t.Fatal(err)
				}
				return len(all)
			}
			before = count()
			selector++
			if _, err := n.OpenSession(t.Context(), accounts.OpenSession{
				Session:           accounts.Session{AccountID: id, Selector: token.Selector{selector}, Created: now, LastSeen: now},
				CredentialVersion: 1, MaxSessions: 100, Lifetimes: accounts.Lifetimes{SeenAfter: now.Add(time.Hour)},
			}); err != nil {
				t.Fatal(err)
			}
			return before, count()
		}
		if before, after := signIn(n); after != before+1 {
			t.Errorf("before the first round: got %d sessions after %d, want one more", after, before)
		}
		n.round(t, time.Hour)
		if before, after := signIn(n); after != 1 {
			t.Errorf("after the first round: got %d sessions after %d, want 1", after, before)
		}
		n.jumped.Store(int64(time.Hour))
		if err := n.SyncClock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if before, after := signIn(n); after != before+1 {
			t.Errorf("while deletion is held: got %d sessions after %d, want one more", after, before)
		}
		due := func(accounts.Account) bool { return true }
		err = n.EraseAccount(t.Context(), id, due, func(accounts.Account, outbox.Job) []byte { return nil })
		if !errors.Is(err, accounts.ErrStale) {
			t.Errorf("erasing while deletion is held: got %v, want %v", err, accounts.ErrStale)
		}
		charge := []throttle.Charge{{Limit: throttle.Limit{Burst: 1, Every: time.Minute}}}
		if err := n.Charge(t.Context(), charge, n.Now().Add(-2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := n.Refund(t.Context(), charge); err != nil {
			t.Fatal(err)
		}
		if rows := value[int](t, url, "SELECT count(*) FROM personal_throttle"); rows != 1 {
			t.Errorf("a refund while deletion is held: got %d rows, want 1", rows)
		}
	})
}
