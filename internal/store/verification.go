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
func (s *Store) RedeemVerification(ctx context.Context, digest [32]byte, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "redeem a verification token", func(ctx context.Context, tx bun.Tx) error {
		row, err := s.redeem(ctx, tx, accounts.PurposeVerification, digest)
		if err != nil {
			return err
		}
		switch row.EmailKey {
		case row.Account.EmailKey:
			_, err = exec(ctx, tx, "UPDATE personal_accounts SET verified_key = email_key, updated = ? WHERE id = ?", at(s.Now()), row.AccountID)
		case row.Account.UnverifiedKey:
			err = s.setEmail(ctx, tx, row.AccountID, accounts.Email{Address: row.Email, Key: row.EmailKey}, true)
		default: // an older version has changed the e-mail and kept the token
			err = accounts.ErrNotFound
		}
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}
