package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

var deletionCases = []testCase{
	{"a deletion disables the account, ends every session, voids every token and stores the jobs", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.open(a)
		b, foreign := w.createAny()
		w.addToken(a, accounts.PurposeRecovery, 1)
		w.pass(time.Minute)
		eraseAt := w.Now().Add(time.Hour)
		w.wantError(w.RequestDeletion(t.Context(), a.ID, 2, eraseAt, accounts.CodeUse{}, job("event")), accounts.ErrStale)
		w.wantError(w.RequestDeletion(t.Context(), nobody, 1, eraseAt, accounts.CodeUse{}, job("event")), accounts.ErrStale)
		w.must(w.RequestDeletion(t.Context(), a.ID, 1, eraseAt, accounts.CodeUse{}, job("mail")))
		a.Disabled, a.CredentialVersion, a.Updated, a.EraseAt = true, 2, w.Now(), eraseAt
		w.wantAfter(a)
		w.wantError(w.RequestDeletion(t.Context(), a.ID, 2, eraseAt, accounts.CodeUse{}, job("event")), accounts.ErrStale) // disabled
		w.wantSessions(b.ID, foreign)
		if diff := cmp.Diff([]outbox.Kind{"mail"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"only tokens that undo a deletion work while it stands, and only then", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		w.wantError(w.AddMailToken(t.Context(), w.newToken(a, accounts.PurposeDeletion, 1)), accounts.ErrStale)
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		w.wantError(w.AddMailToken(t.Context(), w.newToken(w.account(a.ID), accounts.PurposeDeletion, 1)), accounts.ErrStale)
		w.must(w.SetDisabled(t.Context(), a.ID, false))
		a = w.requestDeletion(w.account(a.ID))
		for _, p := range []accounts.MailPurpose{accounts.PurposeRecovery, accounts.PurposeEmail, accounts.PurposeVerification} {
			w.wantError(w.AddMailToken(t.Context(), w.newToken(a, p, 1)), accounts.ErrStale)
		}
		w.addToken(a, accounts.PurposeDeletion, 1)
		w.wantError(w.RedeemRecovery(t.Context(), digest("token", 1), "x", accounts.KnownAt{}, removing()), accounts.ErrNotFound)
		w.wantError(w.UndoDeletion(t.Context(), digest("token", 2)), accounts.ErrNotFound)
		w.pass(time.Minute)
		w.must(w.UndoDeletion(t.Context(), digest("token", 1), job("event")))
		want := a
		want.Disabled, want.CredentialVersion, want.Updated, want.EraseAt = false, a.CredentialVersion+1, w.Now(), time.Time{}
		if diff := cmp.Diff(want, w.account(a.ID)); diff != "" {
			t.Error(diff)
		}
		w.wantError(w.UndoDeletion(t.Context(), digest("token", 1), job("mail")), accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"event"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
	{"disabling a deleted account voids the token and keeps the deletion; enabling ends it", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		a = w.requestDeletion(a)
		w.addToken(a, accounts.PurposeDeletion, 1)
		w.must(w.SetDisabled(t.Context(), a.ID, true, job("event")))
		a.CredentialVersion++
		if diff := cmp.Diff(a, w.account(a.ID)); diff != "" || !a.Deleted() {
			t.Errorf("disabled: %s", diff)
		}
		w.wantError(w.UndoDeletion(t.Context(), digest("token", 1)), accounts.ErrNotFound)
		w.must(w.SetDisabled(t.Context(), a.ID, false, job("event")))
		a.Disabled, a.CredentialVersion, a.EraseAt = false, a.CredentialVersion+1, time.Time{}
		if diff := cmp.Diff(a, w.account(a.ID)); diff != "" {
			t.Errorf("enabled: %s", diff)
		}
		if due := w.kindsDue(); len(due) != 2 {
			t.Errorf("got jobs %v, want 2", due)
		}
	}},
	{"an account is erased only if it is due under the lock", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		var seen accounts.Account
		no := func(a accounts.Account) bool { seen = a; return false }
		yes := func(accounts.Account) bool { return true }
		due, err := w.DueErasures(t.Context(), time.Time{}, 0, 9)
		w.must(err)
		w.wantError(w.EraseAccount(t.Context(), a.ID, no, removed, job("event")), accounts.ErrStale)
		if diff := cmp.Diff(a, seen) + cmp.Diff(a, w.account(a.ID)) + cmp.Diff([]int64(nil), due); diff != "" {
			t.Error(diff)
		}
		w.must(w.EraseAccount(t.Context(), a.ID, yes, removed, job("mail")))
		w.wantError(w.EraseAccount(t.Context(), a.ID, yes, removed, job("event")), accounts.ErrNotFound)
		if diff := cmp.Diff([]outbox.Kind{"mail"}, w.kindsDue()); diff != "" {
			t.Error(diff)
		}
	}},
}

var deletionRaces = []testCase{
	{"of concurrent erasures and undoings of each account one succeeds", func(t *testing.T, w *world) {
		for round := range rounds {
			a, _ := w.createAny()
			a = w.requestDeletion(a)
			w.addToken(a, accounts.PurposeDeletion, round)
			errs := atOnce(6, func(i int) error {
				if i%2 == 0 {
					return w.UndoDeletion(t.Context(), digest("token", round), job(outbox.Kind(fmt.Sprint("undone ", round))))
				}
				return w.EraseAccount(t.Context(), a.ID, accounts.Account.Deleted, removed)
			})
			lost := count(errs, accounts.ErrNotFound) + count(errs, accounts.ErrStale)
			if count(errs, nil) != 1 || lost != len(errs)-1 {
				t.Fatalf("round %d: %v", round, errors.Join(errs...))
			}
		}
	}},
}

// requestDeletion deletes the account for its user, to be erased in an hour, and returns
// it as stored.
func (w *world) requestDeletion(a accounts.Account) accounts.Account {
	w.t.Helper()
	w.must(w.RequestDeletion(w.t.Context(), a.ID, a.CredentialVersion, w.Now().Add(time.Hour), accounts.CodeUse{}))
	return w.account(a.ID)
}
