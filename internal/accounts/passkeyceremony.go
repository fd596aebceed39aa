package accounts

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// MaxCeremonies is how many attempts wait in one session.
const MaxCeremonies = 10

// PasskeyCeremony is a ceremony that waits in a session.
type PasskeyCeremony struct {
	Digest            [32]byte
	SessionID         int64
	Purpose           personal.PasskeyPurpose // passkeyAdd: an addition
	Challenge         passkey.Challenge
	CredentialVersion int64
	WithCode          bool // see Passkey.WithCode
}

// passkeyAdd is the purpose of attempts that passkeys_add/ begins.
const passkeyAdd personal.PasskeyPurpose = "add"

// CeremonyUse is an attempt whose response was found right. The transaction that it authorises
// uses it up, or fails with ErrCeremonyUsed.
type CeremonyUse struct {
	Digest    [32]byte
	SessionID int64     // 0: it was sealed
	Expires   time.Time // of a sealed one
}

// BeginPasskey implements [personal.Service]. For a sign-in it asks the database nothing, except
// for the key of attempts when the process needs that first.
func (s *Service) BeginPasskey(ctx context.Context, r personal.BeginPasskeyRequest) (started personal.PasskeyCeremony, err error) {
	if err := s.offersPasskeys(); err != nil {
		return started, err
	}
	var who caller
	if r.Purpose == personal.PasskeyProve {
		if who, err = s.identifyWrite(ctx, r.Credentials, WholeAccount); err != nil {
			return started, err
		}
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "purpose", string(r.Purpose))
	if r.Purpose != personal.PasskeySignIn && r.Purpose != personal.PasskeyProve {
		invalid.Add("purpose", personal.FieldErrorNotInList) // unless it is missing
	}
	if err := invalid.Err(); err != nil {
		return started, err
	}
	if r.Purpose == personal.PasskeySignIn {
		return s.beginSignIn(ctx)
	}
	list, err := s.store.Passkeys(ctx, who.account.ID)
	if err != nil {
		return started, fail("reading passkeys", err)
	}
	text, attempt := newCeremony(who, personal.PasskeyProve)
	if err := s.store.AddCeremony(ctx, attempt); err != nil {
		return started, failWith(personal.CodeUnauthenticated, "storing an attempt", err)
	}
	return personal.PasskeyCeremony{Attempt: text, Options: s.settings.Passkeys.RequestOptions(attempt.Challenge[:], keysOf(list))}, nil
}

// newCeremony returns an attempt of the caller's session, and its text.
func newCeremony(who caller, purpose personal.PasskeyPurpose) (text string, a PasskeyCeremony) {
	text, digest := token.NewMailToken()
	return text, PasskeyCeremony{
		Digest: digest, SessionID: who.session.ID, Purpose: purpose, Challenge: passkey.NewChallenge(),
		CredentialVersion: who.account.CredentialVersion,
	}
}

// beginSignIn returns a sealed attempt: anyone may ask for any number of them.
func (s *Service) beginSignIn(ctx context.Context) (started personal.PasskeyCeremony, err error) {
	key, err := s.ceremonyKey(ctx)
	if err != nil {
		return started, err
	}
	challenge := passkey.NewChallenge()
	return personal.PasskeyCeremony{
		Attempt: passkey.Seal(key, challenge, s.store.Now().Add(passkey.AttemptLifetime)),
		Options: s.settings.Passkeys.RequestOptions(challenge[:], nil),
	}, nil
}

// ceremonyKey returns the key that seals attempts, which all processes of the site share.
func (s *Service) ceremonyKey(ctx context.Context) ([]byte, error) {
	key, err := s.siteKey(ctx, &s.sealKey, "passkey attempts")
	return key, fail("reading the key of attempts", err)
}

// findCeremony finds an attempt of the caller's session. passkey.ErrInvalid; unauthenticated if the
// session has ended since.
func (s *Service) findCeremony(ctx context.Context, who caller, text string, purpose personal.PasskeyPurpose) (a PasskeyCeremony, err error) {
	digest, ok := token.MailDigest(text)
	if !ok {
		return a, passkey.ErrInvalid
	}
	after := s.store.Now().Add(-passkey.AttemptLifetime)
	a, err = s.store.FindCeremony(ctx, who.session.ID, who.account.CredentialVersion, digest, after)
	if errors.Is(err, ErrNotFound) || err == nil && a.Purpose != purpose {
		return a, passkey.ErrInvalid
	}
	return a, failWith(personal.CodeUnauthenticated, "finding an attempt", err)
}
