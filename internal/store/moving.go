package store

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/moving"
	"github.com/cms-personal/personal/internal/outbox"
)

var (
	_ moving.Store     = (*Store)(nil)
	_ moving.Conflicts = (*Store)(nil)
	_ moving.Source    = (*Store)(nil)
	_ moving.BareStore = (*Store)(nil)
)

// AddAccounts stores accounts from elsewhere, see moving.Store. Of many calls in a
// row some take longer, so that other processes can write as well.
func (s *Store) AddAccounts(ctx context.Context, batch []accounts.Account, settle moving.Settle) error {
	err := s.inTx(ctx, "add accounts", func(ctx context.Context, tx bun.Tx) error {
		outcomes, err := s.addAccounts(ctx, tx, batch)
		if err != nil {
			return err
		}
		settled, err := settle(outcomes)
		if err != nil {
			return err
		}
		if err := removeNote(ctx, tx, settled.Note.Kind); err != nil {
			return err
		}
		if err := noteFormats(ctx, tx, settled.Formats, s.Now()); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, append(settled.Jobs, settled.Note))
	})
	s.giveWay(ctx)
	return err
}

// giveWay leaves the lock for writing to other processes now and then. Whoever
// waits for SQLite's looks for it every 100 ms in the end, and would never find it
// free between transactions that follow one another.
func (s *Store) giveWay(ctx context.Context) {
	const every, pause = 400 * time.Millisecond, 110 * time.Millisecond
	s.gaveWay.CompareAndSwap(0, time.Now().UnixMilli()) // the first call has kept nobody waiting
	if !s.pollsLock || time.Since(time.UnixMilli(s.gaveWay.Load())) < every {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	s.gaveWay.Store(time.Now().UnixMilli())
}

// addAccounts inserts what is in nobody's way, and explains the rest. What can't
// be explained was in the way of an account that is gone again, and is tried anew.
func (s *Store) addAccounts(ctx context.Context, tx bun.Tx, batch []accounts.Account) ([]moving.Outcome, error) {
	outcomes := make([]moving.Outcome, len(batch))
	rest := make([]int, len(batch))
	for i := range rest {
		rest[i] = i
	}
	for range insertTries {
		if err := s.insertAccounts(ctx, tx, batch, rest, outcomes); err != nil {
			return nil, err
		}
		rest = unsettled(outcomes)
		if err := conflicts(ctx, tx, batch, rest, outcomes); err != nil {
			return nil, err
		}
		if rest = unsettled(outcomes); len(rest) == 0 {
			return outcomes, nil
		}
	}
	return nil, errors.New("the values in conflict keep changing")
}

func unsettled(outcomes []moving.Outcome) (rest []int) {
	for i, o := range outcomes {
		if o == (moving.Outcome{}) {
			rest = append(rest, i)
		}
	}
	return rest
}

// Note returns the payload of a note, see moving.Store. Notes are jobs that no
// worker claims.
func (s *Store) Note(ctx context.Context, kind outbox.Kind) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var payloads [][]byte
	err := s.read.NewRaw("SELECT payload FROM personal_jobs WHERE kind = ? ORDER BY id DESC LIMIT 1", kind).Scan(ctx, &payloads)
	if err != nil || len(payloads) == 0 {
		return nil, fault(ctx, "read a note", err)
	}
	return payloads[0], nil
}

// RemoveNote removes a note, see moving.Store.
func (s *Store) RemoveNote(ctx context.Context, kind outbox.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return fault(ctx, "remove a note", removeNote(ctx, s.write, kind))
}

func removeNote(ctx context.Context, db bun.IDB, kind outbox.Kind) error {
	_, err := exec(ctx, db, "DELETE FROM personal_jobs WHERE kind = ?", kind)
	return err
}
