package accounts

import (
	"context"
	"maps"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
)

// Sessions implements [personal.Service].
func (s *Service) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	who, err := s.identify(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.sessionsOf(ctx, who.account.ID, who.session.ID)
}

// sessionsOf lists an account's living sessions; current is the id of the one
// that asks, 0 if none does.
func (s *Service) sessionsOf(ctx context.Context, accountID, current int64) ([]personal.Session, error) {
	stored, err := s.store.Sessions(ctx, accountID, s.settings.Lifetimes(s.store.Now()))
	if err != nil {
		return nil, fail("listing sessions", err)
	}
	sessions := make([]personal.Session, 0, len(stored))
	for _, session := range stored {
		sessions = append(sessions, personal.Session{
			ID:       strconv.FormatInt(session.ID, 10),
			Created:  session.Created,
			LastSeen: session.LastSeen,
			Expires:  s.settings.expiry(session),
			Address:  session.Address,
			Agent:    session.Agent,
			Current:  session.ID == current,
		})
	}
	return sessions, nil
}

// RevokeSession implements [personal.Service].
func (s *Service) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	who, err := s.identify(ctx, r.Credentials)
	if err == nil {
		err = s.chargeWrite(ctx, who)
	}
	if err != nil {
		return err
	}
	faults := maps.Clone(r.FieldErrors)
	require(&faults, "id", r.ID)
	if err := faults.Err(); err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.ID, 10, 64)
	if err != nil {
		return nil // nobody's session has such an id
	}
	if err := s.store.EndSession(ctx, who.account.ID, id); err != nil {
		return fail("ending a session", err)
	}
	return nil
}

// Logout implements [personal.Service].
func (s *Service) Logout(ctx context.Context, r personal.LogoutRequest) error {
	who, err := s.identify(ctx, r.Credentials)
	if err != nil {
		return err
	}
	if err := r.FieldErrors.Err(); err != nil {
		return err
	}
	if r.All {
		err = s.store.EndSessions(ctx, who.account.ID)
	} else {
		err = s.store.EndSession(ctx, who.account.ID, who.session.ID)
	}
	if err != nil {
		return fail("signing out", err)
	}
	return nil
}
