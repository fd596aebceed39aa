package accounts

import (
	"context"
	"errors"

	"github.com/cms-personal/personal/shared/personal"
)

// Refresh implements [personal.Service].
func (s *Service) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	for try := range tries {
		now := s.store.Now()
		who, err := s.recognise(ctx, c, now)
		if err != nil {
			return personal.Credentials{}, err
		}
		if try == 0 {
			if err := s.chargeWrite(ctx, who); err != nil {
				return personal.Credentials{}, err
			}
		}
		if who.standing == superseded {
			// A response was lost or doubled: the current hash, the same for every
			// caller, and nothing is rotated.
			s.noteUse(ctx, who, now)
			return credentials(who.account.ID, who.session.Selector, who.secret), nil
		}
		next := who.secret.Next(who.session.ChainKey)
		err = s.store.RotateSession(ctx, who.session.Newest, who.session.rotate(next.Digest(), now, s.settings.SessionGrace))
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
