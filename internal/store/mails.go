package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// ReserveMail makes room for a mail, see accounts.MailTokenStore. The lock on the
// account keeps two reservations from counting the same mails. A repeated one
// stores no jobs: the first has stored them.
func (s *Store) ReserveMail(
	ctx context.Context, r accounts.MailReservation, jobs ...accounts.NewJob,
) (wait time.Duration, err error) {
	var taken bool
	err = s.inTx(ctx, "reserve a mail", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, r.AccountID); err != nil {
			return err
		}
		var repeated bool
		err := tx.NewRaw(`SELECT EXISTS (SELECT 1 FROM personal_mails WHERE account_id = ? AND purpose = ? AND mail_id = ?)`,
			r.AccountID, r.Purpose, r.MailID).Scan(ctx, &repeated)
		if err != nil || repeated {
			return err
		}
		now := s.Now()
		if taken, err = isTaken(ctx, tx, r); err != nil {
			return err
		}
		if taken {
			return chargeAll(ctx, tx, r.Taken, now)
		}
		if wait, err = mailWait(ctx, tx, r, now); err != nil || wait > 0 {
			return err
		}
		_, err = exec(ctx, tx, `INSERT INTO personal_mails (account_id, purpose, mail_id, created) VALUES (?, ?, ?, ?)`,
			r.AccountID, r.Purpose, r.MailID, at(now))
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	if err == nil && taken {
		err = &accounts.TakenError{Email: true}
	}
	return wait, err
}

// isTaken reports whether the new e-mail of a reservation is another account's.
func isTaken(ctx context.Context, tx bun.Tx, r accounts.MailReservation) (taken bool, err error) {
	if r.NewEmailKey == "" {
		return false, nil
	}
	err = tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_accounts WHERE email_key = ? AND id <> ?)", r.NewEmailKey, r.AccountID).
		Scan(ctx, &taken)
	return taken, err
}

// MailWait looks at what ReserveMail would say, see accounts.MailTokenStore.
func (s *Store) MailWait(ctx context.Context, r accounts.MailReservation) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	wait, err = mailWait(ctx, s.read, r, s.Now())
	return wait, fault(ctx, "look at earlier mails", err)
}

// mailWait is how long one more mail has to wait, at least a second, or 0.
func mailWait(ctx context.Context, db bun.IDB, r accounts.MailReservation, now time.Time) (time.Duration, error) {
	var sent []micros // the newest first, as many as the window may hold
	err := db.NewRaw(`SELECT created FROM personal_mails WHERE account_id = ? AND purpose = ? ORDER BY created DESC LIMIT ?`,
		r.AccountID, r.Purpose, max(r.Most, 1)).Scan(ctx, &sent)
	if err != nil || len(sent) == 0 {
		return 0, err
	}
	wait := sent[0].time().Add(r.Gap).Sub(now)
	if len(sent) >= r.Most {
		wait = max(wait, sent[len(sent)-1].time().Add(r.Window).Sub(now))
	}
	if wait <= 0 {
		return 0, nil
	}
	return max(wait, time.Second), nil
}

// AddMailToken stores a token, see accounts.MailTokenStore. The lock keeps a
// change of password or e-mail from voiding the account's tokens between the condition and
// the insert.
func (s *Store) AddMailToken(ctx context.Context, t accounts.MailToken) error {
	return s.inTx(ctx, "add a mail token", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockAccount(ctx, tx, t.AccountID); err != nil {
			return staleIfGone(err)
		}
		return execOne(ctx, tx, accounts.ErrStale, `INSERT INTO personal_mail_tokens
				(digest, account_id, purpose, credential_version, email, email_key, expires)
			SELECT ?, a.id, ?, a.credential_version, ?, ?, ?
			FROM personal_accounts a
			WHERE a.id = ? AND a.credential_version = ? AND coalesce(a.email_key, '') = ? AND NOT a.disabled`,
			t.Digest[:], t.Purpose, t.Email.Address, t.Email.Key, at(t.Expires),
			t.AccountID, t.CredentialVersion, t.AccountEmailKey)
	})
}

// FindMailToken finds the account of a token that is still good, see accounts.MailTokenStore.
func (s *Store) FindMailToken(ctx context.Context, p accounts.MailPurpose, digest [32]byte) (accounts.Account, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	row, err := s.findMailToken(ctx, s.read, p, digest)
	if err != nil {
		return accounts.Account{}, fault(ctx, "find a mail token", err)
	}
	account, err := row.Account.account()
	return account, fault(ctx, "find a mail token", err)
}

func (s *Store) findMailToken(
	ctx context.Context, db bun.IDB, p accounts.MailPurpose, digest [32]byte,
) (row mailTokenRow, err error) {
	err = db.NewSelect().Model(&row).Relation("Account").
		Where("t.digest = ?", digest[:]).Where("t.purpose = ?", p).Where("t.expires > ?", at(s.Now())).Scan(ctx)
	return row, err
}

// RedeemRecovery sets a new password by a mailed token, see
// accounts.MailTokenStore. For why no session survives it, see ReplacePassword.
func (s *Store) RedeemRecovery(ctx context.Context, digest [32]byte, hash string, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "redeem a recovery token", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.useMailToken(ctx, tx, accounts.PurposeRecovery, digest)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, `UPDATE personal_accounts
			SET password_hash = ?, credential_version = credential_version + 1, updated = ? WHERE id = ?`,
			hash, at(s.Now()), row.AccountID)
		if err != nil {
			return err
		}
		if err := endSessions(ctx, tx, row.AccountID); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// RedeemEmail sets a new address by a mailed token, see accounts.MailTokenStore.
func (s *Store) RedeemEmail(ctx context.Context, digest [32]byte, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "redeem an e-mail token", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.useMailToken(ctx, tx, accounts.PurposeEmail, digest)
		if err != nil {
			return err
		}
		if err := s.setEmail(ctx, tx, row.AccountID, accounts.Email{Address: row.Email, Key: row.EmailKey}); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// setEmail gives the account an address, or none, and the same login where the
// login is the old address. The condition answers for what is there; that the
// address is taken in the same moment, the unique index finds.
func (s *Store) setEmail(ctx context.Context, tx bun.Tx, accountID int64, email accounts.Email) error {
	taken := &accounts.TakenError{Email: true}
	key := bun.NullZero(email.Key)
	err := execOne(ctx, tx, taken, `UPDATE personal_accounts SET
			login = CASE WHEN login_key = email_key THEN ? ELSE login END,
			login_key = CASE WHEN login_key = email_key THEN ? ELSE login_key END,
			email = ?, email_key = ?, updated = ?
		WHERE id = ? AND NOT EXISTS (SELECT 1 FROM personal_accounts other
			WHERE other.id <> ? AND (other.email_key = ? OR other.login_key = ?))`,
		email.Address, key, email.Address, key, at(s.Now()), accountID, accountID, key, key)
	if isUniqueViolation(err) {
		return taken
	}
	return err
}

// useMailToken finds a good token of an account that is not disabled, locks the
// account, and voids all its tokens. Of two that use the same token one waits
// for the lock and then finds the token gone.
func (s *Store) useMailToken(
	ctx context.Context, tx bun.Tx, p accounts.MailPurpose, digest [32]byte,
) (row mailTokenRow, err error) {
	row, err = s.findMailToken(ctx, tx, p, digest)
	if err != nil {
		return row, err
	}
	account, err := s.lockAccount(ctx, tx, row.AccountID)
	if err != nil {
		return row, err
	}
	err = execOne(ctx, tx, accounts.ErrNotFound,
		"DELETE FROM personal_mail_tokens WHERE digest = ? AND credential_version = ?", digest[:], account.CredentialVersion)
	if err != nil {
		return row, err
	}
	if account.Disabled {
		return row, accounts.ErrNotFound
	}
	return row, voidMailTokens(ctx, tx, row.AccountID)
}

func voidMailTokens(ctx context.Context, tx bun.Tx, accountID int64) error {
	_, err := exec(ctx, tx, "DELETE FROM personal_mail_tokens WHERE account_id = ?", accountID)
	return err
}
