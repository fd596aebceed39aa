package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// useCode uses up a code in the transaction that it authorises, which has locked the account. Of
// two transactions with the same code, one waits for the other's lock and then finds the code used.
// A proof must still be there; its credential version is that of the transaction.
func (s *Store) useCode(ctx context.Context, tx bun.Tx, accountID int64, code accounts.CodeUse) error {
	switch {
	case code.Step != 0:
		return execOne(ctx, tx, accounts.ErrCodeUsed, `UPDATE personal_accounts SET two_factor_step = ?0
			WHERE id = ?1 AND two_factor_step < ?0 AND two_factor_secret IS NOT NULL`, code.Step, accountID)
	case code.Recovery != [32]byte{}:
		err := execOne(ctx, tx, accounts.ErrCodeUsed,
			"DELETE FROM personal_recovery_codes WHERE account_id = ? AND digest = ?", accountID, code.Recovery[:])
		if err != nil {
			return err
		}
		return forgetRefusedCodes(ctx, tx, accountID)
	case code.Proof != accounts.ProofUse{}:
		return s.findProof(ctx, tx, accountID, code.Proof)
	}
	return nil
}

// CountRefusedCode implements accounts.CodeStore. Concurrent calls for one account wait for
// each other.
func (s *Store) CountRefusedCode(ctx context.Context, accountID int64, r accounts.CodeRules, notice func() []accounts.NewJob) error {
	return s.inTx(ctx, "count a refused code", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		now := s.Now() // the lock may have taken long
		var earlier int
		var blocks, noticed bool
		err := tx.NewRaw(`SELECT count(*), count(CASE WHEN blocks THEN 1 END) > 0, count(CASE WHEN noticed AND refused > ? THEN 1 END) > 0
			FROM personal_refused_codes WHERE account_id = ? AND refused > ? AND refused <= ?`,
			at(now.Add(-r.NoticeEvery)), accountID, at(now.Add(-r.Window)), s.latest()).Scan(ctx, &earlier, &blocks, &noticed)
		if err != nil {
			return err
		}
		var jobs []accounts.NewJob
		tell := earlier+1 >= r.Notice && !noticed
		if tell {
			jobs = notice()
		}
		_, err = exec(ctx, tx, "INSERT INTO personal_refused_codes (account_id, refused, blocks, noticed) VALUES (?, ?, ?, ?)",
			accountID, at(now), blocks || earlier+1 >= r.Block, tell)
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// CodesBlockedUntil implements accounts.CodeStore.
func (s *Store) CodesBlockedUntil(ctx context.Context, accountID int64, r accounts.CodeRules) (time.Time, error) {
	var rows []struct {
		Refused micros
		Blocks  bool
	}
	err := s.scan(ctx, "look for a block of codes", raw(s.read, `SELECT refused, blocks FROM personal_refused_codes
		WHERE account_id = ? AND refused > ? AND refused <= ? ORDER BY refused DESC, blocks DESC LIMIT 1`,
		accountID, at(s.Now().Add(-r.Window)), s.latest()), &rows)
	if err != nil || len(rows) == 0 || !rows[0].Blocks {
		return time.Time{}, err
	}
	return rows[0].Refused.time().Add(r.Window), nil
}

// forgetRefusedCodes sets the number of refused codes of a locked account to 0.
func forgetRefusedCodes(ctx context.Context, tx bun.Tx, accountID int64) error {
	_, err := exec(ctx, tx, "DELETE FROM personal_refused_codes WHERE account_id = ?", accountID)
	return err
}

// findCode returns the error that useCode would return for a locked account, and leaves
// the code unused.
func (s *Store) findCode(ctx context.Context, tx bun.Tx, account accountRow, code accounts.CodeUse) error {
	found := true
	switch {
	case code.Step != 0:
		found = account.TwoFactorSecret != nil && account.TwoFactorStep < code.Step
	case code.Recovery != [32]byte{}:
		err := tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_recovery_codes WHERE account_id = ? AND digest = ?)",
			account.ID, code.Recovery[:]).Scan(ctx, &found)
		if err != nil {
			return err
		}
	case code.Proof != accounts.ProofUse{}:
		return s.findProof(ctx, tx, account.ID, code.Proof)
	}
	if !found {
		return accounts.ErrCodeUsed
	}
	return nil
}
