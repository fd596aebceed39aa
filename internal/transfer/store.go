package transfer

import (
	"context"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
)

// Store keeps what moves. Every method is one transaction.
type Store interface {
	// Now is the database's time.
	Now() time.Time
	Conflicts
	// AddAccounts stores new accounts, under the ids that some bring, with what
	// settle returns for what became of them, or nothing at all. It returns the same
	// outcomes, in the order of the accounts.
	AddAccounts(ctx context.Context, batch []accounts.Account, settle Settle) ([]Outcome, error)
}

// Conflicts tells what would become of accounts that were added: [Outcome.There]
// or Taken, or neither.
type Conflicts interface {
	Conflicts(ctx context.Context, batch []accounts.Account) ([]Outcome, error)
}

// Settle decides what is stored along with a batch.
type Settle func([]Outcome) Settlement

// Settlement is what is stored along with a batch.
type Settlement struct {
	Jobs    []accounts.NewJob // for workers
	Formats []string          // of the hashes that were added, see [password.Format]
}

// Outcome is what became of an account that was to be added.
type Outcome struct {
	ID    int64 // that it was given; 0: it was not added
	There bool  // an account with its login, its e-mail, letter for letter, and, if it has one, its id was there before
	Taken Taken // else: what belongs to others
}

// Taken tells which unique values of an account belong to which others, by their
// ids; 0: to nobody.
type Taken struct{ ID, Login, Email int64 }

// anotherRow is in a dry run the owner of what a row before has.
const anotherRow = -1
