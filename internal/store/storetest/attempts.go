package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

var attemptCases = []testCase{
	{"if one key refuses, none is charged and the longest wait is returned", func(t *testing.T, w *world) {
		narrow, narrower, wide := limited(1, 1, time.Minute), limited(2, 1, time.Hour), limited(3, 2, time.Minute)
		w.wantWait(0, []throttle.Charge{narrow})
		w.wantWait(0, []throttle.Charge{narrower})
		for range 5 {
			w.wantWait(time.Hour, []throttle.Charge{wide, narrow, narrower})
		}
		w.wantWait(0, []throttle.Charge{wide})
		w.wantWait(0, []throttle.Charge{wide})
		w.wantWait(time.Minute, []throttle.Charge{wide})
	}},
	{"a key given twice is charged twice", func(t *testing.T, w *world) {
		c := limited(1, 3, time.Minute)
		w.wantWait(0, []throttle.Charge{c, c})
		w.wantWait(time.Minute, []throttle.Charge{c, c})
		w.wantWait(0, []throttle.Charge{c})
	}},
	{"a key that is only looked at refuses like a charge and counts nothing", func(t *testing.T, w *world) {
		c := limited(1, 1, time.Minute)
		look := c
		look.Peek = true
		for range 3 {
			w.wantWait(0, []throttle.Charge{look, limited(2, 100, time.Second)})
		}
		w.wantWait(0, []throttle.Charge{c})
		w.wantWait(time.Minute, []throttle.Charge{look, limited(2, 100, time.Second)})
	}},
	{"no charges are always allowed", func(t *testing.T, w *world) { w.wantWait(0, nil) }},
	{"a refund takes the attempt off every key", func(t *testing.T, w *world) {
		c := []throttle.Charge{limited(1, 2, time.Minute), limited(2, 2, time.Minute)}
		w.must(w.Refund(t.Context(), c)) // nothing to refund
		w.wantWait(0, c)
		w.wantWait(0, c)
		w.wantWait(time.Minute, c)
		w.must(w.Refund(t.Context(), c))
		w.wantWait(0, c[:1])
		w.wantWait(0, c[1:])
		w.wantWait(time.Minute, c)
	}},
	{"jobs are stored only with an allowed attempt", func(t *testing.T, w *world) {
		c := []throttle.Charge{limited(1, 2, time.Minute)}
		for range 5 {
			_, err := waitOf(w.Charge(t.Context(), c, w.Now(), job("event")))
			w.must(err)
		}
		if n := len(w.kindsDue()); n != 2 {
			t.Errorf("got %d jobs, want 2", n)
		}
	}},
	{"a known address is found by either key of its account, and since the given time", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		added := w.Now()
		w.must(w.AddKnownAddress(t.Context(), a.ID, accounts.KnownAt{Address: "192.0.2.1"}, true))
		w.must(w.AddKnownAddress(t.Context(), nobody, accounts.KnownAt{Address: "192.0.2.1"}, true))
		w.pass(time.Hour)
		for _, c := range []struct {
			q       accounts.AccountQuery
			address string
			since   time.Time
			want    bool
		}{
			{accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.1", added.Add(-1), true},
			{accounts.AccountQuery{EmailKey: a.Email.Key}, "192.0.2.1", added.Add(-1), true},
			{accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.1", added, false},
			{accounts.AccountQuery{LoginKey: a.LoginKey}, "192.0.2.2", added.Add(-1), false},
			{accounts.AccountQuery{LoginKey: b.LoginKey, EmailKey: b.Email.Key}, "192.0.2.1", added.Add(-1), false},
			{accounts.AccountQuery{}, "192.0.2.1", added.Add(-1), false},
		} {
			if got, err := w.KnownAddress(t.Context(), c.q, c.address, c.since); err != nil || got.Known() != c.want {
				t.Errorf("%+v: got %+v, error %v", c, got, err)
			}
		}
	}},
	{"above the limit the address unused for longest is removed, and old addresses are pruned", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		wantKnown := func(want ...string) {
			t.Helper()
			var got []string
			for _, address := range []string{"1", "2", "3", "4"} {
				known, err := w.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, address, time.Time{})
				w.must(err)
				if known.Known() {
					got = append(got, address)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		addresses := []string{"1", "2", "3"}
		for i := range personal.MaxKnownAddresses - 3 {
			addresses = append(addresses, fmt.Sprint("other ", i))
		}
		for _, address := range append(addresses, "1", "4") {
			w.must(w.AddKnownAddress(t.Context(), a.ID, accounts.KnownAt{Address: address}, true))
			w.pass(25 * time.Hour)
		}
		wantKnown("1", "3", "4")
		w.must(w.Prune(t.Context(), store.PruneOptions{AddressesBefore: w.Now().Add(-51 * time.Hour), Batch: 1}))
		wantKnown("1", "4")
	}},
	{"a sign-in stores its known address at most once a day", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		signIn := func(address string) time.Time {
			t.Helper()
			w.must(w.OpenSession(t.Context(), accounts.OpenSession{
				Session: w.newSession(a.ID), CredentialVersion: 1, MaxSessions: 100, Known: accounts.KnownAt{Address: address},
			}))
			return w.Now()
		}
		wantSeen := func(address string, want bool, since time.Time) {
			t.Helper()
			got, err := w.KnownAddress(t.Context(), accounts.AccountQuery{LoginKey: a.LoginKey}, address, since.Add(-1))
			if err != nil || got.Known() != want {
				t.Errorf("address %q since %v: got %+v, error %v", address, since, got, err)
			}
		}
		first := signIn("1")
		signIn("")
		wantSeen("1", true, first)
		wantSeen("", false, time.Time{})
		w.pass(23 * time.Hour)
		wantSeen("1", false, signIn("1")) // not written again
		w.pass(time.Hour)
		wantSeen("1", true, signIn("1"))
		for i := range personal.MaxKnownAddresses {
			w.pass(time.Hour)
			signIn(fmt.Sprint(i + 2))
		}
		wantSeen("1", false, first)
		wantSeen("2", true, first)
		wantSeen("3", true, first)
	}},
	{"a stored time that no attempt can have caused locks no user out", func(t *testing.T, w *world) {
		c := limited(1, 3, 10*time.Second)
		w.pass(48 * time.Hour)
		w.wantWait(0, []throttle.Charge{c})
		w.pass(-48 * time.Hour)
		c.Limit.Burst = 2 // with another limit
		w.wantWait(0, []throttle.Charge{c})
		w.wantWait(0, []throttle.Charge{c})
		w.wantWait(10*time.Second, []throttle.Charge{c})
	}},
	{"any sequence of attempts is decided like throttle.Limit", func(t *testing.T, w *world) {
		run := 0
		rapid.Check(t, func(r *rapid.T) {
			run++
			c := limited(run, rapid.IntRange(1, 4).Draw(r, "burst"),
				time.Duration(rapid.IntRange(1, 5000).Draw(r, "every µs"))*time.Microsecond)
			pauses := rapid.OneOf(rapid.IntRange(0, 9000), rapid.IntRange(-9000, 0), rapid.SampledFrom([]int{-2e8, 2e8}))
			var tat time.Time
			for range rapid.IntRange(1, 8).Draw(r, "attempts") {
				w.pass(time.Duration(pauses.Draw(r, "pause µs")) * time.Microsecond)
				next, want := c.Limit.Take(tat, w.Now())
				checked, err := waitOf(w.CheckLimits(t.Context(), []throttle.Charge{c}, w.Now()))
				if err != nil || checked != want {
					r.Fatalf("CheckLimits: got wait %v, error %v, want %v", checked, err, want)
				}
				got, err := waitOf(w.Charge(t.Context(), []throttle.Charge{c}, w.Now()))
				if err != nil || got != want {
					r.Fatalf("Charge: got wait %v, error %v, want %v", got, err, want)
				}
				if want > 0 {
					continue
				}
				if tat = next; rapid.Bool().Draw(r, "refund") {
					w.must(w.Refund(t.Context(), []throttle.Charge{c}))
					if tat = tat.Add(-c.Limit.Every); !tat.After(w.Now()) {
						tat = time.Time{} // the row is removed
					}
				}
			}
		})
	}},
}

var attemptRaces = []testCase{
	{"a limit that allows everything refuses none, in whatever order attempts commit", func(t *testing.T, w *world) {
		for key, c := range []throttle.Charge{limited(1, 0, 0), limited(2, 0, time.Minute), limited(3, 5, 0)} {
			errs := atOnce(contenders, func(i int) error {
				charges := []throttle.Charge{c}
				return w.Charge(t.Context(), charges, w.Now().Add(time.Duration(i*(i%2*2-1))*time.Millisecond)) // before and after the others
			})
			if err := errors.Join(errs...); err != nil {
				t.Errorf("limit %d: got %v", key, err)
			}
		}
	}},
}

func limited(key, burst int, every time.Duration) throttle.Charge {
	return throttle.Charge{Key: digest("throttle", key), Limit: throttle.Limit{Burst: burst, Every: every}}
}

// waitOf returns the wait of a *accounts.WaitError, and any other error.
func waitOf(err error) (time.Duration, error) {
	var limited *accounts.WaitError
	if errors.As(err, &limited) {
		return limited.Wait, nil
	}
	return 0, err
}

func (w *world) wantWait(want time.Duration, c []throttle.Charge) {
	w.t.Helper()
	checked, err := waitOf(w.CheckLimits(w.t.Context(), c, w.Now()))
	w.must(err)
	got, err := waitOf(w.Charge(w.t.Context(), c, w.Now()))
	w.must(err)
	if checked != got {
		w.t.Errorf("Charge: got wait %v, want the %v of CheckLimits", got, checked)
	}
	if got != want {
		w.t.Errorf("got wait %v, want %v", got, want)
	}
}
