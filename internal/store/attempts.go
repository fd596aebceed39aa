package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
)

// Charge counts an attempt, see accounts.AttemptStore. It looks first without a
// lock: what is refused then is refused, and a flood of such attempts does not
// keep others from writing.
func (s *Store) Charge(ctx context.Context, charges []throttle.Charge, now time.Time, jobs ...accounts.NewJob) (wait time.Duration, err error) {
	if len(charges) == 0 && len(jobs) == 0 {
		return 0, nil
	}
	if wait, err := s.Wait(ctx, charges, now); err != nil || wait > 0 {
		return wait, err
	}
	err = s.inTx(ctx, "count an attempt", func(ctx context.Context, tx bun.Tx) error {
		if err := chargeAll(ctx, tx, charges, now); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	var refused *accounts.WaitError
	if errors.As(err, &refused) {
		return refused.Wait, nil
	}
	return 0, err
}

// chargeAll counts one attempt against every key that is not only looked at, or
// returns *accounts.WaitError and is to be rolled back.
func chargeAll(ctx context.Context, tx bun.Tx, charges []throttle.Charge, now time.Time) error {
	var wait time.Duration
	for _, c := range inOrder(charges) {
		if c.Look {
			continue
		}
		w, err := charge(ctx, tx, c, now)
		if err != nil {
			return err
		}
		wait = max(wait, w)
	}
	if wait > 0 {
		return &accounts.WaitError{Wait: wait}
	}
	return nil
}

// Wait is the wait that stands in the way of the charges as things are, see
// accounts.AttemptStore.
func (s *Store) Wait(ctx context.Context, charges []throttle.Charge, now time.Time) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var keys [][]byte
	for i := range charges {
		keys = append(keys, charges[i].Key[:])
	}
	var rows []struct {
		Key []byte
		Tat micros
	}
	err = s.read.NewRaw("SELECT key, tat FROM personal_throttle WHERE key IN (?)", bun.List(keys)).Scan(ctx, &rows)
	if err != nil {
		return 0, fault(ctx, "look at earlier attempts", err)
	}
	tats := map[[32]byte]time.Time{}
	for _, row := range rows {
		tats[[32]byte(row.Key)] = row.Tat.time()
	}
	for _, c := range charges {
		next, w := c.Limit.Take(tats[c.Key], now)
		tats[c.Key], wait = next, max(wait, w)
	}
	return wait, nil
}

// charge is throttle.Limit.Take in one statement, which also locks the row. A
// charge that goes too far returns the wait and is to be rolled back.
func charge(ctx context.Context, tx bun.Tx, c throttle.Charge, now time.Time) (wait time.Duration, err error) {
	every, whole := c.Limit.Every, time.Duration(c.Limit.Burst)*c.Limit.Every
	var next micros
	err = tx.NewRaw(`INSERT INTO personal_throttle (key, tat) VALUES (?0, ?1 + ?2) ON CONFLICT (key) DO UPDATE
		SET tat = CASE WHEN personal_throttle.tat < ?1 THEN ?1 WHEN personal_throttle.tat > ?3 THEN ?4
			ELSE personal_throttle.tat END + ?2 RETURNING tat`,
		c.Key[:], at(now), every.Microseconds(), at(now.Add(whole+throttle.Slack)), at(now.Add(whole-every))).Scan(ctx, &next)
	return max(0, next.time().Sub(now)-whole), err
}

// Refund gives an attempt back, see accounts.AttemptStore. A key that counts
// nothing any more goes, so that attempts which cost nobody anything leave nothing.
func (s *Store) Refund(ctx context.Context, charges []throttle.Charge) error {
	return s.inTx(ctx, "give an attempt back", func(ctx context.Context, tx bun.Tx) error {
		now := at(s.Now())
		for _, c := range inOrder(charges) {
			every := c.Limit.Every.Microseconds()
			if _, err := exec(ctx, tx, "UPDATE personal_throttle SET tat = tat - ? WHERE key = ?", every, c.Key[:]); err != nil {
				return err
			}
			if _, err := exec(ctx, tx, "DELETE FROM personal_throttle WHERE key = ? AND tat <= ?", c.Key[:], now); err != nil {
				return err
			}
		}
		return nil
	})
}

// inOrder sorts by key: who locks rows in one order never waits in a circle.
func inOrder(charges []throttle.Charge) []throttle.Charge {
	return slices.SortedFunc(slices.Values(charges), func(a, b throttle.Charge) int {
		return bytes.Compare(a.Key[:], b.Key[:])
	})
}
