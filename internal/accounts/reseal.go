package accounts

import (
	"context"
	"errors"
	"log/slog"

	"github.com/cms-personal/personal/internal/seal"
)

// resealPage is the number of secrets that ResealSecrets reads at once.
const resealPage = 500

// ResealSecrets encrypts the login key, and the secrets of second factors, that another key encrypts with the
// first key, so that the other key is no longer needed. It leaves and logs secrets whose
// key is missing, once per key, and those that are damaged. Without a first key it does
// nothing. It writes one secret at a time and only over the one that it has read: it may
// run on several nodes at once, and may be interrupted and repeated at any time. An error
// of the database ends it.
func (s *Service) ResealSecrets(ctx context.Context) error {
	keys := s.settings.Keys
	if keys.Primary() == "" {
		return nil
	}
	s.resealing.Lock()
	defer s.resealing.Unlock()
	if err := s.resealLoginKey(ctx, keys); err != nil {
		return err
	}
	counts, err := s.store.CountSecrets(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		switch {
		case c.Key == keys.Primary():
		case keys.Has(c.Key):
			if err := s.resealKey(ctx, keys, c.Key); err != nil {
				return err
			}
		case !s.missingKeys[c.Key]:
			if s.missingKeys == nil {
				s.missingKeys = map[string]bool{}
			}
			s.missingKeys[c.Key] = true
			s.log.ErrorContext(ctx, "a secret key is missing: second factors that it encrypts need recovery codes, and a login key that it encrypts is not used",
				slog.String("key", c.Key), slog.Int64("accounts", c.Accounts), slog.Bool("logins", c.LoginKey))
		}
	}
	return nil
}

// resealKey encrypts with the first key what another key encrypts.
func (s *Service) resealKey(ctx context.Context, keys *seal.Keyring, key string) error {
	resealed := 0
	for after := int64(0); ; {
		page, err := s.store.SecretsOfKey(ctx, key, after, resealPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, a := range page {
			after = a.AccountID
			secret, err := keys.Open(a.AccountID, key, a.Secret.Data)
			if err != nil {
				s.log.ErrorContext(ctx, "the secret of a second factor is damaged: an administrator can remove the factor",
					slog.Int64("user_id", a.AccountID), slog.Any("error", err))
				continue
			}
			var to Sealed
			to.Key, to.Data = keys.Seal(a.AccountID, secret)
			err = s.store.Reseal(ctx, a.AccountID, a.Secret, to)
			switch {
			case err == nil:
				resealed++
			case !errors.Is(err, ErrStale): // else the user or another node has changed it
				return err
			}
		}
	}
	if resealed > 0 {
		s.log.InfoContext(ctx, "encrypted the secrets of second factors with the first secret key",
			slog.String("from", key), slog.String("to", keys.Primary()), slog.Int("accounts", resealed))
	}
	return nil
}
