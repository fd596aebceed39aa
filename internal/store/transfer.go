package store

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/transfer"
)

var (
	_ transfer.Store     = (*Store)(nil)
	_ transfer.Source    = (*Store)(nil)
	_ transfer.BareStore = (*Store)(nil)
)

// AddAccounts stores accounts from elsewhere, see transfer.Store. Of many calls in a
// row some take longer, so that other processes can write as well.
func (s *Store) AddAccounts(ctx context.Context, batch []accounts.Account, settle transfer.Settle) (outcomes []transfer.Outcome, err error) {
	err = s.inTx(ctx, "add accounts", func(ctx context.Context, tx bun.Tx) (err error) {
		if outcomes, err = s.addAccounts(ctx, tx, batch); err != nil {
			return err
		}
		settled := settle(outcomes)
		if err := noteFormats(ctx, tx, settled.Formats, s.Now()); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, settled.Jobs)
	})
	s.giveWay(ctx)
	return outcomes, err
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
func (s *Store) addAccounts(ctx context.Context, tx bun.Tx, batch []accounts.Account) ([]transfer.Outcome, error) {
	outcomes := make([]transfer.Outcome, len(batch))
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

func unsettled(outcomes []transfer.Outcome) (rest []int) {
	for i, o := range outcomes {
		if o == (transfer.Outcome{}) {
			rest = append(rest, i)
		}
	}
	return rest
}
