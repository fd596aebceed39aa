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
	// UnlinkIdentity removes an identity of an account, ends every session of the account whose
	// method is not of ModuleMethods, and stores the jobs. If the account has no such
	// identity, nothing changes. Errors are those of LinkIdentity.
	UnlinkIdentity(ctx context.Context, u LinkIdentity) error
}

// LinkIdentity says what LinkIdentity and UnlinkIdentity of the store change.
type LinkIdentity struct {
	Identity          personal.Identity
	AccountID         int64
	Proof             ProofUse // of the user who asks; zero: the host asks
	CredentialVersion int64    // with a proof
	WithCode          bool     // the proof was given by a code
	// May decides under a lock of the account, by its ways in: when an identity is linked those
	// before, when one is removed those after. Jobs returns what is stored. Neither may use the
	// store.
	May  func(Account, WaysIn) error
	Jobs func(Account) []NewJob
}

// WaysIn are the ways into an account besides a password and a recovery by mail.
type WaysIn struct {
	Passkeys   int
	Identities int
	Used       bool // there is or was a session
}

// StoredIdentity is an identity of an account.
type StoredIdentity struct {
	personal.Identity
	AccountID int64
	WithCode  bool // it was linked with a code of the second factor in force
	Linked    time.Time
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
	change := identityChange{r.Identity, r.Credentials, r.Proof, r.UserID, personal.EventIdentityLinked, mailtext.IdentityLinked}
	l, err := s.changeIdentity(ctx, change, mayLinkFirst)
	if err != nil {
		return err
	}
	if l.Proof != (ProofUse{}) {
		l.May = func(Account, WaysIn) error { return nil }
	}
	return s.changedIdentity(ctx, l, "linking an identity", s.store.LinkIdentity(ctx, l))
}

// identityChange is a request to link or unlink an identity, and what reports it.
type identityChange struct {
	identity personal.Identity
	user     personal.Credentials // zero: the host asks for userID
	proof    string
	userID   int64
	event    personal.EventType
	notice   mailtext.Kind
}

// changeIdentity checks the request of a user, or of the host for one.
func (s *Service) changeIdentity(ctx context.Context, c identityChange, may func(Account, WaysIn) error) (LinkIdentity, error) {
	l, by := LinkIdentity{Identity: c.identity, AccountID: c.userID, May: may}, personal.ActorAdministrator
	invalid := checkIdentity(c.identity)
	if c.user != (personal.Credentials{}) {
		who, err := s.identifyWrite(ctx, c.user, WholeAccount)
		if err == nil && c.event == personal.EventIdentityLinked {
			err = s.mayEnrol(who.account)
		}
		if err != nil {
			return l, err
		}
		require(&invalid, "proof", c.proof)
		if !s.proves(who, c.proof) {
			invalid.Add("proof", personal.FieldErrorMismatch)
		}
		by = personal.ActorUser
		l.AccountID, l.CredentialVersion = who.account.ID, who.account.CredentialVersion
		l.Proof, l.WithCode = s.proofUse(who), who.session.Proof.WithCode
	}
	l.Jobs = func(a Account) []NewJob { return s.reports(ctx, by, c.event, c.notice, a.ID, a.Email) }
	return l, invalid.Err()
}

// mayLinkFirst allows a first identity without a proof, for an account that no one can have
// signed in to.
func mayLinkFirst(a Account, ways WaysIn) error {
	if password.IsUnusable(a.PasswordHash) && ways == (WaysIn{}) {
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
	change := identityChange{r.Identity, r.Credentials, r.Proof, r.UserID, personal.EventIdentityUnlinked, mailtext.IdentityUnlinked}
	u, err := s.changeIdentity(ctx, change, mayUnlink)
	if err != nil {
		return err
	}
	return s.changedIdentity(ctx, u, "unlinking an identity", s.store.UnlinkIdentity(ctx, u))
}

// mayUnlink keeps an account from losing its last way in.
func mayUnlink(a Account, left WaysIn) error {
	if !a.HasWayIn() && left.Passkeys == 0 && left.Identities == 0 {
		return refusal(personal.CodeLastWayIn)
	}
	return nil
}

// OtherWaysIn returns the passkeys of an account, whether or not the site has passkeys, and its
// identities, each the latest first.
func (s *Service) OtherWaysIn(ctx context.Context, a Account) (passkeys []personal.Passkey, identities []personal.LinkedIdentity,
	err error) {
	keys, err := s.store.Passkeys(ctx, a.ID)
	if err != nil {
		return nil, nil, fail("reading passkeys", err)
	}
	stored, err := s.store.Identities(ctx, a.ID)
	if err != nil {
		return nil, nil, fail("reading identities", err)
	}
	for _, i := range stored {
		identities = append(identities, personal.LinkedIdentity{Identity: i.Identity, Linked: i.Linked})
	}
	return passkeysOf(keys), identities, nil
}
