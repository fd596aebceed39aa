package accounts

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// SessionStore finds, rotates, lists and revokes sessions.
type SessionStore interface {
	// FindSession returns a session by the token's selector, and the given part of its
	// account. It reads Address, Agent, Method and Proof only with the whole account. ErrNotFound.
	FindSession(ctx context.Context, s token.Selector, part AccountPart) (Session, Account, error)
	// RotateSession stores what a rotation changes of a session (Current, Rotated,
	// Used, LastSeen, Rotations, Marks), and the time of the write as a Created that is false, if
	// its current digest is still that of s; else ErrStale. It calls rotated with the time of
	// the write to get the changed session, and again if the write is repeated; rotated must
	// not use the store. If ctx ends first, the write may still happen.
	RotateSession(ctx context.Context, s Session, rotated func(now time.Time) Session) error
	// TouchSession sets LastSeen to the time of the write, and likewise Created, Rotated and
	// Used where they are false. A missing session is not an error.
	TouchSession(ctx context.Context, t SessionTouch) error
	// Sessions returns the account's sessions that are alive by the given limits, the
	// last used first.
	Sessions(ctx context.Context, accountID int64, l Lifetimes) ([]Session, error)
	// RevokeSession removes one session of the account, and stores the jobs if it had it; a missing
	// one is not an error.
	RevokeSession(ctx context.Context, accountID, id int64, jobs ...NewJob) error
	// RevokeOtherSessions removes every session of the account but one, and stores the jobs if
	// it had another. ErrNotFound if the account does not have that session (any more).
	RevokeOtherSessions(ctx context.Context, accountID, keep int64, jobs ...NewJob) error
	// RevokeStolenSession removes a session and stores the jobs, if its current digest
	// is still that of s; else ErrStale.
	RevokeStolenSession(ctx context.Context, s Session, jobs ...NewJob) error
	// RevokeSessions removes every session of the account, and stores the jobs if it had any.
	// With voidAddresses no address of the account is fully known any more, whether or not it
	// had a session.
	RevokeSessions(ctx context.Context, accountID int64, voidAddresses bool, jobs ...NewJob) error
}

// AccountPart says how much of an account is read with a session.
type AccountPart int

// The parts of an account; each includes the previous one.
const (
	AccountState   AccountPart = iota // ID and Disabled
	AccountProfile                    // Login, Name, Email.Address, Fields, PasswordHash and whether there is a second factor
	WholeAccount
)

// Session is a stored session. It holds no usable token: the current secret is
// stored as a digest, and the chain key derives nothing without a secret.
type Session struct {
	ID        int64
	AccountID int64
	Selector  token.Selector
	ChainKey  token.ChainKey
	Current   [32]byte  // digest of the current secret
	Created   time.Time // at sign-in
	Rotated   time.Time // when the current secret was made
	Used      time.Time // first use of the current secret; zero if it has not been used
	LastSeen  time.Time
	Address   string
	Agent     string
	Rotations int64          // since the sign-in, as far as they were counted
	Marks     []RotationMark // the oldest first; the last one is the last counted rotation
	Proof     Proof          // only as FindSession returns it with the whole account
	Method    string         // how it began, see [personal.Session]
	PasskeyID int64          // of the passkey that began it; 0: none

	// Of the identity that began it. They are stored as digests, and never read.
	Identity        personal.Identity
	ProviderSession string
}

// SessionTouch says that a session is in use. Used and Marks count only if the current digest has
// not changed.
type SessionTouch struct {
	ID      int64
	Current [32]byte
	Used    bool           // the current hash was used: its first use is stored, if it has none
	Marks   []RotationMark // in place of the stored ones; nil leaves these
}

// Lifetimes are the limits for sessions that are alive: last seen after SeenAfter
// and created after CreatedAfter.
type Lifetimes struct{ SeenAfter, CreatedAfter time.Time }

// Alive reports whether s has not expired.
func (l Lifetimes) Alive(s Session) bool {
	return s.LastSeen.After(l.SeenAfter) && s.Created.After(l.CreatedAfter)
}

// signedIn completes a sign-in or a registration whose session is stored.
func (s *Service) signedIn(a Account, session Session, secret token.Secret, schema *userfields.Schema) personal.SignedIn {
	s.wake()
	return personal.SignedIn{
		Credentials: credentials(a.ID, session.Selector, secret),
		Profile:     profile(a, schema),
	}
}

// Refresh implements [personal.Service].
func (s *Service) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	for try := range tries {
		now := s.store.Now()
		who, err := s.verify(ctx, c, AccountState, now)
		if err == nil && try == 0 {
			err = s.chargeWrite(ctx, who)
		}
		if err != nil {
			return personal.Credentials{}, err
		}
		if who.hash == superseded {
			// A response was lost, or a request repeated: every caller gets the same
			// current hash, and nothing is rotated.
			s.touch(ctx, &who, now)
			return credentials(who.account.ID, who.session.Selector, who.secret), nil
		}
		next := who.secret.Next(who.session.ChainKey)
		digest := next.Digest()
		err = s.store.RotateSession(ctx, who.session, func(now time.Time) Session {
			return who.session.rotate(digest, now, s.settings.SupersededGrace)
		})
		if errors.Is(err, ErrStale) {
			continue // another request has rotated: the hash is the predecessor now
		}
		if err != nil {
			return personal.Credentials{}, fail("rotating a session", err)
		}
		return credentials(who.account.ID, who.session.Selector, next), nil
	}
	return personal.Credentials{}, fail("rotating a session", ErrUnavailable)
}

// Sessions implements [personal.Service].
func (s *Service) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	who, err := s.identify(ctx, c, AccountState)
	if err != nil {
		return nil, err
	}
	return s.sessionsOf(ctx, who.account.ID, who.session.ID)
}

// sessionsOf lists an account's sessions that are alive; current is the id of the
// caller's own, 0 for none.
func (s *Service) sessionsOf(ctx context.Context, accountID, current int64) ([]personal.Session, error) {
	stored, err := s.store.Sessions(ctx, accountID, s.settings.Lifetimes(s.store.Now()))
	if err != nil {
		return nil, fail("listing sessions", err)
	}
	sessions := make([]personal.Session, 0, len(stored))
	for _, session := range stored {
		session, _ = session.truthful(s.store.Now())
		sessions = append(sessions, personal.Session{
			ID:       strconv.FormatInt(session.ID, 10),
			Created:  session.Created,
			LastSeen: session.LastSeen,
			Expires:  s.settings.expiry(session),
			Address:  session.Address,
			Agent:    session.Agent,
			Current:  session.ID == current,
			Method:   session.Method,
		})
	}
	return sessions, nil
}

// RevokeSession implements [personal.Service].
func (s *Service) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	who, err := s.identifyWrite(ctx, r.Credentials, AccountState)
	if err != nil {
		return err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "id", r.ID)
	if err := invalid.Err(); err != nil {
		return err
	}
	return fail("revoking a session", s.store.RevokeSession(ctx, who.account.ID, parseID(r.ID)))
}

// RevokeOtherSessions implements [personal.Service].
func (s *Service) RevokeOtherSessions(ctx context.Context, c personal.Credentials) error {
	who, err := s.identifyWrite(ctx, c, AccountState)
	if err != nil {
		return err
	}
	signedOut := s.event(ctx, personal.ActorUser, personal.EventUserSignedOut, who.account.ID)
	err = s.store.RevokeOtherSessions(ctx, who.account.ID, who.session.ID, signedOut)
	// The caller's session may have been revoked since: it must not end those of others.
	return s.committed(personal.CodeUnauthenticated, "revoking all other sessions", err)
}

// identifyWrite is identify, and charges a writing operation to the session.
func (s *Service) identifyWrite(ctx context.Context, c personal.Credentials, part AccountPart) (caller, error) {
	who, err := s.identify(ctx, c, part)
	if err == nil {
		err = s.chargeWrite(ctx, who)
	}
	return who, err
}

// Logout implements [personal.Service].
func (s *Service) Logout(ctx context.Context, r personal.LogoutRequest) error {
	who, err := s.identify(ctx, r.Credentials, AccountState)
	if err == nil {
		err = r.FieldErrors.Err()
	}
	switch {
	case err != nil:
	case r.All:
		err = s.store.RevokeSessions(ctx, who.account.ID, false)
	default:
		err = s.store.RevokeSession(ctx, who.account.ID, who.session.ID)
	}
	return fail("signing out", err)
}
