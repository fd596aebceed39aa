package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
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
			FROM personal_refused_codes WHERE account_id = ? AND refused > ?`,
			at(now.Add(-r.NoticeEvery)), accountID, at(now.Add(-r.Window))).Scan(ctx, &earlier, &blocks, &noticed)
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
		WHERE account_id = ? AND refused > ? ORDER BY refused DESC, blocks DESC LIMIT 1`, accountID, at(s.Now().Add(-r.Window))), &rows)
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

// SetPendingFactor implements accounts.TwoFactorStore.
func (s *Store) SetPendingFactor(ctx context.Context, p accounts.PendingFactor) error {
	return s.inTx(ctx, "store a pending second factor", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, p.AccountID, p.CredentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, p.AccountID, accounts.CodeUse{Proof: p.Proof}); err != nil {
			return err
		}
		return execOne(ctx, tx, accounts.ErrStale, `INSERT INTO personal_pending_factors (session_id, credential_version, secret, secret_key, created)
			SELECT s.id, ?, ?, ?, ? FROM (SELECT id FROM personal_sessions WHERE id = ? AND account_id = ? ?) AS s WHERE TRUE
			ON CONFLICT (session_id) DO UPDATE SET credential_version = excluded.credential_version,
				secret = excluded.secret, secret_key = excluded.secret_key, created = excluded.created`,
			p.CredentialVersion, p.Secret.Data, p.Secret.Key, at(s.Now()), p.SessionID, p.AccountID, s.keep)
	})
}

// lockCredentials reads and locks an account. ErrStale if it has another credential version, is
// disabled, or does not exist.
func (s *Store) lockCredentials(ctx context.Context, tx bun.Tx, accountID, credentialVersion int64) (accountRow, error) {
	row, err := s.lockAccount(ctx, tx, accountID)
	if err != nil {
		return row, staleIfMissing(err)
	}
	if row.CredentialVersion != credentialVersion || row.Disabled {
		return row, accounts.ErrStale
	}
	return row, nil
}

// PendingFactor implements accounts.TwoFactorStore.
func (s *Store) PendingFactor(ctx context.Context, sessionID, credentialVersion int64, after time.Time) (secret accounts.Sealed,
	err error) {
	err = s.scan(ctx, "find a pending second factor", s.read.NewRaw(`SELECT secret_key, secret FROM personal_pending_factors
		WHERE session_id = ? AND credential_version = ? AND created > ?`, sessionID, credentialVersion, at(after)), &secret.Key, &secret.Data)
	return secret, err
}

// EnableTwoFactor implements accounts.TwoFactorStore. No other session survives it, for
// the reason given at ReplacePassword.
func (s *Store) EnableTwoFactor(
	ctx context.Context, p accounts.PendingFactor, step int64, recoveryCodes [][32]byte, keep accounts.KeptSession, jobs ...accounts.NewJob,
) error {
	return s.inTxOrFound(ctx, "enable a second factor", s.hasSession(keep.Selector), func(ctx context.Context, tx bun.Tx) error {
		err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_accounts SET two_factor_secret = ?, two_factor_key = ?, two_factor_step = ?,
				credential_version = credential_version + 1, updated = ?
			WHERE id = ? AND credential_version = ? AND NOT disabled AND two_factor_secret IS NULL`,
			p.Secret.Data, p.Secret.Key, step, at(s.Now()), p.AccountID, p.CredentialVersion)
		if err != nil {
			return err
		}
		// Sessions first, then what depends on them: Prune locks them in this order, too.
		if err := keepOnly(ctx, tx, p.AccountID, keep); err != nil {
			return err
		}
		err = execOne(ctx, tx, accounts.ErrStale, "DELETE FROM personal_pending_factors WHERE session_id = ? AND credential_version = ? AND secret = ?",
			p.SessionID, p.CredentialVersion, p.Secret.Data)
		if err != nil {
			return err
		}
		// An older version may have switched an earlier factor off.
		if err := execAll(ctx, tx, askForCodes(tx, p.AccountID)...); err != nil {
			return err
		}
		return s.replaceRecoveryCodes(ctx, tx, p.AccountID, recoveryCodes, jobs)
	})
}

// replaceRecoveryCodes also stores the jobs. The account is locked.
func (s *Store) replaceRecoveryCodes(ctx context.Context, tx bun.Tx, accountID int64, digests [][32]byte, jobs []accounts.NewJob) error {
	writes := []schema.QueryAppender{removeRecoveryCodes(tx, accountID)}
	for i := range digests {
		writes = append(writes, addRecoveryCode(tx, accountID, digests[i]))
	}
	if err := execAll(ctx, tx, writes...); err != nil {
		return err
	}
	return s.addJobs(ctx, tx, jobs)
}

func addRecoveryCode(tx bun.Tx, accountID int64, digest [32]byte) schema.QueryAppender {
	return tx.NewRaw("INSERT INTO personal_recovery_codes (account_id, digest) VALUES (?, ?)", accountID, digest[:])
}

func removeRecoveryCodes(tx bun.Tx, accountID int64) schema.QueryAppender {
	return tx.NewRaw("DELETE FROM personal_recovery_codes WHERE account_id = ?", accountID)
}

// ReplaceRecoveryCodes implements accounts.TwoFactorStore.
func (s *Store) ReplaceRecoveryCodes(
	ctx context.Context, accountID, credentialVersion int64, code accounts.CodeUse, recoveryCodes [][32]byte, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "replace recovery codes", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, credentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		return s.replaceRecoveryCodes(ctx, tx, accountID, recoveryCodes, jobs)
	})
}

// RemoveOwnTwoFactor implements accounts.TwoFactorStore.
func (s *Store) RemoveOwnTwoFactor(
	ctx context.Context, accountID, credentialVersion int64, keep accounts.KeptSession, code accounts.CodeUse, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "end a second factor", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, credentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := s.removeFactor(ctx, tx, accountID, 1); err != nil {
			return err
		}
		if err := keepOnly(ctx, tx, accountID, keep); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// removeFactor removes the factor of a locked account and its recovery codes, and raises
// the credential version by the given number. No passkey and no identity counts as added with a code any more.
func (s *Store) removeFactor(ctx context.Context, tx bun.Tx, accountID, raise int64) error {
	return execAll(ctx, tx, append(askForCodes(tx, accountID),
		tx.NewRaw(`UPDATE personal_accounts SET two_factor_secret = NULL, two_factor_key = '', two_factor_step = 0,
			credential_version = credential_version + ?, updated = ? WHERE id = ?`, raise, at(s.Now()), accountID),
		removeRecoveryCodes(tx, accountID))...)
}

// RemoveTwoFactor implements accounts.TwoFactorStore.
func (s *Store) RemoveTwoFactor(
	ctx context.Context, accountID int64, keepPasskeys bool, jobs func(before accounts.Account, passkeys int) []accounts.NewJob,
) error {
	return s.inTx(ctx, "remove a second factor", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, accountID)
		if err != nil || row.TwoFactorSecret == nil {
			return err
		}
		if err := s.removeFactor(ctx, tx, accountID, 0); err != nil {
			return err
		}
		err = execAll(ctx, tx, voidAddresses(tx, accountID), tx.NewRaw("DELETE FROM personal_sessions WHERE account_id = ?", accountID))
		removed := 0
		if err == nil && !keepPasskeys {
			removed, err = removePasskeys(ctx, tx, row.account(), "TRUE")
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(row.account(), removed))
	})
}

// ChargeExport implements accounts.ExportStore.
func (s *Store) ChargeExport(
	ctx context.Context, accountID, credentialVersion int64, charges []throttle.Charge, code accounts.CodeUse, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "count an export", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, credentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := chargeAll(ctx, tx, charges, s.Now()); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// CountSecrets implements accounts.TwoFactorStore. Like SecretsOfKey it reads an index
// that holds no other accounts.
func (s *Store) CountSecrets(ctx context.Context) ([]accounts.SecretCount, error) {
	var counts []accounts.SecretCount
	err := s.scan(ctx, "count secrets by key", s.read.NewRaw(`SELECT two_factor_key AS "key", count(*) AS accounts
		FROM personal_accounts WHERE two_factor_secret IS NOT NULL GROUP BY two_factor_key ORDER BY two_factor_key`), &counts)
	return counts, err
}

// SecretKeys returns the keys that encrypt secrets of second factors, in order. It looks up
// one account of each key, while CountSecrets reads the secrets of all.
func (s *Store) SecretKeys(ctx context.Context) (keys []string, err error) {
	const next = "(SELECT two_factor_key FROM personal_accounts WHERE two_factor_secret IS NOT NULL AND two_factor_key > %s ORDER BY two_factor_key, id LIMIT 1)"
	err = s.scan(ctx, "read the keys of secrets", s.read.NewRaw("WITH RECURSIVE keys (name) AS (SELECT "+fmt.Sprintf(next, "''")+
		" UNION ALL SELECT "+fmt.Sprintf(next, "keys.name")+" FROM keys WHERE name IS NOT NULL) SELECT name FROM keys WHERE name IS NOT NULL"),
		&keys)
	return keys, err
}

// SecretsOfKey implements accounts.TwoFactorStore.
func (s *Store) SecretsOfKey(ctx context.Context, key string, after int64, n int) ([]accounts.AccountSecret, error) {
	var rows []accountRow
	err := s.scan(ctx, "find secrets of a key", s.read.NewSelect().Model(&rows).Column("id", "two_factor_secret", "two_factor_key").
		Where("a.two_factor_secret IS NOT NULL").Where("a.two_factor_key = ?", key).Where("a.id > ?", after).Order("a.id").Limit(int64(n)))
	return convert(rows, func(r *accountRow) accounts.AccountSecret {
		return accounts.AccountSecret{AccountID: r.ID, Secret: r.twoFactor().Secret}
	}), err
}

// Reseal implements accounts.TwoFactorStore. Of several calls in a row some take longer,
// so that other processes get the write lock, too.
func (s *Store) Reseal(ctx context.Context, accountID int64, from, to accounts.Sealed) error {
	n, err := s.exec(ctx, "encrypt a secret with another key",
		"UPDATE personal_accounts SET two_factor_secret = ?, two_factor_key = ? WHERE id = ? AND two_factor_secret = ?",
		to.Data, to.Key, accountID, from.Data)
	s.yieldWriteLock(ctx)
	if err == nil && n == 0 {
		return accounts.ErrStale
	}
	return err
}
