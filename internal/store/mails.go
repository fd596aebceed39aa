package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/throttle"
)

// ReserveMail implements accounts.MailLimitStore. Reservations for one mailbox wait for
// each other: the first statement locks a row that belongs to it. Nothing else uses that
// row, or those of the rates, so transactions that lock others before or after it cannot
// deadlock.
func (s *Store) ReserveMail(ctx context.Context, r accounts.MailReservation, jobs ...accounts.NewJob) (granted bool, err error) {
	err = s.inTx(ctx, "reserve a mail", func(ctx context.Context, tx bun.Tx) error {
		_, err := exec(ctx, tx, `INSERT INTO personal_throttle (key, tat) VALUES (?, ?)
			ON CONFLICT (key) DO UPDATE SET tat = excluded.tat`, r.Mailbox[:], at(s.Now()))
		if err != nil {
			return err
		}
		err = raw(tx, "SELECT EXISTS (SELECT 1 FROM personal_sent_mails WHERE digest = ? AND kind = ? AND mail_id = ?)",
			r.Mailbox[:], r.Kind, r.MailID).Scan(ctx, &granted)
		if err != nil || granted {
			return err
		}
		now := s.Now() // the lock may have taken long
		allowance, err := s.grantMail(ctx, tx, r, now)
		if err != nil || allowance == nil {
			return err
		}
		granted = true
		if err := countMail(ctx, tx, r, *allowance, now); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	return granted && err == nil, err
}

// grantMail returns the allowance that grants a mail, nil for none.
func (s *Store) grantMail(ctx context.Context, tx bun.Tx, r accounts.MailReservation, now time.Time) (*accounts.MailAllowance, error) {
	waits := map[[32]byte]time.Duration{}
	if rates := r.Rates(); len(rates) > 0 {
		var rows []tatRow
		if err := selectTATs(tx, rates).Scan(ctx, &rows); err != nil {
			return nil, err
		}
		tats := tatsOf(rows)
		for _, c := range rates {
			_, waits[c.Key] = c.Limit.Take(tats[c.Key], now)
		}
	}
	var rows []sentMailRow
	if digests := r.Digests(); len(digests) > 0 {
		if err := s.selectSentMails(tx, digests, now.Add(-accounts.MailWindow)).Scan(ctx, &rows); err != nil {
			return nil, err
		}
	}
	allowance, _ := r.Grant(convert(rows, (*sentMailRow).mail), waits, now)
	return allowance, nil
}

type sentMailRow struct {
	Digest  []byte
	Created micros
}

func (r *sentMailRow) mail() accounts.SentMail {
	return accounts.SentMail{Digest: [32]byte(r.Digest), Time: r.Created.time()}
}

// selectSentMails selects the mails that count for one of the digests and were reserved
// after a time, the latest first. They are few: limits of a day bound their number.
func (s *Store) selectSentMails(db bun.IDB, digests [][32]byte, after time.Time) *bun.RawQuery {
	keys := keyList(convert(digests, func(d *[32]byte) []byte { return d[:] }))
	return raw(db, "SELECT digest, created FROM personal_sent_mails WHERE digest IN (?) AND created > ? AND created <= ? ORDER BY created DESC",
		keys, at(after), s.latest())
}

// countMail counts a granted mail for its mailbox, by which a repetition is recognised,
// and for the limits of its allowance.
func countMail(ctx context.Context, tx bun.Tx, r accounts.MailReservation, allowance accounts.MailAllowance, now time.Time) error {
	var writes []schema.QueryAppender
	for _, digest := range append(allowance.Digests(), r.Mailbox) {
		writes = append(writes, tx.NewRaw("INSERT INTO personal_sent_mails (digest, kind, mail_id, created) VALUES (?, ?, ?, ?)",
			digest[:], r.Kind, r.MailID, at(now)))
	}
	if err := execAll(ctx, tx, writes...); err != nil {
		return err
	}
	if allowance.Rate.Limit == (throttle.Limit{}) {
		return nil
	}
	_, err := charge(ctx, tx, allowance.Rate, now)
	return err
}

// SealedKey implements accounts.LoginKeyStore.
func (s *Store) SealedKey(ctx context.Context, name string, candidate accounts.Sealed) (key accounts.Sealed, err error) {
	const doing = "read a key"
	if candidate.Data != nil {
		_, err = s.exec(ctx, doing, "INSERT INTO personal_keys (name, value, secret_key) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
			name, candidate.Data, candidate.Key)
		if err != nil {
			return key, err
		}
	}
	// In its own statement, which sees what another node has inserted in the meantime.
	err = s.scan(ctx, doing, s.write.NewRaw("SELECT secret_key, value FROM personal_keys WHERE name = ?", name), &key.Key, &key.Data)
	return key, err
}

// ResealKey implements accounts.LoginKeyStore.
func (s *Store) ResealKey(ctx context.Context, name string, from, to accounts.Sealed) error {
	n, err := s.exec(ctx, "encrypt a key with another key", "UPDATE personal_keys SET value = ?, secret_key = ? WHERE name = ? AND value = ?",
		to.Data, to.Key, name, from.Data)
	if err == nil && n == 0 {
		return accounts.ErrStale
	}
	return err
}

// Key implements accounts.MailLimitStore. No secret key encrypts the value.
func (s *Store) Key(ctx context.Context, name string, candidate []byte) ([]byte, error) {
	key, err := s.SealedKey(ctx, name, accounts.Sealed{Data: candidate})
	return key.Data, err
}

// RequestEmail implements accounts.EmailStore.
func (s *Store) RequestEmail(
	ctx context.Context, accountID, credentialVersion int64, newEmailKey string, code accounts.CodeUse, jobs []accounts.NewJob,
	onTaken ...throttle.Charge,
) error {
	var taken bool
	err := s.inTx(ctx, "request an e-mail change", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockCredentials(ctx, tx, accountID, credentialVersion)
		if err != nil {
			return err
		}
		err = tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_accounts WHERE email_key = ? AND id <> ?)", newEmailKey, accountID).
			Scan(ctx, &taken)
		if err != nil {
			return err
		}
		if taken {
			if err := s.findCode(ctx, tx, account, code); err != nil {
				return err
			}
			return chargeAll(ctx, tx, onTaken, s.Now())
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	if err == nil && taken {
		return &accounts.TakenError{Email: true}
	}
	return err
}

// AddMailToken implements accounts.MailStore. The lock keeps a change of password
// or e-mail, which voids all tokens, from slipping in before the insert.
func (s *Store) AddMailToken(ctx context.Context, t accounts.MailToken) error {
	return s.inTx(ctx, "add a mail token", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockAccount(ctx, tx, t.AccountID)
		if err != nil {
			return staleIfMissing(err)
		}
		if account.CredentialVersion != t.CredentialVersion || account.EmailKey != t.AccountEmailKey || !worksFor(t.Purpose, account) {
			return accounts.ErrStale
		}
		if t.Purpose == accounts.PurposeVerification && t.Email.Key != account.EmailKey && t.Email.Key != account.UnverifiedKey {
			return accounts.ErrStale
		}
		_, err = tx.NewInsert().Model(&mailTokenRow{
			Digest: t.Digest[:], AccountID: t.AccountID, Purpose: t.Purpose, CredentialVersion: t.CredentialVersion,
			Email: t.Email.Address, EmailKey: t.Email.Key, Created: at(s.Now()), Expires: at(t.Expires),
		}).Exec(ctx)
		return err
	})
}

// FindMailToken implements accounts.MailStore.
func (s *Store) FindMailToken(ctx context.Context, p accounts.MailPurpose, digest [32]byte, maxLifetime time.Duration) (accounts.Account, error) {
	var row mailTokenRow
	query := s.selectMailToken(s.read, &row, p, digest).Where("t.expires - t.created <= ?", maxLifetime.Microseconds())
	if err := s.scan(ctx, "find a mail token", query); err != nil {
		return accounts.Account{}, err
	}
	return row.Account.account(), nil
}

// selectMailToken selects a token that has not expired and whose creation is not false, and its
// account.
func (s *Store) selectMailToken(db bun.IDB, row *mailTokenRow, p accounts.MailPurpose, digest [32]byte) *bun.SelectQuery {
	return where(db, db.NewSelect().Model(row).Relation("Account"), "t.digest = ? AND t.purpose = ? AND t.expires > ? AND t.created <= ?",
		digest[:], p, at(s.Now()), s.latest())
}

// RedeemRecovery implements accounts.RecoveryStore. No session survives it, for
// the reason given at ReplacePassword.
func (s *Store) RedeemRecovery(
	ctx context.Context, digest [32]byte, hash string, known accounts.KnownAt, jobs func(removed accounts.OtherWays) []accounts.NewJob,
) error {
	var accountID int64
	replaced := func() *bun.RawQuery { return s.hasHash(accountID, hash) }
	return s.inTxOrFound(ctx, "redeem a recovery token", replaced, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.redeem(ctx, tx, accounts.PurposeRecovery, digest)
		if err != nil {
			return err
		}
		accountID = row.AccountID
		_, err = exec(ctx, tx, `UPDATE personal_accounts
			SET password_hash = ?, credential_version = credential_version + 1, email_verified = TRUE, updated = ? WHERE id = ?`,
			hash, at(s.Now()), row.AccountID)
		if err != nil {
			return err
		}
		if err := s.renewAddress(ctx, tx, row.AccountID, known, true); err != nil {
			return err
		}
		if _, err := exec(ctx, tx, "DELETE FROM personal_sessions WHERE account_id = ?", row.AccountID); err != nil {
			return err
		}
		removed, _, err := removeOtherWaysIn(ctx, tx, row.AccountID, wayIn{all: true})
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs(removed))
	})
}

// RedeemEmail implements accounts.EmailStore.
func (s *Store) RedeemEmail(ctx context.Context, digest [32]byte, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "redeem an e-mail token", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.redeem(ctx, tx, accounts.PurposeEmail, digest)
		if err != nil {
			return err
		}
		if row.Account.EmailKey != row.EmailKey {
			if err := execAll(ctx, tx, dropStarted(tx, row.AccountID)...); err != nil { // by a proof for the former e-mail
				return err
			}
		}
		if err := s.setEmail(ctx, tx, row.Account.account(), accounts.Email{Address: row.Email, Key: row.EmailKey}, true); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// setEmail gives a locked account an address, or none, and changes its login along if
// that is the old address. The account waits for no address any more. The condition
// finds an address that is taken already; the unique index finds one that is taken in
// the same moment.
func (s *Store) setEmail(ctx context.Context, tx bun.Tx, before accounts.Account, email accounts.Email, verified bool) error {
	taken := &accounts.TakenError{Email: true}
	key := bun.NullZero(email.Key)
	after := before
	after.Email, after.Unverified = email, accounts.Email{}
	if before.LoginKey == before.Email.Key {
		after.LoginKey = email.Key
	}
	err := execOne(ctx, tx, taken, `UPDATE personal_accounts SET
			login = CASE WHEN login_key = email_key THEN ? ELSE login END,
			login_key = CASE WHEN login_key = email_key THEN ? ELSE login_key END,
			email = ?, email_key = ?, email_verified = ?, unverified_email = '', unverified_key = NULL, search = ?, updated = ?
		WHERE id = ? AND NOT EXISTS (SELECT 1 FROM personal_accounts other
			WHERE other.id <> ? AND (other.email_key = ? OR other.login_key = ?))`,
		email.Address, key, email.Address, key, verified, searched(after), at(s.Now()), before.ID, before.ID, key, key)
	if isUniqueViolation(err) {
		return taken
	}
	if err != nil {
		return err
	}
	return execAll(ctx, tx,
		tx.NewRaw("DELETE FROM personal_mail_refusals WHERE account_id = ? AND email_key <> ?", before.ID, email.Key),
		// Else they would be fully known again after a change back to the former address.
		tx.NewRaw("UPDATE personal_known_addresses SET credential_version = NULL, email_key = '' WHERE account_id = ? AND email_key <> ?", before.ID,
			email.Key))
}

// RefuseMail implements accounts.MailStore.
func (s *Store) RefuseMail(ctx context.Context, r accounts.MailRefusal, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "store the refusal of a mail", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockAccount(ctx, tx, r.AccountID)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case r.EmailKey == account.EmailKey || r.EmailKey == account.UnverifiedKey:
			_, err = exec(ctx, tx, `INSERT INTO personal_mail_refusals (account_id, email_key, kind, reply, time) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (account_id) DO UPDATE SET email_key = excluded.email_key, kind = excluded.kind, reply = excluded.reply, time = excluded.time`,
				r.AccountID, r.EmailKey, r.Kind, r.Reply, at(s.Now()))
			if err != nil {
				return err
			}
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// AcceptMail implements accounts.MailStore. It writes only if there is something to
// remove, which is rare.
func (s *Store) AcceptMail(ctx context.Context, accountID int64, emailKey string) error {
	const doing, these = "forget the refusal of a mail", " FROM personal_mail_refusals WHERE account_id = ? AND email_key = ?"
	var refused bool
	err := s.scan(ctx, doing, s.read.NewRaw("SELECT EXISTS (SELECT 1"+these+")", accountID, emailKey), &refused)
	if err != nil || !refused {
		return err
	}
	_, err = s.exec(ctx, doing, "DELETE"+these, accountID, emailKey)
	return err
}

// worksFor reports whether tokens of a purpose work for the account: those that undo a
// deletion while that stands, all others while the account is enabled.
func worksFor(p accounts.MailPurpose, row accountRow) bool {
	if p == accounts.PurposeDeletion {
		return row.account().Deleted()
	}
	return !row.Disabled
}

// redeem is lockMailToken, and voids all tokens of the account.
func (s *Store) redeem(ctx context.Context, tx bun.Tx, p accounts.MailPurpose, digest [32]byte) (row mailTokenRow, err error) {
	row, err = s.lockMailToken(ctx, tx, p, digest)
	if err != nil {
		return row, err
	}
	return row, voidMailTokens(ctx, tx, row.AccountID)
}

// lockMailToken finds a valid token that works for its account, and locks the account.
// It returns the token with the locked account. Of two transactions with the same token
// one waits for the lock and then finds the token as the other has left it.
func (s *Store) lockMailToken(ctx context.Context, tx bun.Tx, p accounts.MailPurpose, digest [32]byte) (row mailTokenRow, err error) {
	if err := s.selectMailToken(tx, &row, p, digest).Scan(ctx); err != nil {
		return row, err
	}
	account, err := s.lockAccount(ctx, tx, row.AccountID)
	if err != nil {
		return row, err
	}
	row.Account = &account
	var valid bool
	err = tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_mail_tokens WHERE digest = ? AND credential_version = ?)",
		digest[:], account.CredentialVersion).Scan(ctx, &valid)
	if err == nil && (!valid || !worksFor(p, account)) {
		err = accounts.ErrNotFound
	}
	return row, err
}

// voidMailTokens voids the mailed tokens and codes of an account.
func voidMailTokens(ctx context.Context, tx bun.Tx, accountID int64) error {
	return execAll(ctx, tx, tx.NewRaw("DELETE FROM personal_mail_tokens WHERE account_id = ?", accountID), voidMailedCodes(tx, accountID))
}
