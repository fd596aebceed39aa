package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

var verificationCases = []testCase{
	{"accounts that wait for an address may be many, beside the one that has it", func(t *testing.T, w *world) {
		owner, _ := w.createAny()
		var want []int64
		for range 3 {
			want = append(want, w.wait(owner.Email))
		}
		found, err := w.FindWaiting(t.Context(), owner.Email.Key)
		w.must(err)
		if slices.Sort(found); len(slices.Compact(found)) != 2 || slices.ContainsFunc(found, func(id int64) bool {
			return !slices.Contains(want, id)
		}) {
			t.Errorf("got %v, want two of %v", found, want)
		}
		w.must(w.SetDisabled(t.Context(), want[0], true))
		w.must(w.SetDisabled(t.Context(), want[1], true))
		found, err = w.FindWaiting(t.Context(), owner.Email.Key)
		w.must(err)
		if diff := cmp.Diff(want[2:], found); diff != "" {
			t.Errorf("without the disabled ones: %s", diff)
		}
		got, err := w.FindAccount(t.Context(), accounts.AccountQuery{EmailKey: owner.Email.Key})
		w.must(err)
		if got.ID != owner.ID || got.Unverified.Key != "" {
			t.Errorf("by the address: got %+v, want the account that has it", got)
		}
	}},
	{"a verification makes the address the account's, confirmed, once", func(t *testing.T, w *world) {
		email := w.newAccount().Email
		a := w.account(w.wait(email))
		w.addVerification(a, email, 1)
		w.addVerification(a, email, 2)
		w.pass(time.Minute)
		w.must(w.RedeemVerification(t.Context(), digest("token", 1), a.LoginKey, job("event")))
		want := a
		want.Email, want.EmailVerified, want.Unverified, want.Updated = email, true, accounts.Email{}, w.Now()
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		for i := 1; i <= 2; i++ {
			w.wantError(w.RedeemVerification(t.Context(), digest("token", i), a.LoginKey, job("event")), accounts.ErrNotFound)
		}
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"a verification of an address that was taken since changes nothing", func(t *testing.T, w *world) {
		email := w.newAccount().Email
		a := w.account(w.wait(email))
		w.addVerification(a, email, 1)
		owner := w.newAccount()
		owner.Email = email
		w.create(owner)
		for range 2 { // the token is not used up
			w.wantTaken(w.RedeemVerification(t.Context(), digest("token", 1), a.LoginKey, job("event")), accounts.TakenError{Email: true})
		}
		if diff := cmp.Diff(a, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		if due := w.kindsDue(); len(due) > 0 {
			t.Errorf("got jobs %v, want none", due)
		}
	}},
	{"an e-mail that an administrator sets is unconfirmed, and the account waits no longer", func(t *testing.T, w *world) {
		nothing := func(accounts.Account) ([]accounts.NewJob, error) { return nil, nil }
		email, other := w.newAccount().Email, w.newAccount().Email
		a := w.account(w.wait(email))
		w.addVerification(a, email, 1)
		w.must(w.SetEmail(t.Context(), a.ID, other, nothing))
		if got := w.account(a.ID); got.Email != other || got.EmailVerified || got.Unverified.Key != "" {
			t.Errorf("got %+v, want an unconfirmed e-mail", got)
		}
		w.wantError(w.RedeemVerification(t.Context(), digest("token", 1), a.LoginKey), accounts.ErrNotFound)
		w.addVerification(w.account(a.ID), other, 2)
		w.must(w.RedeemVerification(t.Context(), digest("token", 2), ""))
		w.must(w.SetEmail(t.Context(), a.ID, email, nothing))
		w.must(w.SetEmail(t.Context(), a.ID, other, nothing)) // was confirmed once
		if got := w.account(a.ID); got.EmailVerified {
			t.Error("an address that was set again is confirmed")
		}
	}},
	{"a token to confirm an address that the account neither has nor waits for is stale", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b := w.account(w.wait(w.newAccount().Email))
		for i, of := range []accounts.Account{a, b} {
			t := w.newToken(of, accounts.PurposeVerification, i)
			w.wantError(w.AddMailToken(w.t.Context(), t), accounts.ErrStale)
		}
		w.must(w.SetDisabled(t.Context(), b.ID, true))
		disabled := w.account(b.ID)
		token := w.newToken(disabled, accounts.PurposeVerification, 3)
		token.Email = b.Unverified
		w.wantError(w.AddMailToken(t.Context(), token), accounts.ErrStale)
	}},
}

var verificationRaces = []testCase{
	{"of 8 accounts that wait for an address and confirm it at once, one gets it", func(t *testing.T, w *world) {
		const n = 8
		email := w.newAccount().Email
		var waiting [n]accounts.Account
		for i := range n {
			waiting[i] = w.account(w.wait(email))
			w.addVerification(waiting[i], email, i)
		}
		errs := atOnce(n, func(i int) error { return w.RedeemVerification(t.Context(), digest("token", i), waiting[i].LoginKey) })
		if got := count(errs, nil); got != 1 {
			t.Errorf("got %d successes, want 1: %v", got, errs)
		}
		for _, err := range errs {
			if err != nil {
				w.wantTaken(err, accounts.TakenError{Email: true})
			}
		}
		found, err := w.FindWaiting(t.Context(), email.Key)
		w.must(err)
		if len(found) != 2 {
			t.Errorf("got %d accounts that wait, want more than one", len(found))
		}
	}},
	{"of 32 wrong logins at once no more than ten are judged", func(t *testing.T, w *world) {
		email := w.newAccount().Email
		a := w.account(w.wait(email))
		w.addVerification(a, email, 1)
		errs := atOnce(32, func(i int) error {
			return w.RedeemVerification(t.Context(), digest("token", 1), fmt.Sprint("guess", i))
		})
		if judged, void := count(errs, accounts.ErrOtherLogin), count(errs, accounts.ErrNotFound); judged != accounts.MaxMismatches ||
			judged+void != len(errs) {
			t.Errorf("got %d judged and %d refused, want %d and the rest: %v", judged, void, accounts.MaxMismatches, errs)
		}
	}},
}

// wait stores an account that waits for an address and returns its id.
func (w *world) wait(email accounts.Email) (id int64) {
	w.t.Helper()
	a := w.newAccount()
	a.Email, a.Unverified = accounts.Email{}, email
	id, err := w.CreateWithoutSession(w.t.Context(), a, noJobs)
	w.must(err)
	return id
}

func (w *world) addVerification(a accounts.Account, email accounts.Email, n int) {
	w.t.Helper()
	t := w.newToken(a, accounts.PurposeVerification, n)
	t.Email = email
	w.must(w.AddMailToken(w.t.Context(), t))
}
