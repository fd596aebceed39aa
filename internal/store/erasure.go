package store

import (
	"context"
	"errors"
	"log/slog"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// errLogInUse is why the log of writes keeps what was deleted for now.
var errLogInUse = errors.New("somebody is reading the database")

// DeleteAccount removes an account, see accounts.AdministrationStore. What
// refers to it goes with it by the rules of the schema, but for audit lines and
// jobs. The lock keeps others from adding such meanwhile. What the log of writes
// still holds of it goes at once, or if that fails, with the next Prune.
func (s *Store) DeleteAccount(ctx context.Context, id int64, e accounts.Erasure, jobs ...accounts.NewJob) error {
	err := s.inTx(ctx, "delete an account", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		account, err := row.account()
		if err != nil {
			return err
		}
		for _, erase := range []func(context.Context, bun.Tx, accounts.Account, accounts.Erasure) error{anonymise, strip, forget} {
			if err := erase(ctx, tx, account, e); err != nil {
				return err
			}
		}
		if err := s.addJobs(ctx, tx, jobs); err != nil { // the last of an account that is there
			return err
		}
		_, err = exec(ctx, tx, "DELETE FROM personal_accounts WHERE id = ?", id)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.emptyLog(ctx); err != nil { // the account is gone all the same
		s.log.WarnContext(ctx, "a deleted account is still in the database's log of writes", slog.Any("error", err))
	}
	return nil
}

// anonymise takes from the account's audit lines whose they are, and where he was.
func anonymise(ctx context.Context, tx bun.Tx, a accounts.Account, _ accounts.Erasure) error {
	_, err := exec(ctx, tx, "UPDATE personal_audit SET account_id = NULL, address = '', request_id = '' WHERE account_id = ?", a.ID)
	return err
}

// strip puts in the place of the account's jobs what is to be left of them.
// It goes through them in the order in which FinishJob locks them.
func strip(ctx context.Context, tx bun.Tx, a accounts.Account, e accounts.Erasure) error {
	var rows []jobRow
	if err := tx.NewSelect().Model(&rows).Where("account_id = ?", a.ID).Order("id").Scan(ctx); err != nil {
		return err
	}
	for i := range rows {
		left := e.Left(rows[i].job())
		if left == nil {
			if err := removeJob(ctx, tx, rows[i].ID); err != nil {
				return err
			}
			continue
		}
		if _, err := exec(ctx, tx, "UPDATE personal_jobs SET payload = ? WHERE id = ?", left, rows[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// forget removes jobs that are nobody's yet but mean the account.
func forget(ctx context.Context, tx bun.Tx, a accounts.Account, e accounts.Erasure) error {
	var rows []jobRow
	if err := tx.NewSelect().Model(&rows).Where("account_id IS NULL").Where("kind = ?", e.Open).Scan(ctx); err != nil {
		return err
	}
	for i := range rows {
		if !e.Means(rows[i].job(), a) {
			continue
		}
		if err := removeJob(ctx, tx, rows[i].ID); err != nil {
			return err
		}
	}
	return nil
}

func removeJob(ctx context.Context, tx bun.Tx, id int64) error {
	_, err := exec(ctx, tx, "DELETE FROM personal_jobs WHERE id = ?", id)
	return err
}

// emptyLog takes what was deleted out of the database's log of writes, too.
func (s *Store) emptyLog(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	emptied, err := s.pools.TruncateWAL(ctx)
	if err == nil && !emptied {
		err = errLogInUse
	}
	return fault(ctx, "empty the log of writes", err)
}
