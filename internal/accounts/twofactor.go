package accounts

import (
	"context"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// TwoFactorStore keeps second factors, the secrets that wait to be confirmed, and
// recovery codes.
type TwoFactorStore interface {
	// SetPendingFactor stores a secret that waits for its confirmation in a session, in
	// place of an earlier one. ErrStale if the credential version has changed, the account
	// is disabled, or the session has ended.
	SetPendingFactor(ctx context.Context, p PendingFactor) error
	// PendingFactor returns the secret that waits in a session, if it was stored after the
	// given time and for this credential version; else ErrNotFound.
	PendingFactor(ctx context.Context, sessionID, credentialVersion int64, after time.Time) (Sealed, error)
	// EnableTwoFactor makes the pending secret the second factor of its account, with the
	// step as its last used one, replaces the recovery codes, raises the credential version,
	// ends every session but that of the secret, voids the account's mailed tokens, and
	// stores the jobs. ErrStale if the account has a second factor, its credential version
	// has changed, it is disabled, or the secret does not wait any more.
	EnableTwoFactor(ctx context.Context, p PendingFactor, step int64, recoveryCodes [][32]byte, jobs ...NewJob) error
	// ReplaceRecoveryCodes uses up the code, replaces the recovery codes by their digests,
	// and stores the jobs. ErrCodeUsed; ErrStale if the credential version has changed or the
	// account is disabled.
	ReplaceRecoveryCodes(ctx context.Context, accountID, credentialVersion int64, code CodeUse, recoveryCodes [][32]byte, jobs ...NewJob) error
	// EndTwoFactor uses up the code, removes the second factor and the recovery codes,
	// raises the credential version, ends every session but keep, voids the account's mailed
	// tokens, and stores the jobs. ErrCodeUsed; ErrStale as for ReplaceRecoveryCodes.
	EndTwoFactor(ctx context.Context, accountID, credentialVersion, keep int64, code CodeUse, jobs ...NewJob) error
	// RemoveTwoFactor removes the second factor and the recovery codes and ends every
	// session. It keeps the credential version, because a deletion by the user depends on
	// it. It stores the jobs, which it requests under a lock with the account before the
	// change. An account without a second factor stays as it is. ErrNotFound.
	RemoveTwoFactor(ctx context.Context, accountID int64, jobs func(before Account) []NewJob) error

	// CountSecrets returns how many secrets of second factors each key encrypts, in the
	// order of key ids.
	CountSecrets(ctx context.Context) ([]SecretCount, error)
	// SecretsOfKey returns up to n secrets of second factors that the key encrypts, of
	// accounts with an id above after, in the order of these.
	SecretsOfKey(ctx context.Context, key string, after int64, n int) ([]AccountSecret, error)
	// Reseal replaces an encrypted secret by another encryption of it. ErrStale if the
	// account has another one.
	Reseal(ctx context.Context, accountID int64, from, to Sealed) error
}

// PendingFactor is a secret that waits for its confirmation.
type PendingFactor struct {
	AccountID         int64
	SessionID         int64
	CredentialVersion int64
	Secret            Sealed
}

// AccountSecret is the secret of an account's second factor.
type AccountSecret struct {
	AccountID int64
	Secret    Sealed
}

// SecretCount is how many accounts have a second factor whose secret a key encrypts.
type SecretCount struct {
	Key      string
	Accounts int64
}

// PendingFactorLifetime is how long a secret waits for its confirmation (HTTP contract).
const PendingFactorLifetime = 10 * time.Minute

// OfferTwoFactor sets whether users can switch a second factor on: only while every
// plugin version that can run on the database asks for its code. Until the first call
// they cannot. Accounts that have a second factor need its code in any case. It may be
// called at any time.
func (s *Service) OfferTwoFactor(on bool) { s.offered.Store(on) }

// BeginTwoFactor implements [personal.Service].
func (s *Service) BeginTwoFactor(context.Context, personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
	return personal.TwoFactorSecret{}, refusal(personal.CodeNotFound)
}

// ConfirmTwoFactor implements [personal.Service].
func (s *Service) ConfirmTwoFactor(context.Context, personal.ConfirmTwoFactorRequest) ([]string, error) {
	return nil, refusal(personal.CodeNotFound)
}

// RenewRecoveryCodes implements [personal.Service].
func (s *Service) RenewRecoveryCodes(context.Context, personal.RenewRecoveryCodesRequest) ([]string, error) {
	return nil, refusal(personal.CodeNotFound)
}

// EndTwoFactor implements [personal.Service].
func (s *Service) EndTwoFactor(context.Context, personal.EndTwoFactorRequest) error {
	return refusal(personal.CodeNotFound)
}

// RemoveTwoFactor implements [personal.Administration].
func (s *Service) RemoveTwoFactor(context.Context, int64) error {
	return refusal(personal.CodeNotFound)
}
