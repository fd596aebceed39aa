package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// IdentityStore keeps the identities of accounts at providers.
type IdentityStore interface {
	// LinkIdentity stores that an identity is an account's, and the jobs. If it is that already,
	// nothing changes. ErrNotFound without such an
	// account; with a proof, ErrStale if the account is disabled or its credential version has
	// changed, and ErrProofVoid; ErrIdentityTaken; ErrTooManyIdentities; else the error of l.May.
	LinkIdentity(ctx context.Context, l LinkIdentity) error
	// FindIdentity returns the account that has an identity. ErrNotFound.
	FindIdentity(ctx context.Context, i personal.Identity) (accountID int64, err error)
	// Identities returns the account's identities, the latest first.
	Identities(ctx context.Context, accountID int64) ([]StoredIdentity, error)
	// UnlinkIdentity removes an identity of an account, as RemoveOtherWaysIn does with all, and
	// stores the jobs. If the account has no such identity, nothing changes. ErrLastWayIn;
	// ErrNotFound, ErrStale and ErrProofVoid as LinkIdentity.
	UnlinkIdentity(ctx context.Context, u LinkIdentity) error
	// EndIdentitySessions ends the sessions that an identity has opened, of one session at its provider unless
	// that is empty, stores the jobs if there were any, and returns the account. ErrNotFound.
	EndIdentitySessions(ctx context.Context, i personal.Identity, providerSession string, jobs func(accountID int64) []NewJob) (int64, error)
}

// LinkIdentity says what LinkIdentity and UnlinkIdentity of the store change.
type LinkIdentity struct {
	Identity          personal.Identity
	AccountID         int64
	Proof             ProofUse // of the user who asks; zero: the host asks
	CredentialVersion int64    // with a proof
	// May decides under a lock of the account whether an identity is linked, by its ways in
	// before. Jobs returns what is stored. Neither may use the store.
	May  func(Account, WaysIn) error
	Jobs func(Account) []NewJob
}

// WaysIn are the ways into an account besides a password and a recovery by mail.
type WaysIn struct {
	OtherWays
	Used bool // there is or was a session
}

// StoredIdentity is an identity of an account.
type StoredIdentity struct {
	personal.Identity
	AccountID int64
	Linked    time.Time
	LastUsed  time.Time // zero: not since it was linked
}

// Described is what its user and administrators see of an identity.
func (i StoredIdentity) Described() personal.LinkedIdentity {
	return personal.LinkedIdentity{Identity: i.Identity, Linked: i.Linked, LastUsed: i.LastUsed}
}

// Check returns an error that says why an identity cannot be one that was linked, without its
// values.
func (i StoredIdentity) Check() error {
	if len(checkIdentity(i.Identity)) > 0 {
		return fmt.Errorf("issuer and subject must have 1 to %d bytes", personal.MaxIdentityPart)
	}
	return nil
}

var (
	// ErrIdentityTaken means that an identity is another account's.
	ErrIdentityTaken = errors.New("the identity is another account's")
	// ErrTooManyIdentities means that the account has as many as it may have.
	ErrTooManyIdentities = errors.New("the account has too many identities")
)

// LinkIdentity implements [personal.Administration].
func (s *Service) LinkIdentity(ctx context.Context, r personal.LinkIdentityRequest) error {
	l, by, err := s.changeIdentity(ctx, r.Identity, r.Credentials, r.Proof, r.UserID, s.mayEnrol)
	if err != nil {
		return err
	}
	l.May = mayLinkFirst
	if l.Proof != (ProofUse{}) {
		l.May = func(Account, WaysIn) error { return nil }
	}
	l.Jobs = func(a Account) []NewJob {
		return s.reports(ctx, by, personal.EventIdentityLinked, mailtext.IdentityLinked, a.ID, a.Email)
	}
	return s.changedIdentity(ctx, l, "linking an identity", s.store.LinkIdentity(ctx, l))
}

// changeIdentity checks a request to link or unlink an identity: of a user whom may does not
// refuse, or, without credentials, of the host for the user with an id. It returns the change
// without May and Jobs, and who asks.
func (s *Service) changeIdentity(ctx context.Context, i personal.Identity, user personal.Credentials, proof string, userID int64,
	may func(Account) error) (l LinkIdentity, by personal.Actor, err error) {
	l, by = LinkIdentity{Identity: i, AccountID: userID}, personal.ActorAdministrator
	invalid := checkIdentity(i)
	if user != (personal.Credentials{}) {
		who, err := s.identifyWrite(ctx, user, WholeAccount)
		if err == nil {
			err = may(who.account)
		}
		if err != nil {
			return l, by, err
		}
		require(&invalid, "proof", proof)
		use, valid := s.proofUse(who, evidence{proof: proof})
		if !valid {
			invalid.Add("proof", personal.FieldErrorMismatch)
		}
		by = personal.ActorUser
		l.AccountID, l.CredentialVersion = who.account.ID, who.account.CredentialVersion
		l.Proof = use
	}
	return l, by, invalid.Err()
}

// mayLinkFirst allows a first identity without a proof, for an account that no one can have
// signed in to.
func mayLinkFirst(a Account, ways WaysIn) error {
	if a.PasswordHash == password.Unusable && ways == (WaysIn{}) {
		return nil
	}
	return personal.FieldErrors{"proof": personal.FieldErrorRequired}.Err()
}

// checkIdentity returns what is wrong with an identity.
func checkIdentity(i personal.Identity) (invalid personal.FieldErrors) {
	for parameter, value := range map[string]string{"issuer": i.Issuer, "subject": i.Subject} {
		require(&invalid, parameter, value)
		if len(value) > personal.MaxIdentityPart {
			invalid.Add(parameter, personal.FieldErrorTooLong)
		}
	}
	return invalid
}

// changedIdentity ends an operation that links or unlinks an identity; err is the outcome of its
// write.
func (s *Service) changedIdentity(ctx context.Context, l LinkIdentity, doing string, err error) error {
	switch {
	case errors.Is(err, ErrIdentityTaken):
		return &personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"subject": personal.FieldErrorTaken}}
	case errors.Is(err, ErrTooManyIdentities):
		return refusal(personal.CodeTooManyIdentities)
	case l.Proof != (ProofUse{}):
		return s.authorized(ctx, checkedCode{}, doing, err)
	}
	return s.committed(personal.CodeNotFound, doing, err)
}

// FindIdentity implements [personal.Administration].
func (s *Service) FindIdentity(ctx context.Context, i personal.Identity) (userID int64, err error) {
	if err := checkIdentity(i).Err(); err != nil {
		return 0, err
	}
	userID, err = s.store.FindIdentity(ctx, i)
	return userID, failWith(personal.CodeNotFound, "finding an identity", err)
}

// UnlinkIdentity implements [personal.Administration].
func (s *Service) UnlinkIdentity(ctx context.Context, r personal.UnlinkIdentityRequest) error {
	u, by, err := s.changeIdentity(ctx, r.Identity, r.Credentials, r.Proof, r.UserID, func(Account) error { return nil })
	if err != nil {
		return err
	}
	u.Jobs = func(a Account) []NewJob { return s.waysRemoved(ctx, by, a, OtherWays{Identities: 1}) }
	return s.changedIdentity(ctx, u, "unlinking an identity", s.store.UnlinkIdentity(ctx, u))
}
