package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

const (
	contenders = 16
	rounds     = 5
)

// createSessions creates some sessions, of an account each. Their number is even.
func (w *world) createSessions() (sessions []accounts.Session) {
	w.t.Helper()
	for range contenders / 4 {
		_, s := w.createAny()
		sessions = append(sessions, s)
	}
	return sessions
}

var raceCases = []testCase{
	{"of concurrent registrations of one login and e-mail one succeeds, and the others report the login", func(t *testing.T, w *world) {
		same := w.newAccount()
		errs := atOnce(contenders, func(int) error {
			_, err := w.CreateAccount(t.Context(), same, w.newSession(0), noJobs)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			w.wantTaken(err, accounts.TakenError{Login: true})
		}
		if won != 1 {
			t.Errorf("got %d registrations, want 1", won)
		}
	}},
	{"of accounts that are given one e-mail concurrently one gets it", func(t *testing.T, w *world) {
		ids := make([]int64, contenders)
		for i := range ids {
			ids[i] = w.createID(w.newAccount())
		}
		errs := atOnce(contenders, func(i int) error { return w.SetEmail(t.Context(), ids[i], newEmail, jobs()) })
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			w.wantTaken(err, accounts.TakenError{Email: true})
		}
		if won != 1 {
			t.Errorf("got %d accounts with the e-mail, want 1", won)
		}
	}},
	{"of concurrent requests with a taken e-mail as many learn it as the limit allows", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		charge := limited(1, 3, time.Minute)
		errs := atOnce(contenders, func(int) error {
			n := w.newAccount()
			n.Email.Key = a.Email.Key
			_, err := w.CreateAccount(t.Context(), n, w.newSession(0), noJobs, charge)
			return err
		})
		learned, refused := 0, 0
		for _, err := range errs {
			var taken *accounts.TakenError
			var wait *accounts.WaitError
			switch {
			case errors.As(err, &taken):
				learned++
			case errors.As(err, &wait):
				refused++
			}
		}
		if learned != 3 || refused != contenders-3 {
			t.Errorf("got %d taken and %d refused, want 3 and %d: %v", learned, refused, contenders-3, errors.Join(errs...))
		}
	}},
	{"of concurrent rotations of each session one succeeds, and the others are stale", func(t *testing.T, w *world) {
		sessions := w.createSessions()
		errs := atOnce(contenders, func(i int) error {
			s := sessions[i%len(sessions)]
			return w.RotateSession(t.Context(), s, to(rotated(s, digest("next", i), w.Now())))
		})
		if won, stale := count(errs, nil), count(errs, accounts.ErrStale); won != len(sessions) || stale != contenders-won {
			t.Errorf("got %d successes and %d stale, want %d and %d: %v",
				won, stale, len(sessions), contenders-len(sessions), errors.Join(errs...))
		}
		for i, err := range errs {
			if err == nil && w.session(sessions[i%len(sessions)]).Current != digest("next", i) {
				t.Error("got another digest than that of the successful rotation")
			}
		}
	}},
	{"concurrent touches store first uses of current hashes only", func(t *testing.T, w *world) {
		sessions := w.createSessions()
		w.pass(time.Minute)
		errs := atOnce(contenders, func(i int) error {
			s := sessions[i%len(sessions)]
			if i%2 == 1 {
				s.Current = digest("earlier", i)
			}
			return w.TouchSession(t.Context(), s.ID, s.Current, true)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for i, want := range sessions {
			want.LastSeen = w.Now()
			if i%2 == 0 {
				want.Used = w.Now()
			}
			if diff := cmp.Diff(want, w.session(want)); diff != "" {
				t.Errorf("session %d: %s", i, diff)
			}
		}
	}},
	{"no sign-in with the old password survives a change, and no rehash overwrites the new hash", func(t *testing.T, w *world) {
		for range rounds {
			a, s := w.createAny()
			errs := atOnce(contenders+1, func(i int) error {
				if i == contenders/2 {
					return w.ReplacePassword(t.Context(), a, "second hash", accounts.KeptSession{Session: s}, accounts.CodeUse{}, false, changed())
				}
				o := accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 100}
				if i%2 == 0 {
					o.Rehash = "stronger first"
				}
				return w.OpenSession(t.Context(), o)
			})
			if n := count(errs, nil) + count(errs, accounts.ErrStale); n != len(errs) || errs[contenders/2] != nil {
				t.Fatal(errors.Join(errs...))
			}
			w.wantSessions(a.ID, s)
			if got := w.account(a.ID); got.PasswordHash != "second hash" || got.CredentialVersion != 2 {
				t.Errorf("got hash %q and version %d, want version 2", got.PasswordHash, got.CredentialVersion)
			}
		}
	}},
	{"no sign-in survives a recovery, and one token recovers once", func(t *testing.T, w *world) {
		for round := range rounds {
			a, _ := w.createAny()
			w.addToken(a, accounts.PurposeRecovery, round)
			const recoveries = 4
			errs := atOnce(contenders, func(i int) error {
				if i < recoveries {
					return w.RedeemRecovery(t.Context(), digest("token", round), fmt.Sprint("hash ", i), accounts.KnownAt{}, removing())
				}
				return w.OpenSession(t.Context(), accounts.OpenSession{
					Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 100,
				})
			})
			if count(errs[:recoveries], nil) != 1 || count(errs[:recoveries], accounts.ErrNotFound) != recoveries-1 {
				t.Fatal(errors.Join(errs...))
			}
			w.wantSessions(a.ID)
			if got := w.account(a.ID); got.CredentialVersion != 2 {
				t.Errorf("got hash %q and version %d, want version 2", got.PasswordHash, got.CredentialVersion)
			}
		}
	}},
	{"no token that is added during a password change survives it", func(t *testing.T, w *world) {
		for round := range rounds {
			a, s := w.createAny()
			errs := atOnce(9, func(i int) error {
				if i == 4 {
					return w.ReplacePassword(t.Context(), a, "second hash", accounts.KeptSession{Session: s}, accounts.CodeUse{}, false, changed())
				}
				return w.AddMailToken(t.Context(), w.newToken(a, accounts.PurposeRecovery, 100*round+i))
			})
			if n := count(errs, nil) + count(errs, accounts.ErrStale); n != len(errs) {
				t.Fatal(errors.Join(errs...))
			}
			for i := range 9 {
				_, err := w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 100*round+i))
				w.wantError(err, accounts.ErrNotFound)
			}
		}
	}},
	{"no token that is added during an e-mail change survives it", func(t *testing.T, w *world) {
		for round := range rounds {
			a, _ := w.createAny()
			change := w.addToken(a, accounts.PurposeEmail, 100*round+50)
			errs := atOnce(9, func(i int) error {
				if i == 4 {
					return w.RedeemEmail(t.Context(), change.Digest)
				}
				return w.AddMailToken(t.Context(), w.newToken(a, accounts.PurposeRecovery, 100*round+i))
			})
			if n := count(errs, nil) + count(errs, accounts.ErrStale); n != len(errs) || errs[4] != nil {
				t.Fatal(errors.Join(errs...))
			}
			for i := range 9 {
				_, err := w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 100*round+i))
				w.wantError(err, accounts.ErrNotFound)
			}
		}
	}},
	{"concurrent sign-ins leave no more sessions than the limit", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		errs := atOnce(contenders, func(int) error {
			return w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 5})
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := len(w.sessions(a.ID)); n != 5 {
			t.Errorf("got %d sessions, want 5", n)
		}
	}},
	{"of accounts that confirm one address concurrently one gets it", func(t *testing.T, w *world) {
		const n = 8
		for i := range n {
			a, _ := w.createAny()
			tok := w.newToken(a, accounts.PurposeEmail, i)
			tok.Email = accounts.Email{Address: "one@example.org", Key: "one@example.org"}
			w.must(w.AddMailToken(t.Context(), tok))
		}
		errs := atOnce(n, func(i int) error { return w.RedeemEmail(t.Context(), digest("token", i)) })
		if count(errs, nil) != 1 {
			t.Errorf("got %d successes, want 1", count(errs, nil))
		}
		for _, err := range errs {
			if err != nil {
				w.wantTaken(err, accounts.TakenError{Email: true})
			}
		}
	}},
	{"of concurrent reservations for one address the limit allows one", func(t *testing.T, w *world) {
		granted := make([]bool, contenders)
		errs := atOnce(contenders, func(i int) (err error) {
			granted[i], err = w.ReserveMail(t.Context(), reservation(fmt.Sprint(i), 1, 1), job("mail"))
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		granted = slices.DeleteFunc(granted, func(ok bool) bool { return !ok })
		if due := w.kindsDue(); len(granted) != 1 || len(due) != 1 {
			t.Errorf("got %d granted and %d jobs, want 1 each", len(granted), len(due))
		}
	}},
	{"of concurrent first calls for a key all get the same one", func(t *testing.T, w *world) {
		keys := make([]string, contenders)
		errs := atOnce(contenders, func(i int) error {
			key, err := w.Key(t.Context(), "key", []byte{byte(i)})
			keys[i] = string(key)
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if different := slices.Compact(keys); len(different) != 1 {
			t.Errorf("got keys %q, want one", different)
		}
	}},
	{"of concurrent attempts the burst is admitted, whatever the order of the keys", func(t *testing.T, w *world) {
		address, account := limited(1, 10, time.Minute), limited(2, 40, time.Minute)
		waits := make([]time.Duration, 50)
		errs := atOnce(len(waits), func(i int) (err error) {
			c := []throttle.Charge{address, account}
			if i%2 == 0 {
				c[0], c[1] = c[1], c[0]
			}
			waits[i], err = waitOf(w.Charge(t.Context(), c, w.Now()))
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for _, wait := range waits {
			if wait == 0 {
				admitted++
			}
		}
		if admitted != 10 {
			t.Errorf("got %d admitted, want 10", admitted)
		}
	}},
	{"concurrent profile updates lose no field", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		errs := atOnce(contenders, func(i int) error {
			_, err := w.UpdateProfile(t.Context(), a.ID, func(a *accounts.Account) []accounts.NewJob {
				a.Fields = a.Fields.Merge(userfields.Values{fmt.Sprint("field", i): "x"})
				return nil
			})
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := len(w.account(a.ID).Fields); n != contenders+1 {
			t.Errorf("got %d fields, want %d", n, contenders+1)
		}
	}},
	{"concurrent workers claim each job once", func(t *testing.T, w *world) {
		const jobs = 100
		for range jobs {
			w.must(w.Enqueue(t.Context(), job("mail")))
		}
		var mu sync.Mutex
		claimed := map[int64]int{}
		errs := atOnce(8, func(int) error {
			for {
				got, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail"}, N: 7, Lease: time.Minute})
				if err != nil || len(got) == 0 {
					return err
				}
				mu.Lock()
				for _, j := range got {
					claimed[j.ID]++
				}
				mu.Unlock()
				if len(got) > 7 {
					return fmt.Errorf("%d jobs in one claim", len(got))
				}
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		// A worker that finds the rest locked by others stops early.
		rest, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail"}, N: jobs, Lease: time.Minute})
		w.must(err)
		if len(claimed)+len(rest) != jobs {
			t.Errorf("got %d jobs claimed and %d left, want %d together", len(claimed), len(rest), jobs)
		}
		for id, n := range claimed {
			if n != 1 {
				t.Errorf("job %d: got %d claims, want 1", id, n)
			}
		}
	}},
	{"no sign-in and no token survives the disabling of its account", func(t *testing.T, w *world) {
		for range rounds {
			a, _ := w.createAny()
			errs := atOnce(contenders, func(i int) error {
				switch i % 8 {
				case 0:
					return w.SetDisabled(t.Context(), a.ID, true)
				case 1:
					return w.AddMailToken(t.Context(), accounts.MailToken{
						AccountID: a.ID, Purpose: accounts.PurposeRecovery, Digest: digest("token", w.number()),
						CredentialVersion: a.CredentialVersion, AccountEmailKey: a.Email.Key, Expires: w.Now().Add(time.Hour),
					})
				}
				return w.OpenSession(t.Context(), accounts.OpenSession{Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: contenders})
			})
			if ok, stale := count(errs, nil), count(errs, accounts.ErrStale); ok+stale != contenders {
				t.Fatal(errors.Join(errs...))
			}
			w.must(w.SetDisabled(t.Context(), a.ID, false))
			w.wantSessions(a.ID)
			w.must(w.DeleteAccount(t.Context(), a.ID, removed))
		}
	}},
	{"all operations at once on one account do not deadlock, even with its deletion", func(t *testing.T, w *world) {
		a, s := w.createAny()
		ctx := t.Context()
		errs := atOnce(2*contenders, func(i int) error {
			var err error
			switch i % 14 {
			case 0, 1:
				err = w.OpenSession(ctx, accounts.OpenSession{
					Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 3, Known: accounts.KnownAt{Address: fmt.Sprint(i)},
				})
			case 2:
				err = w.RevokeSessions(ctx, a.ID, false)
			case 3:
				err = w.TouchSession(ctx, s.ID, s.Current, true)
			case 4:
				err = w.RotateSession(ctx, s, to(rotated(s, digest("next", i), w.Now())))
			case 5:
				_, err = w.ReserveMail(ctx, reservation(fmt.Sprint(i), 1, 1), accounts.NewJob{Kind: "mail", AccountID: a.ID, Payload: []byte("{}")})
			case 6:
				err = w.ReplacePassword(ctx, a, "second hash", accounts.KeptSession{Session: s}, accounts.CodeUse{}, false, changed())
			case 7:
				err = w.RevokeStolenSession(ctx, s, job("event"))
			case 8:
				err = w.SetDisabled(ctx, a.ID, true, job("event"))
			case 9:
				err = w.SetDisabled(ctx, a.ID, false, job("event"))
			case 10:
				if i > contenders {
					err = w.DeleteAccount(ctx, a.ID, removed, job("event"))
				}
			case 11:
				err = w.AddKnownAddress(ctx, a.ID, accounts.KnownAt{Address: fmt.Sprint(i)}, true)
			case 12:
				e := personal.Event{ID: fmt.Sprint(i), Type: personal.EventSignInFailed, Time: w.Now(), UserID: a.ID}
				err = w.Charge(ctx, []throttle.Charge{limited(1, 1000, time.Second)}, w.Now(),
					accounts.NewJob{Kind: accounts.KindEvent, AccountID: a.ID, Event: &e})
			case 13:
				var jobs []outbox.Job
				if jobs, err = w.ClaimJobs(ctx, outbox.Claim{Kinds: []outbox.Kind{"event"}, N: 4, Lease: time.Minute}); err == nil {
					err = w.FinishJobs(ctx, jobs...)
				}
			}
			if errors.Is(err, accounts.ErrStale) || errors.Is(err, accounts.ErrNotFound) {
				return nil
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	}},
}
