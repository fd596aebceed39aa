package moving

import (
	"context"

	"github.com/cms-personal/personal/internal/accounts"
)

// Conflicts tells what would become of accounts that were added to the real
// database: [Outcome.There] or Taken, or neither.
type Conflicts interface {
	Conflicts(ctx context.Context, batch []accounts.Account) ([]Outcome, error)
}

// Rehearsal is the store of a dry run: it looks at the real database, and adds
// what is unique of accounts to another one, which is thrown away, so that rows
// which collide with each other are found as in earnest. It does not foresee which
// ids the real database would give.
type Rehearsal struct {
	Store // the one that is thrown away
	Real  Conflicts
}

// AddAccounts implements [Store].
func (r Rehearsal) AddAccounts(ctx context.Context, batch []accounts.Account, settle Settle) error {
	outcomes, err := r.Real.Conflicts(ctx, batch)
	if err != nil {
		return err
	}
	var rest []accounts.Account
	var places []int
	for i, o := range outcomes {
		if o == (Outcome{}) {
			rest, places = append(rest, uniqueOf(batch[i])), append(places, i)
		}
	}
	return r.Store.AddAccounts(ctx, rest, func(found []Outcome) (Settlement, error) {
		for i, o := range found {
			o.Taken = o.Taken.byAnotherRow()
			outcomes[places[i]] = o
		}
		return settle(outcomes)
	})
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
