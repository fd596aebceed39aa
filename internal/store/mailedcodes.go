package store

import (
	"context"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

type mailedCodeRow struct {
	bun.BaseModel `bun:"table:personal_mailed_codes,alias:c"`

	Attempt           []byte `bun:",pk"`
	AccountID         int64
	Purpose           personal.MailedCodePurpose
	Digest            []byte
	CredentialVersion int64
	EmailKey          string
	Created, Expires  micros
	Used              bool // or void; it stays, so that another try of its mail does not store the code again
}

// AddMailedCode implements accounts.MailedCodeStore. The lock is for the reason given at AddMailToken.
func (s *Store) AddMailedCode(ctx context.Context, c accounts.MailedCode) error {
	return s.inTx(ctx, "add a mailed code", func(ctx context.Context, tx bun.Tx) error {
		account, err := s.lockAccount(ctx, tx, c.AccountID)
		if err != nil {
			return staleIfMissing(err)
		}
		if account.CredentialVersion != c.CredentialVersion || account.EmailKey != c.EmailKey || account.Disabled {
			return accounts.ErrStale
		}
		row := mailedCodeRow{
			Attempt: c.Attempt[:], AccountID: c.AccountID, Purpose: c.Purpose, Digest: c.Digest[:],
			CredentialVersion: c.CredentialVersion, EmailKey: c.EmailKey, Created: at(s.Now()), Expires: at(c.Expires),
		}
		n, err := rowsAffected(tx.NewInsert().Model(&row).
			On("CONFLICT (attempt) DO UPDATE SET used = c.used WHERE NOT c.used AND c.credential_version = excluded.credential_version").Exec(ctx))
		if err == nil && n == 0 {
			return accounts.ErrStale
		}
		return err
	})
}

// validCode is the condition of a code that is neither used nor void nor expired, whose creation is not
// false, for a row c of codes and its account a.
const validCode = `NOT c.used AND c.expires > ? AND c.created <= ? AND c.expires - c.created <= ?
	AND c.credential_version = a.credential_version AND c.email_key = a.email_key AND NOT a.disabled`

// maxCodeAge is the longest time from the creation of a code to its end, in microseconds.
const maxCodeAge = int64(accounts.MailedCodeLifetime / 1e3)

// FindMailedCode implements accounts.MailedCodeStore.
func (s *Store) FindMailedCode(ctx context.Context, attempt [32]byte, purpose personal.MailedCodePurpose) (
	c accounts.MailedCode, a accounts.Account, err error,
) {
	var row struct {
		Digest  []byte
		Account accountRow `bun:"embed:a_"`
	}
	err = s.scan(ctx, "find a mailed code", s.read.NewRaw(`SELECT c.digest, a.id AS a_id, a.login_key AS a_login_key, a.email AS a_email,
			a.email_key AS a_email_key, a.email_verified AS a_email_verified, a.password_hash AS a_password_hash,
			a.credential_version AS a_credential_version, a.disabled AS a_disabled,
			a.two_factor_secret AS a_two_factor_secret, a.two_factor_key AS a_two_factor_key, a.two_factor_step AS a_two_factor_step
		FROM personal_mailed_codes c JOIN personal_accounts a ON a.id = c.account_id
		WHERE c.attempt = ? AND c.purpose = ? AND `+validCode, attempt[:], purpose, at(s.Now()), s.latest(), maxCodeAge), &row)
	if err != nil {
		return c, a, err
	}
	a = row.Account.account()
	c = accounts.MailedCode{Attempt: attempt, AccountID: a.ID, Purpose: purpose}
	copy(c.Digest[:], row.Digest)
	return c, a, nil
}

// useMailedCode uses up the code of an attempt and all others of a locked account; accounts.ErrMailedCodeUsed
// if it is not valid any more. The zero attempt is none.
func (s *Store) useMailedCode(ctx context.Context, tx bun.Tx, accountID int64, attempt [32]byte) error {
	if attempt == [32]byte{} {
		return nil
	}
	var valid bool
	err := tx.NewRaw(`SELECT EXISTS (SELECT 1 FROM personal_mailed_codes c JOIN personal_accounts a ON a.id = c.account_id
		WHERE c.attempt = ? AND a.id = ? AND `+validCode+`)`, attempt[:], accountID, at(s.Now()), s.latest(), maxCodeAge).Scan(ctx, &valid)
	if err != nil {
		return err
	}
	if !valid {
		return accounts.ErrMailedCodeUsed
	}
	return execAll(ctx, tx, voidMailedCodes(tx, accountID))
}

// voidMailedCodes returns the statement that voids all codes of an account.
func voidMailedCodes(tx bun.Tx, accountID int64) schema.QueryAppender {
	return tx.NewRaw("UPDATE personal_mailed_codes SET used = TRUE WHERE account_id = ? AND NOT used", accountID)
}
