package transfer

import (
	"context"

	"github.com/cms-personal/personal/internal/accounts"
)

// Rehearsal is the store of a dry run: it looks at the real database, and adds
// what is unique of accounts to another one, which is thrown away, so that rows
// which collide with each other are found as in earnest. It does not foresee which
// ids the real database would give.
type Rehearsal struct {
	Store // the one that is thrown away
	Real  Conflicts
}

// Conflicts implements [Store].
func (r Rehearsal) Conflicts(ctx context.Context, batch []accounts.Account) ([]Outcome, error) {
	return r.Real.Conflicts(ctx, batch)
}

// AddAccounts implements [Store].
func (r Rehearsal) AddAccounts(ctx context.Context, batch []accounts.Account, settle Settle) ([]Outcome, error) {
	unique := make([]accounts.Account, len(batch))
	for i, a := range batch {
		unique[i] = uniqueOf(a)
	}
	outcomes, err := r.Store.AddAccounts(ctx, unique, settle)
	for i := range outcomes {
		outcomes[i].Taken = outcomes[i].Taken.byAnotherRow()
	}
	return outcomes, err
}

// uniqueOf leaves out what collides with nothing: no hash is kept, not even there.
func uniqueOf(a accounts.Account) accounts.Account {
	return accounts.Account{ID: a.ID, Login: a.Login, LoginKey: a.LoginKey, Email: a.Email}
}

// byAnotherRow hides ids of accounts that are thrown away.
func (t Taken) byAnotherRow() Taken {
	for _, owner := range []*int64{&t.ID, &t.Login, &t.Email} {
		if *owner != 0 {
			*owner = anotherRow
		}
	}
	return t
}
