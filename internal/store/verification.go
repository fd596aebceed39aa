package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// FindWaiting implements accounts.VerificationStore.
func (s *Store) FindWaiting(ctx context.Context, emailKey string) (ids []int64, err error) {
	err = s.scan(ctx, "find accounts that wait for an address",
		s.read.NewRaw("SELECT id FROM personal_accounts WHERE unverified_key = ? AND NOT disabled LIMIT 2", emailKey), &ids)
	return ids, err
}

// RedeemVerification implements accounts.VerificationStore.
func (s *Store) RedeemVerification(ctx context.Context, digest [32]byte, loginKey string, jobs ...accounts.NewJob) error {
	mismatch := false
	err := s.inTx(ctx, "redeem a verification token", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockMailToken(ctx, tx, accounts.PurposeVerification, digest)
		if err != nil {
			return err
		}
		if row.Account.UnverifiedKey != "" && row.Account.LoginKey != loginKey {
			mismatch = true
			return countMismatch(ctx, tx, digest, loginKey)
		}
		if err := voidMailTokens(ctx, tx, row.AccountID); err != nil {
			return err
		}
		switch row.EmailKey {
		case row.Account.EmailKey:
			_, err = exec(ctx, tx, "UPDATE personal_accounts SET email_verified = TRUE, updated = ? WHERE id = ?", at(s.Now()), row.AccountID)
		case row.Account.UnverifiedKey:
			err = s.setEmail(ctx, tx, row.Account.account(), accounts.Email{Address: row.Email, Key: row.EmailKey}, true)
		default:
			err = accounts.ErrNotFound
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
	if err == nil && mismatch {
		return accounts.ErrOtherLogin
	}
	return err
}

// countMismatch counts a wrong login with its token, and voids a token that has had too
// many. A login that was not sent is none.
func countMismatch(ctx context.Context, tx bun.Tx, digest [32]byte, loginKey string) error {
	if loginKey == "" {
		return nil
	}
	if _, err := exec(ctx, tx, "UPDATE personal_mail_tokens SET mismatches = mismatches + 1 WHERE digest = ?", digest[:]); err != nil {
		return err
	}
	_, err := exec(ctx, tx, "DELETE FROM personal_mail_tokens WHERE digest = ? AND mismatches >= ?", digest[:], accounts.MaxMismatches)
	return err
}
