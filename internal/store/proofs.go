package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// SetProof implements accounts.ProofStore. The columns have no index, so on PostgreSQL the write
// changes none.
func (s *Store) SetProof(ctx context.Context, accountID, sessionID int64, p accounts.Proof, code accounts.CodeUse, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "store a proof", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, p.CredentialVersion); err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		err := execOne(ctx, tx, accounts.ErrStale, `UPDATE personal_sessions
			SET proof = ?, proof_until = ?, proof_version = ?, proof_email_key = ?, proof_with_code = ? WHERE id = ? AND account_id = ?`,
			p.Digest[:], at(p.Until), p.CredentialVersion, p.EmailKey, p.WithCode, sessionID, accountID)
		if err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// findProof returns accounts.ErrProofVoid unless a session of a locked account still has the proof,
// and the account the e-mail for which it was given. The session cannot end before the transaction.
func (s *Store) findProof(ctx context.Context, tx bun.Tx, accountID int64, p accounts.ProofUse) error {
	err := tx.NewRaw(`SELECT s.id FROM personal_sessions s JOIN personal_accounts a ON a.id = s.account_id
		WHERE s.id = ? AND s.account_id = ? AND s.proof = ? AND s.proof_email_key = coalesce(a.email_key, '') ?`,
		p.SessionID, accountID, p.Digest[:], s.keep).Scan(ctx, new(int64))
	if errors.Is(err, sql.ErrNoRows) {
		return accounts.ErrProofVoid
	}
	return err
}
