package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
)

// RequestDeletion implements accounts.DeletionStore. No session survives it, for the
// reason given at ReplacePassword.
func (s *Store) RequestDeletion(ctx context.Context, accountID, credentialVersion int64, eraseAt time.Time, code accounts.CodeUse,
	jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "request a deletion", func(ctx context.Context, tx bun.Tx) error {
		err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_accounts
			SET disabled = TRUE, credential_version = credential_version + 1, erase_at = ?, updated = ?
			WHERE id = ? AND credential_version = ? AND NOT disabled`,
			at(eraseAt), at(s.Now()), accountID, credentialVersion)
		if err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := revokeAll(ctx, tx, accountID, 0); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// UndoDeletion implements accounts.DeletionStore.
func (s *Store) UndoDeletion(ctx context.Context, digest [32]byte, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "undo a deletion", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.redeem(ctx, tx, accounts.PurposeDeletion, digest)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `UPDATE personal_accounts
			SET disabled = FALSE, credential_version = credential_version + 1, erase_at = 0, updated = ? WHERE id = ?`,
			at(s.Now()), row.AccountID)
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// DueErasures implements accounts.DeletionStore. Each part of the query has an index of
// its own, which holds no other accounts; the coalesce keeps SQLite from the index of
// e-mails instead, which may hold many accounts without one. While deletion is held there
// are none.
func (s *Store) DueErasures(ctx context.Context, unverifiedBefore time.Time, after int64, n int) (ids []int64, err error) {
	if may, err := s.mayDelete(ctx); err != nil || !may {
		return nil, err
	}
	err = s.scan(ctx, "find accounts to erase", s.read.NewRaw(`SELECT id FROM (
			SELECT id FROM personal_accounts WHERE erase_at > 0 AND erase_at <= ? AND disabled
			UNION SELECT id FROM personal_accounts WHERE unverified_key IS NOT NULL AND coalesce(email_key, '') = '' AND created <= ?
		) AS due WHERE id > ? ORDER BY id LIMIT ?`, at(s.Now()), at(unverifiedBefore), after, n), &ids)
	return ids, err
}

// EraseAccount implements accounts.DeletionStore. While deletion is held none is due. It waits for no lock: the other
// transaction may be the erasure of another node, or prevent this one.
func (s *Store) EraseAccount(
	ctx context.Context, id int64, due func(accounts.Account) bool, remains func(accounts.Account, outbox.Job) []byte, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "erase an account", func(ctx context.Context, tx bun.Tx) error {
		var row accountRow
		err := tx.NewRaw("SELECT * FROM personal_accounts WHERE id = ? ?", id, s.skipLocked).Scan(ctx, &row)
		if err != nil {
			return err
		}
		if a := row.account(); s.DeletionHeld() == 0 && due(a) {
			return s.eraseLocked(ctx, tx, a, remains, jobs)
		}
		return accounts.ErrStale
	})
}
