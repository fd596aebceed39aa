package accounts

import (
	"context"
	"errors"

	"github.com/cms-personal/personal/shared/personal"
)

// Refresh implements [personal.Service].
func (s *Service) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	for range tries {
		now := s.store.Now()
		who, err := s.recognise(ctx, c, now)
		if err != nil {
			return personal.Credentials{}, err
		}
		if who.standing == earlier {
			return s.repeat(ctx, who)
		}
		next := who.newest.Next(who.session.ChainKey)
		err = s.store.RotateSession(ctx, who.session.ID, who.session.Newest, next.Digest(), now)
		if errors.Is(err, ErrStale) {
			continue // somebody else rotated: look again, the hash is the predecessor now
		}
		if err != nil {
			return personal.Credentials{}, fail("rotating a session", err)
		}
		return credentials(who.account.ID, who.session.Selector, next), nil
	}
	return personal.Credentials{}, fail("rotating a session", ErrUnavailable)
}

// repeat answers a refresh whose response was lost or doubled: with the newest
// hash, the same to everybody, rotating nothing.
func (s *Service) repeat(ctx context.Context, who caller) (personal.Credentials, error) {
	if now := s.store.Now(); now.Sub(who.session.LastSeen) >= s.settings.seenEvery() {
		if err := s.store.TouchSession(ctx, who.session.ID, who.session.Newest, false, now); err != nil {
			return personal.Credentials{}, fail("noting the use of a session", err)
		}
	}
	return credentials(who.account.ID, who.session.Selector, who.newest), nil
}
