package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/token"
)

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
			p.CredentialVersion, p.Secret.Data, p.Secret.Key, at(s.Now()), p.SessionID, p.AccountID, s.forKeyShare)
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
		WHERE session_id = ? AND credential_version = ? AND created > ? AND created <= ?`, sessionID, credentialVersion, at(after), s.latest()), &secret.Key, &secret.Data)
	return secret, err
}

// EnableTwoFactor implements accounts.TwoFactorStore. No other session survives it, for
// the reason given at ReplacePassword.
func (s *Store) EnableTwoFactor(
	ctx context.Context, p accounts.PendingFactor, step int64, codes accounts.NewRecoveryCodes, keep accounts.KeptSession, jobs ...accounts.NewJob,
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
		if err := s.revokeExcept(ctx, tx, p.AccountID, keep); err != nil {
			return err
		}
		err = execOne(ctx, tx, accounts.ErrStale, "DELETE FROM personal_pending_factors WHERE session_id = ? AND credential_version = ? AND secret = ?",
			p.SessionID, p.CredentialVersion, p.Secret.Data)
		if err != nil {
			return err
		}
		return s.replaceRecoveryCodes(ctx, tx, p.AccountID, codes, jobs)
	})
}

// replaceRecoveryCodes also replaces the account's repeats, and stores the jobs. The account is locked.
func (s *Store) replaceRecoveryCodes(ctx context.Context, tx bun.Tx, accountID int64, codes accounts.NewRecoveryCodes, jobs []accounts.NewJob) error {
	writes := []schema.QueryAppender{removeRecoveryCodes(tx, accountID)}
	for i := range codes.Digests {
		writes = append(writes, addRecoveryCode(tx, accountID, codes.Digests[i]))
	}
	writes = append(writes, tx.NewRaw("DELETE FROM personal_repeats WHERE session_id IN (SELECT id FROM personal_sessions WHERE account_id = ?)", accountID))
	if err := execAll(ctx, tx, writes...); err != nil {
		return err
	}
	if err := s.addRepeat(ctx, tx, accountID, codes.Repeat); err != nil {
		return err
	}
	return s.addJobs(ctx, tx, jobs)
}

// addRepeat stores a repeat, unless its session has ended.
func (s *Store) addRepeat(ctx context.Context, tx bun.Tx, accountID int64, r accounts.Repeat) error {
	var former any
	if r.Former != (token.Selector{}) {
		former = r.Former[:]
	}
	_, err := exec(ctx, tx, `INSERT INTO personal_repeats (session_id, former, by_former, by_new, created)
		SELECT s.id, ?, ?, ?, ? FROM (SELECT id FROM personal_sessions WHERE id = ? AND account_id = ? ?) AS s`,
		former, r.Sealed[0], r.Sealed[1], at(s.Now()), r.SessionID, accountID, s.forKeyShare)
	return err
}

// FindRepeat implements accounts.RepeatStore.
func (s *Store) FindRepeat(ctx context.Context, selector token.Selector) (r accounts.Repeat, err error) {
	var created micros
	err = s.scan(ctx, "find a repeat", s.read.NewRaw(`SELECT session_id, by_former, by_new, created FROM personal_repeats
		WHERE session_id IN (SELECT id FROM personal_sessions WHERE selector = ? UNION ALL SELECT session_id FROM personal_repeats WHERE former = ?)`,
		selector[:], selector[:]), &r.SessionID, &r.Sealed[0], &r.Sealed[1], &created)
	r.Created = created.time()
	return r, err
}

// EndRepeat implements accounts.RepeatStore.
func (s *Store) EndRepeat(ctx context.Context, sessionID int64) error {
	_, err := s.exec(ctx, "end a repeat", "DELETE FROM personal_repeats WHERE session_id = ?", sessionID)
	return err
}

func addRecoveryCode(tx bun.Tx, accountID int64, digest [32]byte) schema.QueryAppender {
	return tx.NewRaw("INSERT INTO personal_recovery_codes (account_id, digest) VALUES (?, ?)", accountID, digest[:])
}

func removeRecoveryCodes(tx bun.Tx, accountID int64) schema.QueryAppender {
	return tx.NewRaw("DELETE FROM personal_recovery_codes WHERE account_id = ?", accountID)
}

// ReplaceRecoveryCodes implements accounts.TwoFactorStore.
func (s *Store) ReplaceRecoveryCodes(
	ctx context.Context, accountID, credentialVersion int64, code accounts.CodeUse, codes accounts.NewRecoveryCodes, jobs ...accounts.NewJob,
) error {
	return s.inTx(ctx, "replace recovery codes", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, credentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		return s.replaceRecoveryCodes(ctx, tx, accountID, codes, jobs)
	})
}

// RemoveOwnTwoFactor implements accounts.TwoFactorStore.
func (s *Store) RemoveOwnTwoFactor(
	ctx context.Context, accountID, credentialVersion int64, keep accounts.KeptSession, code accounts.CodeUse,
	jobs func(left accounts.OtherWays) []accounts.NewJob,
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
		if err := s.revokeExcept(ctx, tx, accountID, keep); err != nil {
			return err
		}
		left, err := otherWays(ctx, tx, accountID)
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(left))
	})
}

// removeFactor removes the factor of a locked account and its recovery codes, and raises
// the credential version by the given number. No passkey stands for a code any more.
func (s *Store) removeFactor(ctx context.Context, tx bun.Tx, accountID, raise int64) error {
	return execAll(ctx, tx,
		tx.NewRaw("UPDATE personal_passkeys SET with_code = FALSE WHERE account_id = ? AND with_code", accountID),
		tx.NewRaw(`UPDATE personal_accounts SET two_factor_secret = NULL, two_factor_key = '', two_factor_step = 0,
			credential_version = credential_version + ?, updated = ? WHERE id = ?`, raise, at(s.Now()), accountID),
		removeRecoveryCodes(tx, accountID))
}

// RemoveTwoFactor implements accounts.TwoFactorStore.
func (s *Store) RemoveTwoFactor(
	ctx context.Context, accountID int64, keepOtherWays bool,
	jobs func(before accounts.Account, removed, left accounts.OtherWays) []accounts.NewJob,
) error {
	return s.inTx(ctx, "remove a second factor", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockAccount(ctx, tx, accountID)
		if err != nil || row.TwoFactorSecret == nil {
			return err
		}
		if err := s.removeFactor(ctx, tx, accountID, 0); err != nil {
			return err
		}
		err = execAll(ctx, tx, voidAddresses(tx, accountID), voidMailedCodes(tx, accountID),
			tx.NewRaw("DELETE FROM personal_sessions WHERE account_id = ?", accountID))
		var removed, left accounts.OtherWays
		switch {
		case err != nil:
		case keepOtherWays:
			left, err = otherWays(ctx, tx, accountID)
		default:
			removed, left, err = removeWaysButLast(ctx, tx, row.account(), wayIn{all: true})
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(row.account(), removed, left))
	})
}

// CountSecrets implements accounts.TwoFactorStore. Like SecretsOfKey it reads an index
// that holds no other accounts.
func (s *Store) CountSecrets(ctx context.Context) ([]accounts.SecretCount, error) {
	var counts []accounts.SecretCount
	err := s.scan(ctx, "count secrets by key", s.read.NewRaw(`SELECT "key", CAST(sum(accounts) AS BIGINT) AS accounts, sum(logins) > 0 AS login_key FROM (
			SELECT two_factor_key AS "key", count(*) AS accounts, 0 AS logins
				FROM personal_accounts WHERE two_factor_secret IS NOT NULL GROUP BY two_factor_key
			UNION ALL SELECT secret_key, 0, 1 FROM personal_keys WHERE secret_key <> '') AS used
		GROUP BY "key" ORDER BY "key"`), &counts)
	return counts, err
}

// SecretKeys returns the keys that encrypt secrets of second factors, and the login key, in order. It looks up
// one account of each key, while CountSecrets reads the secrets of all.
func (s *Store) SecretKeys(ctx context.Context) (keys []string, err error) {
	const next = "(SELECT two_factor_key FROM personal_accounts WHERE two_factor_secret IS NOT NULL AND two_factor_key > %s ORDER BY two_factor_key, id LIMIT 1)"
	err = s.scan(ctx, "read the keys of secrets", s.read.NewRaw("WITH RECURSIVE keys (name) AS (SELECT "+fmt.Sprintf(next, "''")+
		" UNION ALL SELECT "+fmt.Sprintf(next, "keys.name")+" FROM keys WHERE name IS NOT NULL) SELECT name FROM keys WHERE name IS NOT NULL"+
		" UNION SELECT secret_key FROM personal_keys WHERE secret_key <> '' ORDER BY 1"),
		&keys)
	return keys, err
}

// SecretsOfKey implements accounts.TwoFactorStore.
func (s *Store) SecretsOfKey(ctx context.Context, key string, after int64, n int) ([]accounts.AccountSecret, error) {
	var rows []accountRow
	err := s.scan(ctx, "find secrets of a key", s.read.NewSelect().Model(&rows).Column("id", "two_factor_secret", "two_factor_key").
		Where("a.two_factor_secret IS NOT NULL").Where("a.two_factor_key = ?", key).Where("a.id > ?", after).Order("a.id").Limit(n))
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
