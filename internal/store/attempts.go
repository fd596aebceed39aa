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
	"github.com/cms-personal/personal/shared/personal"
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
	var rows []tatRow
	err := s.scan(ctx, "look at earlier attempts", selectTATs(s.read, charges), &rows)
	return tatsOf(rows), err
}

type tatRow struct {
	Key []byte
	Tat micros
}

func selectTATs(db bun.IDB, charges []throttle.Charge) *bun.RawQuery {
	return raw(db, "SELECT key, tat FROM personal_throttle WHERE key IN (?)", keysOf(charges))
}

func tatsOf(rows []tatRow) map[[32]byte]time.Time {
	tats := map[[32]byte]time.Time{}
	for _, row := range rows {
		tats[[32]byte(row.Key)] = row.Tat.time()
	}
	return tats
}

func keysOf(charges []throttle.Charge) keyList {
	return convert(charges, func(c *throttle.Charge) []byte { return c.Key[:] })
}

// LiftLimits implements accounts.LimitStore. It locks the keys in the order in which
// charges do.
func (s *Store) LiftLimits(ctx context.Context, accountID int64, charges []throttle.Charge, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "lift limits", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		if err := forgetRefusedCodes(ctx, tx, accountID); err != nil {
			return err
		}
		if len(charges) > 0 {
			_, err := exec(ctx, tx, `WITH held AS MATERIALIZED (SELECT key FROM personal_throttle WHERE key IN (?) ORDER BY key ?)
				DELETE FROM personal_throttle WHERE key IN (SELECT key FROM held)`, keysOf(charges), s.forUpdate)
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
		if c.Peek {
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
	err = raw(tx, `INSERT INTO personal_throttle (key, tat) VALUES (?0, ?1 + ?2) ON CONFLICT (key) DO UPDATE
		SET tat = CASE WHEN personal_throttle.tat BETWEEN ?1 AND ?3 THEN personal_throttle.tat ELSE ?1 END + ?2 RETURNING tat`,
		c.Key[:], at(now), every.Microseconds(), at(now.Add(whole+throttle.Slack))).Scan(ctx, &next)
	return c.Limit.Wait(next.time(), now), err
}

// Refund implements accounts.AttemptStore. It removes a key without attempts, so
// that refunded attempts leave no rows.
func (s *Store) Refund(ctx context.Context, charges []throttle.Charge) error {
	return s.inTx(ctx, "refund an attempt", func(ctx context.Context, tx bun.Tx) error {
		now := at(s.Now())
		var writes []schema.QueryAppender
		for _, c := range inOrder(charges) {
			writes = append(writes, tx.NewRaw("UPDATE personal_throttle SET tat = tat - ? WHERE key = ?", c.Limit.Every.Microseconds(), c.Key[:]))
			if s.DeletionHeld() == 0 { // else Prune does it
				writes = append(writes, tx.NewRaw("DELETE FROM personal_throttle WHERE key = ? AND tat <= ?", c.Key[:], now))
			}
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

// KnownAddress implements accounts.KnownAddressStore.
func (s *Store) KnownAddress(ctx context.Context, q accounts.AccountQuery, address string, since time.Time) (accounts.KnownAddress, error) {
	var rows []struct {
		Since       micros
		Valid, Only bool
	}
	err := s.scan(ctx, "look for a known address", raw(s.read, `SELECT p.since, p.codes_only AS only,
			coalesce(`+validAddress+`, FALSE) AS valid
		FROM personal_known_addresses p JOIN personal_accounts a ON a.id = p.account_id WHERE p.address = ? AND p.seen > ? AND p.seen <= ? AND `+matches,
		append([]any{address, at(since), s.latest()}, matchedBy(q)...)...), &rows)
	if err != nil || len(rows) == 0 {
		return accounts.KnownAddress{}, err
	}
	return accounts.KnownAddress{Since: rows[0].Since.time(), Full: rows[0].Valid && !rows[0].Only, Codes: rows[0].Valid}, nil
}

// validAddress is the condition that no credentials of an account a have changed since the
// last sign-in that counts at its known address p.
const validAddress = "p.credential_version = a.credential_version AND p.email_key = coalesce(a.email_key, '')"

// addressAccuracy is how exact the time of a known address is: a further sign-in from
// it within this time writes nothing.
const addressAccuracy = 24 * time.Hour

// AddKnownAddress implements accounts.KnownAddressStore.
func (s *Store) AddKnownAddress(ctx context.Context, accountID int64, known accounts.KnownAt, full bool) error {
	now := s.Now()
	var fresh bool
	err := s.scan(ctx, "look for a known address", raw(s.read, `SELECT EXISTS (SELECT 1 FROM personal_known_addresses p
			JOIN personal_accounts a ON a.id = p.account_id WHERE a.id = ? AND p.address = ? AND p.seen > ? AND p.seen <= ? AND (NOT ? OR NOT p.codes_only AND `+validAddress+`))`,
		accountID, known.Address, at(now.Add(-addressAccuracy)), s.latest(), full), &fresh)
	if err != nil || fresh {
		return err
	}
	return s.inTx(ctx, "store a known address", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, accountID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return execAll(ctx, tx, s.addKnownAddress(tx, row, known, full, now)...)
	})
}

// addKnownAddress returns the statements that store a known address of a locked account.
// An address that had expired, or whose last sign-in is false, is known since now.
func (s *Store) addKnownAddress(tx bun.Tx, a accountRow, known accounts.KnownAt, full bool, now time.Time) []schema.QueryAppender {
	var version *int64
	if full {
		version = &a.CredentialVersion
	}
	return []schema.QueryAppender{
		tx.NewRaw(`INSERT INTO personal_known_addresses (account_id, address, seen, since, credential_version, email_key) VALUES (?0, ?1, ?2, ?2, ?3, ?4)
			ON CONFLICT (account_id, address) DO UPDATE SET seen = excluded.seen,
				since = CASE WHEN personal_known_addresses.seen > ?5 AND personal_known_addresses.seen <= ?7 THEN personal_known_addresses.since ELSE excluded.since END,
				credential_version = CASE WHEN ?6 THEN excluded.credential_version
					WHEN personal_known_addresses.seen > ?5 AND personal_known_addresses.seen <= ?7 THEN personal_known_addresses.credential_version END,
				email_key = CASE WHEN ?6 THEN excluded.email_key ELSE personal_known_addresses.email_key END,
				codes_only = CASE WHEN ?6 THEN FALSE ELSE personal_known_addresses.codes_only END`,
			a.ID, known.Address, at(now), version, a.EmailKey, at(known.After), full, s.latest()),
		tx.NewRaw(`DELETE FROM personal_known_addresses WHERE account_id = ? AND address NOT IN (
			SELECT address FROM personal_known_addresses WHERE account_id = ? ORDER BY CASE WHEN seen > ? THEN 0 ELSE seen END DESC, address LIMIT ?)`,
			a.ID, a.ID, s.latest(), personal.MaxKnownAddresses),
	}
}

// renewAddress keeps what an address is to a locked account whose credential version was
// raised by one; for codes alone if only is set. An address that has expired, or has a false time, stays so.
func (s *Store) renewAddress(ctx context.Context, tx bun.Tx, accountID int64, known accounts.KnownAt, only bool) error {
	if known.Address == "" {
		return nil
	}
	_, err := exec(ctx, tx, `UPDATE personal_known_addresses SET credential_version = credential_version + 1, codes_only = (codes_only OR ?)
		WHERE account_id = ? AND address = ? AND EXISTS (SELECT 1 FROM personal_accounts a WHERE a.id = personal_known_addresses.account_id
			AND a.credential_version = personal_known_addresses.credential_version + 1 AND coalesce(a.email_key, '') = personal_known_addresses.email_key)`,
		only, accountID, known.Address)
	return err
}

// voidAddresses returns the statement after which no address of the account is fully known.
func voidAddresses(tx bun.Tx, accountID int64) schema.QueryAppender {
	return tx.NewRaw("UPDATE personal_known_addresses SET credential_version = NULL WHERE account_id = ? AND credential_version IS NOT NULL", accountID)
}
