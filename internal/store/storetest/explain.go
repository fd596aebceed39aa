package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

var explainCases = []testCase{
	{"lifted limits allow attempts, others stay", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		limit := throttle.Limit{Burst: 1, Every: time.Minute}
		charges := []throttle.Charge{{Key: digest("a", 1), Limit: limit}, {Key: digest("b", 1), Limit: limit},
			{Key: digest("c", 1), Limit: limit}}
		w.must(w.Charge(t.Context(), charges, w.Now()))
		w.wantError(w.LiftLimits(t.Context(), a.ID+1, charges, job("event")), accounts.ErrNotFound)
		w.must(w.LiftLimits(t.Context(), a.ID, charges[:2], job("event")))
		got, err := w.LimitWaits(t.Context(), charges, w.Now())
		w.must(err)
		if diff := cmp.Diff([]time.Duration{0, 0, time.Minute}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.must(w.LiftLimits(t.Context(), a.ID, nil))
		if got := w.kindsDue(); len(got) != 1 {
			t.Errorf("got jobs %v, want one", got)
		}
	}},
	{"recovery codes of one account", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		other, _ := w.createAny()
		w.must(w.ReplaceRecoveryCodes(t.Context(), a.ID, a.CredentialVersion, accounts.CodeUse{}, codes(1)))
		for id, want := range map[int64]int{a.ID: 2, other.ID: 0, other.ID + 1: 0} {
			if n, err := w.RecoveryCodesLeft(t.Context(), id); err != nil || n != want {
				t.Errorf("got %d, error %v, want %d", n, err, want)
			}
		}
	}},
	{"the last event of one account and type", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		other, _ := w.createAny()
		for _, e := range []personal.Event{{UserID: a.ID, Type: personal.EventSignedIn}, {UserID: a.ID, Type: personal.EventRecovered}, {UserID: other.ID, Type: personal.EventSignedIn}} {
			w.pass(time.Minute)
			e.ID, e.Time = fmt.Sprint("event ", w.number()), w.Now()
			w.must(w.Enqueue(t.Context(), accounts.NewJob{Kind: "other", AccountID: e.UserID, Event: &e}))
		}
		if last, err := w.LastEvent(t.Context(), a.ID, personal.EventSignedIn); err != nil || !last.Equal(w.Now().Add(-2*time.Minute)) {
			t.Errorf("got %v, error %v, want two minutes ago", last, err)
		}
	}},
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
	{"the last refusal of a mail to the account's address", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		wantRefusal := func(want accounts.MailRefusal) {
			t.Helper()
			got, err := w.MailRefusal(t.Context(), a.ID)
			if want.Reply == "" {
				w.wantError(err, accounts.ErrNotFound)
				return
			}
			w.must(err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		first := accounts.MailRefusal{AccountID: a.ID, EmailKey: a.Email.Key, Kind: "recovery", Reply: "550 it's ? $1"}
		w.must(w.RefuseMail(t.Context(), first, job("event")))
		first.Time = w.Now()
		wantRefusal(first)
		w.pass(time.Second)
		elsewhere := accounts.MailRefusal{AccountID: a.ID, EmailKey: "another@example.org", Kind: "email_change", Reply: "551"}
		w.must(w.RefuseMail(t.Context(), elsewhere, job("event")))
		w.must(w.RefuseMail(t.Context(), accounts.MailRefusal{AccountID: a.ID + 1, EmailKey: a.Email.Key, Reply: "552"}, job("event")))
		w.must(w.AcceptMail(t.Context(), a.ID, "another@example.org"))
		wantRefusal(first)
		second := accounts.MailRefusal{AccountID: a.ID, EmailKey: a.Email.Key, Kind: "new_address", Reply: "553"}
		w.must(w.RefuseMail(t.Context(), second))
		second.Time = w.Now()
		wantRefusal(second)
		w.must(w.AcceptMail(t.Context(), a.ID, a.Email.Key))
		wantRefusal(accounts.MailRefusal{})
		if got := w.kindsDue(); len(got) != 3 {
			t.Errorf("got jobs %v, want three", got)
		}
		w.must(w.RefuseMail(t.Context(), second))
		w.must(w.SetEmail(t.Context(), a.ID, accounts.Email{Address: "new@example.org", Key: "new@example.org"},
			func(accounts.Account) ([]accounts.NewJob, error) {
				return nil, nil
			}))
		wantRefusal(accounts.MailRefusal{}) // of the former address
	}},
	{"sent mails that count for some digests, the latest first", func(t *testing.T, w *world) {
		var want []accounts.SentMail
		began := w.Now()
		for i, to := range []int{1, 2, 3, 1, 2} {
			w.pass(time.Second)
			r := accounts.MailReservation{Mailbox: digest("box", 1), Kind: "recovery", MailID: fmt.Sprint(i), Allowances: []accounts.MailAllowance{
				{Limits: []accounts.MailLimit{{Digest: digest("to", to), Max: 100, Window: time.Hour}}},
			}}
			if !w.reserve(r) {
				t.Fatal("got no reservation")
			}
			if to != 3 {
				want = append([]accounts.SentMail{{Digest: digest("to", to), Time: w.Now()}}, want...)
			}
		}
		to := [][32]byte{digest("to", 1), digest("to", 2)}
		for _, c := range []struct {
			after time.Time
			want  []accounts.SentMail
		}{{began, want}, {began.Add(2 * time.Second), want[:2]}} {
			got, err := w.SentMails(t.Context(), to, c.after)
			w.must(err)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
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
