package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

var transferCases = []testCase{
	{"accounts are added unchanged", func(t *testing.T, w *world) {
		name := "Ada ' \\ ? Лавлейс"
		full, bare := w.newAccount(), w.newAccount()
		full.Name, full.Disabled = &name, true
		full.EmailVerified, full.Locale, full.EraseAt = true, "pt-BR", w.Now().Add(time.Hour)
		bare.Email, bare.Fields = accounts.Email{}, nil
		outcomes := w.add(full, bare)
		for i, want := range []accounts.Account{full, bare} {
			want.ID = outcomes[i].ID
			w.wantAccount(want)
		}
	}},
	{"a given id is kept and never assigned again", func(t *testing.T, w *world) {
		given := w.newAccount()
		given.ID = 1
		far := w.newAccount()
		far.ID = 1000
		if got := w.add(far, given); got[0].ID != 1000 || got[1].ID != 1 {
			t.Fatalf("got %+v, want the ids 1000 and 1", got)
		}
		if a, _ := w.createAny(); a.ID <= 1000 {
			t.Errorf("a new account: got id %d, want one above 1000", a.ID)
		}
		if got := w.add(w.newAccount()); got[0].ID <= 1001 {
			t.Errorf("an account without an id: got id %d, want one above 1001", got[0].ID)
		}
	}},
	{"taken values name their owners, in the batch and before, and nothing is merged", func(t *testing.T, w *world) {
		existing, _ := w.createAny()
		same, login, email, both, id := w.newAccount(), w.newAccount(), w.newAccount(), w.newAccount(), w.newAccount()
		same.Login, same.LoginKey, same.Email, same.PasswordHash = existing.Login, existing.LoginKey, existing.Email, "another"
		login.LoginKey = existing.LoginKey
		email.Email = existing.Email
		first := w.newAccount()
		both.LoginKey, both.Email = first.LoginKey, existing.Email
		id.ID = existing.ID
		again := first
		elsewhere := same
		elsewhere.ID = existing.ID + 1
		got := w.add(same, login, email, first, both, id, again, elsewhere)
		added := got[3].ID
		if added == 0 {
			t.Fatal("got no id for the account without a conflict")
		}
		want := []transfer.Outcome{
			{Exists: true}, {Taken: transfer.Taken{Login: existing.ID}}, {Taken: transfer.Taken{Email: existing.ID}}, {ID: added},
			{Taken: transfer.Taken{Login: added, Email: existing.ID}}, {Taken: transfer.Taken{ID: existing.ID}}, {Taken: transfer.Taken{Login: added, Email: added}},
			{Taken: transfer.Taken{Login: existing.ID, Email: existing.ID}},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		w.wantAccount(existing)
	}},
	{"of two with one login the second is added if the id of the first is taken", func(t *testing.T, w *world) {
		existing, _ := w.createAny()
		first := w.newAccount()
		second := first
		first.ID, second.ID = existing.ID, existing.ID+1000
		want := []transfer.Outcome{{Taken: transfer.Taken{ID: existing.ID, Login: second.ID, Email: second.ID}}, {ID: second.ID}}
		if got := w.add(first, second); !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}},
	{"conflicts are found before an insert", func(t *testing.T, w *world) {
		existing, _ := w.createAny()
		free, taken := w.newAccount(), w.newAccount()
		taken.Email = existing.Email
		got, err := w.Conflicts(t.Context(), []accounts.Account{free, taken, existing})
		w.must(err)
		if want := []transfer.Outcome{{}, {Taken: transfer.Taken{Email: existing.ID}}, {Exists: true}}; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}},
	{"a batch and its jobs are stored in one transaction", func(t *testing.T, w *world) {
		followUp := func([]transfer.Outcome) transfer.FollowUp {
			return transfer.FollowUp{Jobs: []accounts.NewJob{job("mail")}}
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.AddAccounts(ctx, []accounts.Account{w.newAccount()}, func(outcomes []transfer.Outcome) transfer.FollowUp {
			cancel() // after the accounts are inserted
			return followUp(outcomes)
		})
		w.wantError(err, context.Canceled)
		_, err = w.AddAccounts(t.Context(), []accounts.Account{w.newAccount()}, followUp)
		w.must(err)
		if kinds := w.kindsDue(); !slices.Equal(kinds, []outbox.Kind{"mail"}) {
			t.Errorf("got jobs %v, want one mail", kinds)
		}
		if all, err := w.AccountsAfter(t.Context(), 0, 10); err != nil || len(all) != 1 {
			t.Errorf("got %d accounts, %v, want 1", len(all), err)
		}
	}},
	{"accounts are read page by page", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		c, _ := w.createAny()
		for after, want := range map[int64][]int64{0: {a.ID, b.ID}, a.ID: {b.ID, c.ID}, c.ID: nil} {
			page, err := w.AccountsAfter(t.Context(), after, 2)
			w.must(err)
			var got []int64
			for _, p := range page {
				got = append(got, p.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("after %d: got %v, want %v", after, got, want)
			}
		}
	}},
	{"audit entries are read page by page in the order of time, then of storage", func(t *testing.T, w *world) {
		a, _ := w.createAny()
		b, _ := w.createAny()
		for i, c := range []struct{ account, second int64 }{
			{a.ID, 2}, {b.ID, 1}, {a.ID, 2}, {a.ID, 2}, {a.ID, 1}, {0, 1},
		} {
			e := personal.Event{
				ID: fmt.Sprint(i), Type: personal.EventSignedIn, Time: time.Unix(c.second, 0),
				UserID: c.account, Address: "192.0.2.1", RequestID: fmt.Sprint(i),
			}
			w.must(w.Enqueue(t.Context(), accounts.NewJob{Kind: "event", AccountID: c.account, Event: &e}))
		}
		const what = " signed_in 192.0.2.1"
		for account, want := range map[int64][]string{
			a.ID: {"4 1 a" + what, "0 2 a" + what, "2 2 a" + what, "3 2 a" + what},
			0:    {"1 1 b" + what, "4 1 a" + what, "5 1 -" + what, "0 2 a" + what, "2 2 a" + what, "3 2 a" + what},
		} {
			var got []string
			for last := (personal.AuditEntry{}); ; {
				page, err := w.AuditEntriesAfter(t.Context(), account, last, 2)
				w.must(err)
				for _, last = range page {
					whose := map[int64]string{a.ID: "a", b.ID: "b", 0: "-"}[last.UserID]
					got = append(got, fmt.Sprint(last.RequestID, " ", last.Time.Unix(), " ", whose, " ", last.Type, " ", last.Address))
				}
				if len(page) < 2 {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}},
	{"a bare hash is found and replaced unless it has changed", func(t *testing.T, w *world) {
		const wrapped = "$argon2id-of$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY$$digest$md5(p)$$"
		const bare = "$waits$$digest$md5(p)$$3cb4e732631f47e6eb961f34554b7cde"
		a, b, c, other := w.newAccount(), w.newAccount(), w.newAccount(), w.newAccount()
		a.PasswordHash, b.PasswordHash, c.PasswordHash = bare, bare, bare
		got := w.add(a, other, b, c)
		first, last := got[0].ID, got[3].ID
		hashes, err := w.BareHashes(t.Context(), []int64{first, got[1].ID, last})
		if want := (map[int64]string{first: bare, last: bare}); err != nil || !cmp.Equal(hashes, want) {
			t.Errorf("got %v, %v, want %v", hashes, err, want)
		}
		w.must(w.ReplaceHash(t.Context(), got[0].ID, bare, wrapped))
		w.must(w.ReplaceHash(t.Context(), got[0].ID, bare, "too late"))
		if found := w.account(got[0].ID); found.PasswordHash != wrapped || found.CredentialVersion != a.CredentialVersion {
			t.Errorf("got %+v, want the wrapped hash and an unchanged credential version", found)
		}
		if all, left, err := w.CountAccounts(t.Context()); err != nil || all != 4 || left != 2 {
			t.Errorf("got %d bare hashes of %d, %v, want 2 of 4", left, all, err)
		}
	}},
	{"accounts are counted by state", func(t *testing.T, w *world) {
		confirmed, bare, enabledAgain, leaving, waiting := w.newAccount(), w.newAccount(), w.newAccount(), w.newAccount(), w.newAccount()
		confirmed.EmailVerified = true
		bare.Email = accounts.Email{}
		for _, a := range []*accounts.Account{&enabledAgain, &leaving} {
			a.EmailVerified, a.EraseAt = true, w.Now()
		}
		leaving.Disabled = true
		w.add(confirmed, bare, enabledAgain, leaving, w.newAccount(), w.newAccount())
		waiting.Email, waiting.Unverified = accounts.Email{}, waiting.Email
		w.create(waiting)
		got, err := w.CountAccountStates(t.Context())
		if want := (store.AccountStates{Unconfirmed: 2, Waiting: 1, Leaving: 1}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}},
}

// add adds accounts and returns their outcomes.
func (w *world) add(batch ...accounts.Account) []transfer.Outcome {
	w.t.Helper()
	outcomes, err := w.AddAccounts(w.t.Context(), batch, func([]transfer.Outcome) transfer.FollowUp { return transfer.FollowUp{} })
	w.must(err)
	return outcomes
}

// transferStore is what imports and exports need.
type transferStore interface {
	transfer.Store
	transfer.Source
	transfer.PersonSource
	transfer.BareStore
	CountAccounts(ctx context.Context) (all, bare int64, err error)
	CountAccountStates(ctx context.Context) (store.AccountStates, error)
}

func (w *world) wantAccount(want accounts.Account) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.account(want.ID), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("(-want +got):\n%s", diff)
	}
}
