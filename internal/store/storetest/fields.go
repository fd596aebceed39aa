package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// fillCountry gives the country to those who have none.
func fillCountry(v userfields.Values) (userfields.Values, bool) {
	if v["country"] != nil {
		return v, false
	}
	return v.Merge(userfields.Values{"country": "Latvia"}), true
}

// startFill starts a run and returns when.
func (w *world) startFill(revision string) (at time.Time) {
	w.t.Helper()
	err := w.StartFill(w.t.Context(), revision, func(started time.Time) []accounts.NewJob {
		at = started
		return []accounts.NewJob{{Kind: accounts.KindFill, Payload: []byte(revision)}}
	})
	w.ok(err)
	return at
}

func (w *world) wantFill(want personal.FieldsFill) {
	w.t.Helper()
	got, err := w.LastFill(w.t.Context())
	if err != nil || got != want {
		w.t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func (w *world) wantFields(id int64, want userfields.Values) {
	w.t.Helper()
	a, err := w.Account(w.t.Context(), id)
	if err != nil || !cmp.Equal(a.Fields, want) {
		w.t.Errorf("account %d: got %v, %v; want %v", id, a.Fields, err, want)
	}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

var fieldsCases = []testCase{
	{"batches fill in values and move the run on", func(t *testing.T, w *world) {
		var ids []int64
		for i := range 5 {
			a := w.newAccount()
			if i == 3 {
				a.Fields = userfields.Values{"country": "Oman"}
			}
			ids = append(ids, w.createID(a))
		}
		w.wantFill(personal.FieldsFill{})
		started := w.startFill("1")
		want := personal.FieldsFill{Revision: "1", State: personal.FillRunning, Total: 5, Started: started}
		w.wantFill(want)
		w.pass(time.Minute)
		for i, checked := range []int64{2, 4, 5} {
			left, err := w.FillBatch(t.Context(), started, 2, fillCountry)
			if err != nil || left != (i < 2) {
				t.Fatalf("batch %d: got left %t, %v", i, left, err)
			}
			want.Checked, want.Filled = checked, []int64{2, 3, 4}[i]
			if i == 2 {
				want.State, want.Ended = personal.FillDone, w.Now()
			}
			w.wantFill(want)
		}
		w.wantFields(ids[0], userfields.Values{"city": "Omsk", "country": "Latvia"})
		w.wantFields(ids[3], userfields.Values{"country": "Oman"})
		left, err := w.FillBatch(t.Context(), started, 2, fillCountry)
		if left || err != nil {
			t.Errorf("after the end: got left %t, %v; want false", left, err)
		}
		w.wantFill(want)
	}},
	{"error of a batch leaves everything as it was", func(t *testing.T, w *world) {
		id := w.createID(w.newAccount())
		started := w.startFill("1")
		bad := func(v userfields.Values) (userfields.Values, bool) {
			return userfields.Values{"country": func() {}}, true // has no JSON form
		}
		if _, err := w.FillBatch(t.Context(), started, 2, bad); err == nil {
			t.Fatal("got no error, want one")
		}
		w.wantFill(personal.FieldsFill{Revision: "1", State: personal.FillRunning, Total: 1, Started: started})
		w.wantFields(id, userfields.Values{"city": "Omsk"})
	}},
	{"batch decides again about what has changed since it was read", func(t *testing.T, w *world) {
		other := func(started time.Time, do func() error) (bool, error) { // do runs when the account was read
			called := false
			return w.FillBatch(t.Context(), started, 10, func(v userfields.Values) (userfields.Values, bool) {
				if !called {
					called = true
					w.ok(do())
				}
				return fillCountry(v)
			})
		}
		id := w.createID(w.newAccount())
		started := w.startFill("1")
		left, err := other(started, func() error {
			_, err := w.UpdateProfile(t.Context(), id, func(a *accounts.Account) []accounts.NewJob {
				a.Fields = userfields.Values{"country": "Oman"}
				return nil
			})
			return err
		})
		run, _ := w.LastFill(t.Context())
		if left || err != nil || run.Filled != 0 {
			t.Errorf("value set during the run: got left %t, %v, %d filled; want none", left, err, run.Filled)
		}
		w.wantFields(id, userfields.Values{"country": "Oman"})

		w.createID(w.newAccount())
		started = w.startFill("2")
		left, err = other(started, func() error {
			_, err := w.FillBatch(t.Context(), started, 1, fillCountry)
			return err
		})
		run, _ = w.LastFill(t.Context())
		if !left || err != nil || run.Checked != 1 || run.State != personal.FillRunning {
			t.Errorf("batch of another worker during the run: got left %t, %v, %+v; want only the other's batch", left, err, run)
		}

		left, err = other(started, func() error { w.startFill("3"); return nil })
		run, _ = w.LastFill(t.Context())
		if left || err != nil || run.Revision != "3" || run.Checked != 0 {
			t.Errorf("another run since: got left %t, %v, %+v; want nothing of the first", left, err, run)
		}
	}},
}

var fieldsRaces = []testCase{
	{"filling in loses no concurrent change of a profile", func(t *testing.T, w *world) {
		const accountsEach = 3 * contenders
		ids := make([]int64, accountsEach)
		for i := range ids {
			ids[i] = w.createID(w.newAccount())
		}
		started := w.startFill("1")
		errs := atOnce(contenders+2, func(i int) error {
			for left := i >= contenders; left; { // two workers
				var err error
				if left, err = w.FillBatch(t.Context(), started, 8, fillCountry); err != nil {
					return err
				}
			}
			for id := i; i < contenders && id < accountsEach; id += contenders {
				_, err := w.UpdateProfile(t.Context(), ids[accountsEach-1-id], func(a *accounts.Account) []accounts.NewJob {
					a.Fields = a.Fields.Merge(userfields.Values{"country": "Oman", "changed": true})
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		w.ok(errors.Join(errs...))
		for _, id := range ids {
			w.wantFields(id, userfields.Values{"city": "Omsk", "country": "Oman", "changed": true})
		}
		run, err := w.LastFill(t.Context())
		if err != nil || run.State != personal.FillDone || run.Checked != accountsEach {
			t.Errorf("got %+v, %v; want it done, each account checked once", run, err)
		}
	}},
	{"concurrent starts leave one run and its job", func(t *testing.T, w *world) {
		errs := atOnce(8, func(i int) error {
			revision := fmt.Sprint(i)
			return w.StartFill(t.Context(), revision, func(time.Time) []accounts.NewJob {
				return []accounts.NewJob{{Kind: accounts.KindFill, Payload: []byte(revision)}}
			})
		})
		w.ok(errors.Join(errs...))
		jobs, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindFill}, N: 10})
		run, _ := w.LastFill(t.Context())
		if err != nil || len(jobs) != 1 || string(jobs[0].Payload) != run.Revision {
			t.Errorf("got jobs %v of run %+v, %v; want one, of that run", jobs, run, err)
		}
	}},
}
