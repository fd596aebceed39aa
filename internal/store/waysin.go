package store

import (
	"context"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// wayIn names other ways into an account: all, or one.
type wayIn struct {
	all      bool
	passkey  int64
	identity personal.Identity
}

// removeOtherWaysIn removes other ways into a locked account, ends the sessions that they began,
// voids the proofs that they gave, and drops what proofs have started, which may become a way in. Of
// identities it ends every session that the host has opened. It returns what was removed and what is left.
func removeOtherWaysIn(ctx context.Context, tx bun.Tx, accountID int64, which wayIn) (removed, left accounts.OtherWays, err error) {
	left, err = otherWays(ctx, tx, accountID)
	if err != nil {
		return removed, left, err
	}
	issuer, subject := []byte(which.identity.Issuer), []byte(which.identity.Subject)
	var ids []int64
	err = tx.NewRaw("SELECT id FROM personal_passkeys WHERE account_id = ? AND (? OR id = ?)", accountID, which.all, which.passkey).Scan(ctx, &ids)
	if err != nil {
		return removed, left, err
	}
	const identities = "FROM personal_identities WHERE account_id = ? AND (? OR issuer = ? AND subject = ?)"
	err = tx.NewRaw("SELECT count(*) "+identities, accountID, which.all, issuer, subject).Scan(ctx, &removed.Identities)
	removed.Passkeys = len(ids)
	if err != nil || removed.None() && !which.all {
		return removed, left, err
	}
	left.Passkeys -= removed.Passkeys
	left.Identities -= removed.Identities
	passkeys := bun.List(append(ids, 0)) // of none: a list must not be empty
	// Sessions first, then what depends on them: Prune locks them in this order, too.
	return removed, left, execAll(ctx, tx, append([]schema.QueryAppender{
		tx.NewRaw("DELETE FROM personal_sessions WHERE account_id = ? AND (passkey_id IN (?) OR ? AND method NOT IN (?))",
			accountID, passkeys, removed.Identities > 0, bun.List(personal.ModuleMethods())),
		tx.NewRaw("UPDATE personal_sessions SET proof = NULL WHERE account_id = ? AND proof_passkey IN (?)", accountID, passkeys),
		tx.NewRaw("UPDATE personal_sessions SET proof = NULL WHERE account_id = ? AND ? AND proof_identity IS NOT NULL", accountID, removed.Identities > 0),
		tx.NewRaw("DELETE FROM personal_passkeys WHERE id IN (?)", passkeys),
		tx.NewRaw("DELETE "+identities, accountID, which.all, issuer, subject),
	}, dropStarted(tx, accountID)...)...)
}

// removeWaysButLast is removeOtherWaysIn, and returns accounts.ErrLastWayIn if that leaves no way
// into the account.
func removeWaysButLast(ctx context.Context, tx bun.Tx, a accounts.Account, which wayIn) (removed, left accounts.OtherWays, err error) {
	removed, left, err = removeOtherWaysIn(ctx, tx, a.ID, which)
	if err == nil && !removed.None() && !a.KeepsWayIn(left) {
		err = accounts.ErrLastWayIn
	}
	return removed, left, err
}

// otherWays counts the other ways into a locked account.
func otherWays(ctx context.Context, tx bun.Tx, accountID int64) (ways accounts.OtherWays, err error) {
	err = tx.NewRaw(`SELECT (SELECT count(*) FROM personal_passkeys WHERE account_id = ?0),
			(SELECT count(*) FROM personal_identities WHERE account_id = ?0)`, accountID).Scan(ctx, &ways.Passkeys, &ways.Identities)
	return ways, err
}

// dropStarted returns the statements that drop what proofs have started in the sessions of an account and
// not finished: adding a passkey, and switching a second factor on.
func dropStarted(tx bun.Tx, accountID int64) []schema.QueryAppender {
	const ofAccount = " WHERE session_id IN (SELECT id FROM personal_sessions WHERE account_id = ?)"
	return []schema.QueryAppender{
		tx.NewRaw("DELETE FROM personal_passkey_ceremonies"+ofAccount, accountID),
		tx.NewRaw("DELETE FROM personal_pending_factors"+ofAccount, accountID),
	}
}

// RemoveOtherWaysIn implements accounts.WayInStore.
func (s *Store) RemoveOtherWaysIn(
	ctx context.Context, accountID int64, jobs func(before accounts.Account, removed accounts.OtherWays) []accounts.NewJob,
) error {
	return s.inTx(ctx, "remove other ways in", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, accountID)
		if err != nil {
			return err
		}
		removed, _, err := removeWaysButLast(ctx, tx, row.account(), wayIn{all: true})
		if err != nil || removed.None() {
			return err
		}
		return s.addJobs(ctx, tx, jobs(row.account(), removed))
	})
}

// ResetAccess implements accounts.WayInStore. No session survives it, for the reason given at
// ReplacePassword.
func (s *Store) ResetAccess(ctx context.Context, id int64, email accounts.Email, jobs func(before accounts.Account) []accounts.NewJob) error {
	return s.inTx(ctx, "reset the access to an account", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.setEmail(ctx, tx, row.account(), email, false); err != nil {
			return err
		}
		_, err = exec(ctx, tx, `UPDATE personal_accounts SET password_hash = ?, disabled = FALSE, erase_at = 0 WHERE id = ?`,
			password.AwaitsRecovery, id)
		if err != nil {
			return err
		}
		if err := revokeAll(ctx, tx, id, 0); err != nil {
			return err
		}
		if err := s.removeFactor(ctx, tx, id, 1); err != nil {
			return err
		}
		if _, _, err := removeOtherWaysIn(ctx, tx, id, wayIn{all: true}); err != nil {
			return err
		}
		if err := forgetRefusedCodes(ctx, tx, id); err != nil {
			return err
		}
		if _, err := exec(ctx, tx, "DELETE FROM personal_known_addresses WHERE account_id = ?", id); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(row.account()))
	})
}
