package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

const year = 365 * 24 * time.Hour

// jumps are how far the clock is ahead for a moment. What happens in that moment is false
// afterwards if it is more than accounts.MaxAhead.
var jumps = []time.Duration{30 * time.Second, 2 * time.Minute}

func (w *world) isFalse(jump time.Duration) bool { return jump > accounts.MaxAhead }

// during lets something happen while the clock is ahead.
func (w *world) during(jump time.Duration, happens func()) {
	w.pass(jump)
	happens()
	w.pass(-jump)
}

// happening is something that is stored with its time. It returns whether it counts.
type happening struct {
	name   string
	happen func(w *world, a accounts.Account, s accounts.Session) (counts func() bool)
}

// happenings count unless their time is false.
var happenings = []happening{
	{"a mailed token can be found", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		token := w.addToken(a, accounts.PurposeEmail, w.number())
		return func() bool {
			_, err := w.FindMailToken(w.t.Context(), accounts.PurposeEmail, token.Digest)
			return err == nil
		}
	}},
	{"a mailed token can be redeemed", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		token := w.addToken(a, accounts.PurposeRecovery, w.number())
		return func() bool {
			return w.RedeemRecovery(w.t.Context(), token.Digest, "new hash", accounts.KnownAt{}, removing()) == nil
		}
	}},
	{"a mailed code", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		c := w.addCode(a)
		return func() bool { return w.findsCode(c) && w.signInWith(c, accounts.CodeUse{}) == nil }
	}},
	{"an attempt with a passkey", func(w *world, a accounts.Account, s accounts.Session) func() bool {
		attempt := w.newAttempt(a, s)
		return func() bool {
			_, err := w.FindCeremony(w.t.Context(), s.ID, a.CredentialVersion, attempt.Digest, w.Now().Add(-5*time.Minute))
			return err == nil
		}
	}},
	{"a proof", func(w *world, a accounts.Account, s accounts.Session) func() bool {
		proof := w.prove(a, s)
		return func() bool {
			pending := w.newPending(a, s)
			pending.Proof = proof
			return w.SetPendingFactor(w.t.Context(), pending) == nil
		}
	}},
	{"a pending second factor", func(w *world, a accounts.Account, s accounts.Session) func() bool {
		w.must(w.SetPendingFactor(w.t.Context(), w.newPending(a, s)))
		return func() bool {
			_, err := w.PendingFactor(w.t.Context(), s.ID, a.CredentialVersion, w.Now().Add(-10*time.Minute))
			return err == nil
		}
	}},
	{"a mail in a budget", func(w *world, _ accounts.Account, _ accounts.Session) func() bool {
		n := byte(w.number() % 100)
		w.reserve(reservation("first", n, n))
		return func() bool { return !w.reserve(reservation("second", n, n)) }
	}},
	{"a mail that is explained", func(w *world, _ accounts.Account, _ accounts.Session) func() bool {
		n := byte(w.number() % 100)
		w.reserve(reservation("first", n, n))
		return func() bool {
			sent, err := w.SentMails(w.t.Context(), [][32]byte{{n}}, w.Now().Add(-time.Hour))
			w.must(err)
			return len(sent) > 0
		}
	}},
	{"a counted attempt", func(w *world, _ accounts.Account, _ accounts.Session) func() bool {
		c := []throttle.Charge{limited(w.number(), 1, time.Second)}
		w.must(w.Charge(w.t.Context(), c, w.Now()))
		return func() bool {
			return w.CheckLimits(w.t.Context(), c, w.Now()) != nil || w.Charge(w.t.Context(), c, w.Now()) != nil
		}
	}},
	{"a refused code that blocks", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		rules := accounts.CodeRules{Window: time.Hour, Notice: 100, Block: 1, NoticeEvery: time.Hour}
		w.must(w.CountRefusedCode(w.t.Context(), a.ID, rules, nil))
		return func() bool {
			until, err := w.CodesBlockedUntil(w.t.Context(), a.ID, rules)
			w.must(err)
			return !until.IsZero()
		}
	}},
	{"a refused code that has been told", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		rules := accounts.CodeRules{Window: time.Hour, Notice: 1, Block: 100, NoticeEvery: time.Hour}
		told := 0
		refuse := func() {
			w.must(w.CountRefusedCode(w.t.Context(), a.ID, rules, func() []accounts.NewJob { told++; return nil }))
		}
		refuse()
		return func() bool { refuse(); return told == 1 }
	}},
	{"a known address", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		w.must(w.AddKnownAddress(w.t.Context(), a.ID, accounts.KnownAt{Address: "192.0.2.7", After: w.Now().Add(-time.Hour)}, true))
		return func() bool { return w.knows(a, "192.0.2.7") }
	}},
	{"a sign-in there that keeps others from being told of", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		at := func(address string) (told bool) {
			w.must(w.OpenSession(w.t.Context(), accounts.OpenSession{
				Session: w.newSession(a.ID), CredentialVersion: a.CredentialVersion, MaxSessions: 100,
				Known:        accounts.KnownAt{Address: address, After: w.Now().Add(-time.Hour)},
				OnNewAddress: func() []accounts.NewJob { told = true; return nil },
			}))
			return told
		}
		at("192.0.2.8")
		return func() bool { return at("192.0.2.9") }
	}},
	{"the last event of a type", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		w.must(w.Enqueue(w.t.Context(), accounts.NewJob{Kind: "other", AccountID: a.ID,
			Event: &personal.Event{ID: "x", Type: personal.EventSignedIn, Time: w.Now(), UserID: a.ID}}))
		return func() bool {
			last, err := w.LastEvent(w.t.Context(), a.ID, personal.EventSignedIn)
			w.must(err)
			return !last.IsZero()
		}
	}},
	{"the wait of a job", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		w.must(w.Enqueue(w.t.Context(), accounts.NewJob{Kind: "mail", AccountID: a.ID}))
		return func() bool { w.claim(10); return len(w.claim(10)) == 0 }
	}},
	{"the wait of a job behind it", func(w *world, a accounts.Account, _ accounts.Session) func() bool {
		w.must(w.Enqueue(w.t.Context(), accounts.NewJob{Kind: "mail", AccountID: a.ID}))
		return func() bool {
			w.must(w.Enqueue(w.t.Context(), accounts.NewJob{Kind: "mail", AccountID: a.ID}))
			w.claim(10)
			w.must(w.FinishJobs(w.t.Context(), w.claim(10)...))
			return len(w.claim(10)) == 0
		}
	}},
}

func (w *world) knows(a accounts.Account, address string) bool {
	w.t.Helper()
	known, err := w.KnownAddress(w.t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, address, w.Now().Add(-time.Hour))
	w.must(err)
	return known.Known()
}

var timeCases = []testCase{
	{"what happened while the clock was ahead counts if it was ahead by a minute at most", func(t *testing.T, w *world) {
		for _, h := range happenings {
			for _, jump := range jumps {
				a, s := w.createAny()
				var counts func() bool
				w.during(jump, func() { counts = h.happen(w, a, s) })
				if got := counts(); got == w.isFalse(jump) {
					t.Errorf("%s, %v ahead: got that it counts: %t", h.name, jump, got)
				}
			}
		}
	}},
	{"what was used while the clock was ahead stays used", func(t *testing.T, w *world) {
		for _, jump := range jumps {
			a, s := w.createEnrolled()
			p := w.addPasskey(a, s)
			used := useOf(p, w.number())
			w.during(jump, func() {
				used.Attempt.Expires = w.Now().Add(5 * time.Minute)
				w.must(w.signInBy(a, used))
				w.must(w.ChargeExport(t.Context(), a.ID, a.CredentialVersion, nil, step(firstStep+1)))
				w.must(w.ChargeExport(t.Context(), a.ID, a.CredentialVersion, nil, recovery(0)))
			})
			w.must(w.Prune(t.Context(), store.PruneOptions{}))
			w.wantError(w.signInBy(a, used), accounts.ErrCeremonyUsed)
			w.wantError(w.ChargeExport(t.Context(), a.ID, a.CredentialVersion, nil, step(firstStep+1)), accounts.ErrCodeUsed)
			w.wantError(w.ChargeExport(t.Context(), a.ID, a.CredentialVersion, nil, recovery(0)), accounts.ErrCodeUsed)
		}
	}},
	{"pruning removes what no one can use because its creation is false", func(t *testing.T, w *world) {
		const rows = 3
		for _, jump := range jumps {
			a, s := w.createAny()
			attempts := make([]accounts.PasskeyCeremony, rows)
			pending := w.newPending(a, s)
			w.during(jump, func() {
				for i := range rows {
					w.addToken(a, accounts.PurposeRecovery, i)
					attempts[i] = w.newAttempt(a, s)
				}
				w.must(w.SetPendingFactor(t.Context(), pending))
			})
			w.must(w.Prune(t.Context(), store.PruneOptions{Batch: 2}))
			w.pass(jump) // what remains would be valid now
			for i := range rows {
				_, token := w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", i))
				_, attempt := w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, attempts[i].Digest, time.Time{})
				_, factor := w.PendingFactor(t.Context(), s.ID, a.CredentialVersion, time.Time{})
				for what, err := range map[string]error{"token": token, "attempt": attempt, "factor": factor} {
					if (err != nil) != w.isFalse(jump) {
						t.Errorf("%v ahead, %s: got error %v, want that it was removed: %t", jump, what, err, w.isFalse(jump))
					}
				}
			}
			w.must(w.DeleteAccount(t.Context(), a.ID, removed))
		}
	}},
	{"a token that ends later than its kind allows is refused", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		token := w.newToken(a, accounts.PurposeRecovery, 1)
		token.Expires = w.Now().Add(30*time.Minute + time.Microsecond)
		w.must(w.AddMailToken(t.Context(), token))
		_, err := w.FindMailToken(t.Context(), accounts.PurposeRecovery, token.Digest)
		w.wantError(err, accounts.ErrNotFound)
		_, err = w.Store.FindMailToken(t.Context(), accounts.PurposeRecovery, token.Digest, time.Hour)
		w.must(err)
	}},
	{"a job waits from when it is first seen what it was to wait", func(t *testing.T, w *world) {
		w.during(10*year, func() { w.must(w.Enqueue(t.Context(), job("mail"))) })
		if got := w.claim(10); len(got) > 0 {
			t.Errorf("at first: got jobs %v, want none", got)
		}
		got := w.claim(10)
		if len(got) != 1 || got[0].Attempts != 1 || !got[0].Created.Equal(w.Now()) {
			t.Errorf("then: got jobs %+v, want one that was created now", got)
		}
	}},
	{"jobs that were claimed, postponed or retried while the clock was ahead run soon", func(t *testing.T, w *world) {
		for name, during := range map[string]func(outbox.Job) error{
			"claimed": func(outbox.Job) error { return nil },
			"retried": func(j outbox.Job) error { return w.RetryJob(t.Context(), j, w.Now().Add(time.Second)) },
		} {
			w.backlog(2)
			w.during(10*year, func() {
				for _, j := range w.claim(10) { // postpones the second of an account
					w.must(during(j))
				}
			})
			w.claim(10)
			if got := w.claim(10); len(got) > 0 {
				t.Errorf("%s: got jobs %v at once, want none while they may run", name, got)
			}
			w.pass(time.Minute)
			first := w.claim(10)
			if len(first) != 2 {
				t.Errorf("%s: got %d jobs after a minute, want those of both accounts", name, len(first))
			}
			w.must(w.FinishJobs(t.Context(), first...))
			next := w.claim(10)
			if len(next) != 1 {
				t.Errorf("%s: got %d jobs behind them, want 1", name, len(next))
			}
			w.must(w.FinishJobs(t.Context(), next...))
		}
	}},
	{"the first write of a session stores now in place of false times", func(t *testing.T, w *world) {
		for _, jump := range jumps {
			for name, write := range map[string]func(s accounts.Session) error{
				"a touch": func(s accounts.Session) error {
					return w.Store.TouchSession(t.Context(), accounts.SessionTouch{ID: s.ID, Current: s.Current, Marks: []accounts.RotationMark{{Time: w.Now()}}})
				},
				"a rotation": func(s accounts.Session) error {
					return w.RotateSession(t.Context(), s, func(now time.Time) accounts.Session { return rotated(s, digest("next", w.number()), now) })
				},
			} {
				a, _ := w.createAny()
				var s accounts.Session
				w.during(jump, func() {
					s = w.open(a)
					w.must(w.TouchSession(t.Context(), s.ID, s.Current, true))
				})
				before := w.Now()
				w.must(write(s))
				s = w.session(s)
				for what, at := range map[string]time.Time{"created": s.Created, "rotated": s.Rotated, "used": s.Used, "last seen": s.LastSeen} {
					if at.Sub(before) > accounts.MaxAhead {
						t.Errorf("%s, %v ahead: got %s at %v, want now", name, jump, what, at)
					}
				}
				if w.isFalse(jump) && !s.Created.Equal(w.Now()) {
					t.Errorf("%s, %v ahead: got a session created at %v, want now", name, jump, s.Created)
				}
			}
		}
	}},
	{"marks are replaced only while the session has the hash that they belong to", func(t *testing.T, w *world) {
		_, s := w.createAny()
		w.must(w.RotateSession(t.Context(), s, func(now time.Time) accounts.Session { return rotated(s, digest("next", 1), now) }))
		want := w.session(s)
		w.must(w.Store.TouchSession(t.Context(), accounts.SessionTouch{ID: s.ID, Current: s.Current, Marks: []accounts.RotationMark{{Time: w.Now(), Count: 9}}}))
		if diff := cmp.Diff(want.Marks, w.session(s).Marks); diff != "" {
			t.Error(diff)
		}
	}},
	{"false times never push out true ones", func(t *testing.T, w *world) {
		a, s := w.createAny()
		const most = 3
		w.during(10*year, func() {
			for i := range personal.MaxKnownAddresses {
				w.must(w.AddKnownAddress(t.Context(), a.ID, accounts.KnownAt{Address: fmt.Sprint(i), After: w.Now().Add(-time.Hour)}, true))
			}
			for range most {
				w.open(a)
			}
			for range accounts.MaxCeremonies {
				w.newAttempt(a, s)
			}
		})
		w.must(w.AddKnownAddress(t.Context(), a.ID, accounts.KnownAt{Address: "true", After: w.Now().Add(-time.Hour)}, true))
		if !w.knows(a, "true") {
			t.Error("the address of a true sign-in is not known")
		}
		attempt := w.newAttempt(a, s)
		if _, err := w.FindCeremony(t.Context(), s.ID, a.CredentialVersion, attempt.Digest, time.Time{}); err != nil {
			t.Errorf("a true attempt: %v", err)
		}
		first := w.newSession(a.ID)
		for i := range most {
			next := first
			if i > 0 {
				w.pass(time.Second)
				next = w.newSession(a.ID)
			}
			w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: next, CredentialVersion: a.CredentialVersion, MaxSessions: most}))
		}
		w.session(first)
	}},
	{"a sign-in makes an address known again, since now, and is the account's last", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		signIn := func() {
			w.must(w.OpenSession(t.Context(), accounts.OpenSession{
				Session: w.newSession(a.ID), CredentialVersion: a.CredentialVersion, MaxSessions: 100,
				Known: accounts.KnownAt{Address: "192.0.2.7", After: w.Now().Add(-time.Hour)},
			}))
		}
		w.during(10*year, signIn)
		signIn()
		known, err := w.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.7", w.Now().Add(-time.Hour))
		w.must(err)
		if !known.Full || !known.Since.Equal(w.Now()) {
			t.Errorf("got %+v, want it fully known since now", known)
		}
		found, err := w.Account(t.Context(), a.ID)
		w.must(err)
		if !found.LastSignIn.Equal(w.Now()) {
			t.Errorf("got the last sign-in at %v, want now", found.LastSignIn)
		}
	}},
}
