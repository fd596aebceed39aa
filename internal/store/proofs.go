package store

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

// SetProof implements accounts.ProofStore. The columns have no index, so on PostgreSQL the write
// changes none.
func (s *Store) SetProof(ctx context.Context, accountID, sessionID int64, p accounts.Proof, code accounts.CodeUse,
	by accounts.PasskeyUse, jobs ...accounts.NewJob) error {
	return s.inTx(ctx, "store a proof", func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockCredentials(ctx, tx, accountID, p.CredentialVersion); err != nil {
			return err
		}
		if err := s.useIdentity(ctx, tx, accountID, p.Identity); err != nil {
			return err
		}
		// The session first, then its attempts: what ends a session locks them in this order, too.
		n, err := exec(ctx, tx, `UPDATE personal_sessions
			SET proof = ?, proof_created = ?, proof_version = ?, proof_email_key = ?, proof_with_code = ?, proof_passkey = ?, proof_identity = ?
			WHERE id = ? AND account_id = ?`,
			p.Digest[:], at(p.Created), p.CredentialVersion, p.EmailKey, p.WithCode, bun.NullZero(p.PasskeyID), bun.NullZero(digestOf(p.Identity)), sessionID, accountID)
		if err == nil && n == 0 {
			return accounts.ErrStale
		}
		if err != nil {
			return err
		}
		if err := s.useCode(ctx, tx, accountID, code); err != nil {
			return err
		}
		if err := s.usePasskey(ctx, tx, accountID, by); err != nil {
			return err
		}
		if err := s.useMailedCode(ctx, tx, accountID, p.MailedCode); err != nil {
			return err
		}
		return s.addJobs(ctx, tx, jobs)
	})
}

// findProof returns accounts.ErrProofVoid unless a session of a locked account still has the proof,
// which has not ended and whose creation is not false, and the account the e-mail for which it was
// given; accounts.ErrStale if the session has ended. The session cannot end before the transaction.
func (s *Store) findProof(ctx context.Context, tx bun.Tx, accountID int64, p accounts.ProofUse) error {
	var valid bool
	err := tx.NewRaw(`SELECT coalesce(s.proof = ? AND s.proof_created > ? AND s.proof_created <= ? AND s.proof_email_key = coalesce(a.email_key, ''), FALSE)
		FROM personal_sessions s JOIN personal_accounts a ON a.id = s.account_id WHERE s.id = ? AND s.account_id = ? ?`,
		p.Digest[:], at(p.After), s.latest(), p.SessionID, accountID, s.forKeyShare).Scan(ctx, &valid)
	if err == nil && !valid {
		return accounts.ErrProofVoid
	}
	return staleIfMissing(err)
}
