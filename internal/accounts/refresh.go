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
			// An answer was lost or doubled: the newest hash, the same to everybody,
			// and nothing is rotated.
			if err := s.noteUse(ctx, who, now); err != nil {
				return personal.Credentials{}, err
			}
			return credentials(who.account.ID, who.session.Selector, who.newest), nil
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
