package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
)

var explainCases = []testCase{
	{"waiting requests of a kind, the latest first up to a limit", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		for i, j := range []accounts.NewJob{{Kind: "mail"}, {Kind: "mail", AccountID: a.ID}, {Kind: "event"}, {Kind: "mail"}, {Kind: "mail"}} {
			j.Payload = fmt.Append(nil, i)
			w.must(w.Enqueue(t.Context(), j))
		}
		jobs, err := w.WaitingRequests(t.Context(), "mail", 2)
		w.must(err)
		var got []string
		for _, j := range jobs {
			got = append(got, string(j.Payload))
			if j.Due != w.Now() || j.AccountID != 0 {
				t.Errorf("got due %v and account %d", j.Due, j.AccountID)
			}
		}
		if diff := cmp.Diff([]string{"4", "3"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}},
	{"a key without a candidate is only read", func(t *testing.T, w *world) {
		_, err := w.Key(t.Context(), "name", nil)
		w.wantError(err, accounts.ErrNotFound)
		_, err = w.Key(t.Context(), "name", []byte("value"))
		w.must(err)
		if got, err := w.Key(t.Context(), "name", nil); err != nil || string(got) != "value" {
			t.Errorf("got %q, error %v", got, err)
		}
	}},
}

var explainRaces = []testCase{
	{"lifting limits and charging them at once does not deadlock", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		var charges []throttle.Charge
		for i := range 20 {
			charges = append(charges, throttle.Charge{Key: digest("key", i), Limit: throttle.Limit{Burst: 1000, Every: time.Minute}})
		}
		errs := atOnce(40, func(i int) error {
			switch i % 4 {
			case 0:
				return w.LiftLimits(t.Context(), a.ID, charges, accounts.NewJob{Kind: "event", Payload: []byte("{}"), AccountID: a.ID})
			case 1:
				return w.Refund(t.Context(), charges)
			}
			return w.Charge(t.Context(), charges, w.Now())
		})
		if n := count(errs, nil); n != len(errs) {
			t.Errorf("got %d successes of %d: %v", n, len(errs), errs)
		}
	}},
}
