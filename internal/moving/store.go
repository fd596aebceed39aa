package moving

import (
	"context"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// Store keeps what moves. Every method is one transaction.
type Store interface {
	// Now is the database's time.
	Now() time.Time
	// AddAccounts stores new accounts, under the ids that some bring, and runs
	// settle on what became of them, in the same order. What settle returns is
	// stored in the same transaction; an error of its own undoes everything.
	AddAccounts(ctx context.Context, batch []accounts.Account, settle Settle) error
	// Note returns the payload of the only job of a kind that no worker claims,
	// nil if there is none.
	Note(ctx context.Context, kind outbox.Kind) ([]byte, error)
	// RemoveNote removes it.
	RemoveNote(ctx context.Context, kind outbox.Kind) error
}

// Settle decides what is stored along with a batch.
type Settle func([]Outcome) (Settlement, error)

// Settlement is what is stored along with a batch.
type Settlement struct {
	Note accounts.NewJob   // takes the place of the one of its kind
	Jobs []accounts.NewJob // for workers

	Formats []string // of the hashes that were added, see [password.Format]
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
