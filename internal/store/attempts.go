package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
)

// Charge implements accounts.AttemptStore. It checks the limits without a lock
// first, so that a flood of refused attempts does not block writers.
func (s *Store) Charge(ctx context.Context, charges []throttle.Charge, now time.Time, jobs ...accounts.NewJob) error {
	if len(charges) == 0 && len(jobs) == 0 {
		return nil
	}
	if err := s.CheckLimits(ctx, charges, now); err != nil {
		return err
	}
	return s.inTx(ctx, "count an attempt", func(ctx context.Context, tx bun.Tx) error {
		if err := chargeAll(ctx, tx, charges, now); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// CheckLimits implements accounts.AttemptStore.
func (s *Store) CheckLimits(ctx context.Context, charges []throttle.Charge, now time.Time) error {
	tats, err := s.earlier(ctx, charges)
	if err != nil {
		return err
	}
	var refused refusal
	for _, c := range charges {
		next, wait := c.Limit.Take(tats[c.Key], now)
		tats[c.Key] = next
		refused.by(c.Limit, wait)
	}
	return refused.err()
}

// LimitWaits implements accounts.ExplainStore.
func (s *Store) LimitWaits(ctx context.Context, charges []throttle.Charge, now time.Time) ([]time.Duration, error) {
	tats, err := s.earlier(ctx, charges)
	return convert(charges, func(c *throttle.Charge) time.Duration {
		_, wait := c.Limit.Take(tats[c.Key], now)
		return wait
	}), err
}

// earlier returns the stored times of the keys that have one.
func (s *Store) earlier(ctx context.Context, charges []throttle.Charge) (map[[32]byte]time.Time, error) {
	if len(charges) == 0 {
		return nil, nil
	}
	var rows []struct {
		Key []byte
		Tat micros
	}
	err := s.scan(ctx, "look at earlier attempts",
		s.read.NewRaw("SELECT key, tat FROM personal_throttle WHERE key IN (?)", bun.List(keysOf(charges))), &rows)
	tats := map[[32]byte]time.Time{}
	for _, row := range rows {
		tats[[32]byte(row.Key)] = row.Tat.time()
	}
	return tats, err
}

func keysOf(charges []throttle.Charge) [][]byte {
	return convert(charges, func(c *throttle.Charge) []byte { return c.Key[:] })
}

// LiftLimits implements accounts.LimitStore. It locks the keys in the order in which
// charges do.
func (s *Store) LiftLimits(ctx context.Context, accountID int64, charges []throttle.Charge, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "lift limits", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		if len(charges) > 0 {
			_, err := exec(ctx, tx, `WITH held AS MATERIALIZED (SELECT key FROM personal_throttle WHERE key IN (?) ORDER BY key ?)
				DELETE FROM personal_throttle WHERE key IN (SELECT key FROM held)`, bun.List(keysOf(charges)), s.forUpdate)
			if err != nil {
				return err
			}
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// refusal is the limit with the longest wait.
type refusal accounts.WaitError

// by notes the wait for a limit; 0 if it allows the attempt.
func (r *refusal) by(l throttle.Limit, wait time.Duration) {
	if wait > r.Wait {
		*r = refusal{Wait: wait, Limit: l.Name}
	}
}

func (r refusal) err() error {
	if r.Wait == 0 {
		return nil
	}
	return (*accounts.WaitError)(&r)
}

// chargeAll counts one attempt against every key that is not only looked at. If a
// limit is used up it returns *accounts.WaitError, and the transaction must be
// rolled back.
func chargeAll(ctx context.Context, tx bun.Tx, charges []throttle.Charge, now time.Time) error {
	var refused refusal
	for _, c := range inOrder(charges) {
		if c.Look {
			continue
		}
		w, err := charge(ctx, tx, c, now)
		if err != nil {
			return err
		}
		refused.by(c.Limit, w)
	}
	return refused.err()
}

// charge is throttle.Limit.Take as one statement, which also locks the row. It
// stores the attempt even if the limit is used up, and then returns the wait.
func charge(ctx context.Context, tx bun.Tx, c throttle.Charge, now time.Time) (wait time.Duration, err error) {
	every, whole := c.Limit.Every, time.Duration(c.Limit.Burst)*c.Limit.Every
	var next micros
	err = tx.NewRaw(`INSERT INTO personal_throttle (key, tat) VALUES (?0, ?1 + ?2) ON CONFLICT (key) DO UPDATE
		SET tat = CASE WHEN personal_throttle.tat < ?1 THEN ?1 WHEN personal_throttle.tat > ?3 THEN ?4
			ELSE personal_throttle.tat END + ?2 RETURNING tat`,
		c.Key[:], at(now), every.Microseconds(), at(now.Add(whole+throttle.Slack)), at(now.Add(whole-every))).Scan(ctx, &next)
	return max(0, next.time().Sub(now)-whole), err
}

// Refund implements accounts.AttemptStore. It removes a key without attempts, so
// that refunded attempts leave no rows.
func (s *Store) Refund(ctx context.Context, charges []throttle.Charge) error {
	return s.inTx(ctx, "refund an attempt", func(ctx context.Context, tx bun.Tx) error {
		now := at(s.Now())
		var writes []schema.QueryAppender
		for _, c := range inOrder(charges) {
			writes = append(writes,
				tx.NewRaw("UPDATE personal_throttle SET tat = tat - ? WHERE key = ?", c.Limit.Every.Microseconds(), c.Key[:]),
				tx.NewRaw("DELETE FROM personal_throttle WHERE key = ? AND tat <= ?", c.Key[:], now))
		}
		return execAll(ctx, tx, writes...)
	})
}

// inOrder sorts by key: transactions that lock rows in the same order cannot
// deadlock.
func inOrder(charges []throttle.Charge) []throttle.Charge {
	return slices.SortedFunc(slices.Values(charges), func(a, b throttle.Charge) int {
		return bytes.Compare(a.Key[:], b.Key[:])
	})
}

// IsKnownAddress implements accounts.AttemptStore.
func (s *Store) IsKnownAddress(ctx context.Context, q accounts.AccountQuery, address string, since time.Time) (known bool, err error) {
	err = s.scan(ctx, "look for a known address", s.read.NewRaw(`SELECT EXISTS (SELECT 1 FROM personal_places WHERE place = ? AND seen > ?
			AND account_id IN (SELECT a.id FROM personal_accounts a WHERE ?))`, address, at(since), matches(q)), &known)
	return known, err
}

// addressAccuracy is how exact the time of a known address is: a further sign-in from
// it within this time writes nothing.
const addressAccuracy = 24 * time.Hour

// freshAddress finds an account's known address that was stored after a time.
const freshAddress = "SELECT 1 FROM personal_places WHERE account_id = ? AND place = ? AND seen > ?"

// AddKnownAddress implements accounts.AttemptStore.
func (s *Store) AddKnownAddress(ctx context.Context, accountID int64, address string, limit int) error {
	now := s.Now()
	var fresh bool
	err := s.scan(ctx, "look for a known address", s.read.NewRaw(
		"SELECT EXISTS ("+freshAddress+")", accountID, address, at(now.Add(-addressAccuracy))), &fresh)
	if err != nil || fresh {
		return err
	}
	return s.inTx(ctx, "store a known address", func(ctx context.Context, tx bun.Tx) error {
		_, err := s.lockAccount(ctx, tx, accountID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return execAll(ctx, tx, addKnownAddress(tx, accountID, address, limit, now)...)
	})
}

// addKnownAddress returns the statements that store a known address of a locked account.
func addKnownAddress(tx bun.Tx, accountID int64, address string, limit int, now time.Time) []schema.QueryAppender {
	return []schema.QueryAppender{
		tx.NewRaw(`INSERT INTO personal_places (account_id, place, seen) VALUES (?, ?, ?)
			ON CONFLICT (account_id, place) DO UPDATE SET seen = excluded.seen`, accountID, address, at(now)),
		tx.NewRaw(`DELETE FROM personal_places WHERE account_id = ? AND place NOT IN (
			SELECT place FROM personal_places WHERE account_id = ? ORDER BY seen DESC, place LIMIT ?)`,
			accountID, accountID, limit),
	}
}
