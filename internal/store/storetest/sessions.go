package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
)

var sessionCases = []testCase{
	{"a session is found as it was stored, with its account", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		want := w.newSession(a.ID)
		want.Used, want.Agent = w.Now().Add(time.Microsecond), "it's ? $1 🙂"
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: want, CredentialVersion: 1, MaxSessions: 2}))
		got, account, err := w.FindSession(t.Context(), want.Selector, accounts.WholeAccount)
		w.must(err)
		want.ID = got.ID
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(a, account); diff != "" {
			t.Error(diff)
		}
		if got.ChainKey != want.ChainKey { // redacted in the diff
			t.Error("got another chain key")
		}
	}},
	{"a sign-in with another version, or to a disabled or unknown account, is stale and stores nothing", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		off := w.newAccount()
		off.Disabled = true
		disabled, _ := w.create(off)
		for _, c := range []struct{ account, version int64 }{{a.ID, 0}, {a.ID, 2}, {disabled.ID, 1}, {nobody, 1}} {
			for _, rehash := range []string{"", "stronger"} {
				s := w.newSession(c.account)
				err := w.OpenSession(t.Context(), accounts.OpenSession{
					Session: s, CredentialVersion: c.version, MaxSessions: 2, Rehash: rehash, Jobs: []accounts.NewJob{job("event")},
				})
				w.wantError(err, accounts.ErrStale)
				_, _, err = w.FindSession(t.Context(), s.Selector, accounts.AccountState)
				w.wantError(err, accounts.ErrNotFound)
			}
		}
		if got := w.account(a.ID).PasswordHash; got != "first hash" {
			t.Errorf("got hash %q, want the first one", got)
		}
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"above the limit the sessions unused for longest are removed, but never the new one", func(t *testing.T, w *world) {
		a, first := w.createAny()
		_, foreign := w.createAny()
		w.pass(time.Minute)
		second := w.open(a)
		w.pass(time.Hour)
		w.must(w.TouchSession(t.Context(), first.ID, first.Current, true))
		third := w.newSession(a.ID)
		third.LastSeen = first.Created.Add(-time.Hour)
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: third, CredentialVersion: 1, MaxSessions: 2}))
		w.wantSessions(a.ID, first, w.session(third))
		_, _, err := w.FindSession(t.Context(), second.Selector, accounts.AccountState)
		w.wantError(err, accounts.ErrNotFound)
		w.wantSessions(foreign.AccountID, foreign)

		fourth := w.newSession(a.ID)
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: fourth, CredentialVersion: 1, MaxSessions: 1}))
		w.wantSessions(a.ID, fourth)
	}},
	{"a sign-in removes expired sessions", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		idle := w.open(a)
		old := w.newSession(a.ID)
		old.Created = w.Now().Add(-100 * time.Hour)
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: old, CredentialVersion: 1, MaxSessions: 100}))
		w.pass(2 * time.Hour)
		w.must(w.TouchSession(t.Context(), w.session(old).ID, old.Current, false))
		fresh := w.newSession(a.ID)
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{
			Session: fresh, CredentialVersion: 1, MaxSessions: 100,
			Lifetimes: accounts.Lifetimes{SeenAfter: idle.LastSeen, CreatedAfter: old.Created},
		}))
		w.wantSessions(a.ID, fresh)
	}},
	{"a sign-in above the rate limit waits and stores nothing", func(t *testing.T, w *world) {
		a, first := w.createAny()
		o := accounts.OpenSession{CredentialVersion: 1, MaxSessions: 9, Charges: []throttle.Charge{limited(1, 1, time.Minute)},
			Jobs: []accounts.NewJob{job("event")}}
		o.Session = w.newSession(a.ID)
		w.must(w.OpenSession(t.Context(), o))
		second := o.Session
		o.Session, o.Rehash = w.newSession(a.ID), "stronger"
		var refused *accounts.WaitError
		if err := w.OpenSession(t.Context(), o); !errors.As(err, &refused) || refused.Wait != time.Minute {
			t.Errorf("the second sign-in: got %v, want a wait of 1m", err)
		}
		w.wantSessions(a.ID, first, second)
		if got := w.account(a.ID).PasswordHash; got != "first hash" {
			t.Errorf("got hash %q, want the first one", got)
		}
		if n := len(w.kindsDue()); n != 1 {
			t.Errorf("got %d jobs, want 1", n)
		}
	}},
	{"a session with the maximum of rotations is not listed", func(t *testing.T, w *world) {
		a, s := w.createAny()
		last := rotated(s, digest("next", 1), w.Now())
		last.Rotations = accounts.MaxRotations
		w.must(w.RotateSession(t.Context(), s, to(last)))
		list, err := w.Sessions(t.Context(), a.ID, accounts.Lifetimes{})
		w.must(err)
		if len(list) != 0 {
			t.Errorf("got %d sessions, want none", len(list))
		}
	}},
	{"a rotation replaces the digest it was made from, once", func(t *testing.T, w *world) {
		_, s := w.createAny()
		w.must(w.TouchSession(t.Context(), s.ID, s.Current, true))
		w.pass(time.Minute)
		next := digest("next", 1)
		want := rotated(s, next, w.Now())
		w.must(w.RotateSession(t.Context(), s, to(want)))
		if diff := cmp.Diff(want, w.session(s)); diff != "" {
			t.Error(diff)
		}
		w.wantError(w.RotateSession(t.Context(), s, to(rotated(s, digest("other", 1), w.Now()))), accounts.ErrStale)
		gone := want
		gone.ID += 99
		w.wantError(w.RotateSession(t.Context(), gone, to(rotated(gone, digest("other", 1), w.Now()))), accounts.ErrStale)
		if diff := cmp.Diff(want, w.session(s)); diff != "" {
			t.Error(diff)
		}
	}},
	{"the list holds the account's live sessions, the last used first", func(t *testing.T, w *world) {
		a, first := w.createAny()
		w.createAny()
		w.pass(time.Minute)
		second := w.open(a)
		w.pass(time.Minute)
		third := w.open(a)
		for _, c := range []struct {
			seen, created time.Duration // after the first
			want          []int64
		}{
			{-time.Second, -time.Second, []int64{third.ID, second.ID, first.ID}},
			{0, -time.Second, []int64{third.ID, second.ID}},
			{-time.Second, time.Minute, []int64{third.ID}},
			{time.Hour, -time.Second, nil},
		} {
			l := accounts.Lifetimes{SeenAfter: first.LastSeen.Add(c.seen), CreatedAfter: first.Created.Add(c.created)}
			list, err := w.Sessions(t.Context(), a.ID, l)
			w.must(err)
			var got []int64
			for _, s := range list {
				got = append(got, s.ID)
				if !l.Alive(s) {
					t.Errorf("got session %d, which is not alive", s.ID)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v: %s", c, diff)
			}
		}
	}},
	{"a stolen session is revoked once, and not after a rotation", func(t *testing.T, w *world) {
		a, judged := w.createAny()
		fresh := rotated(judged, digest("next", 0), w.Now())
		w.must(w.RotateSession(t.Context(), judged, to(fresh)))
		if err := w.RevokeStolenSession(t.Context(), judged, job("event")); !errors.Is(err, accounts.ErrStale) {
			t.Errorf("after a rotation: got %v, want ErrStale", err)
		}
		w.wantSessions(a.ID, fresh)
		w.must(w.RevokeStolenSession(t.Context(), fresh, job("event")))
		w.wantSessions(a.ID)
		if err := w.RevokeStolenSession(t.Context(), fresh, job("event")); !errors.Is(err, accounts.ErrStale) {
			t.Errorf("a second time: got %v, want ErrStale", err)
		}
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"all other sessions of one account can be revoked by one that is alive", func(t *testing.T, w *world) {
		a, kept := w.createAny()
		w.open(a)
		w.open(a)
		b, foreign := w.createAny()
		if err := w.RevokeOtherSessions(t.Context(), a.ID, foreign.ID, job("event")); !errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("another account's session: got %v, want ErrNotFound", err)
		}
		w.must(w.RevokeOtherSessions(t.Context(), a.ID, kept.ID, job("event")))
		w.wantSessions(a.ID, kept)
		w.wantSessions(b.ID, foreign)
		w.must(w.RevokeOtherSessions(t.Context(), a.ID, kept.ID, job("event"))) // has none
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		w.must(w.RevokeSession(t.Context(), a.ID, kept.ID))
		next := w.open(a)
		if err := w.RevokeOtherSessions(t.Context(), a.ID, kept.ID); !errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("by a revoked session: got %v, want ErrNotFound", err)
		}
		w.wantSessions(a.ID, next)
	}},
	{"all sessions of one account can be revoked", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.open(a)
		b, foreign := w.createAny()
		w.must(w.RevokeSessions(t.Context(), a.ID, false, job("event")))
		w.wantSessions(a.ID)
		w.wantSessions(b.ID, foreign)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
		w.must(w.RevokeSessions(t.Context(), a.ID, false, job("event"))) // has none
		w.must(w.RevokeSessions(t.Context(), nobody, false, job("event")))
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("without a session: got jobs %v, want none", due)
		}
	}},
}

// to is a rotation to a session, whatever the time.
func to(s accounts.Session) func(time.Time) accounts.Session {
	return func(time.Time) accounts.Session { return s }
}

// rotated is a session after one more rotation.
func rotated(s accounts.Session, digest [32]byte, now time.Time) accounts.Session {
	s.Current, s.Rotated, s.LastSeen, s.Used = digest, now, now, time.Time{}
	s.Rotations++
	s.Marks = append(slices.Clone(s.Marks), accounts.RotationMark{Time: now, Count: s.Rotations})
	return s
}

// wantSessions compares the account's sessions by selector, in any order.
func (w *world) wantSessions(account int64, want ...accounts.Session) {
	w.t.Helper()
	names := func(list []accounts.Session) map[string]bool {
		m := map[string]bool{}
		for _, s := range list {
			m[string(s.Selector[:])] = true
		}
		return m
	}
	if diff := cmp.Diff(names(want), names(w.sessions(account))); diff != "" {
		w.t.Error(diff)
	}
}
