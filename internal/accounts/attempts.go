package accounts

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"strconv"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// Throttle says how often something may be tried. The zero value allows
// everything.
type Throttle struct {
	Enabled      bool
	Guess        throttle.Limit // passwords for one login from one address, right ones under way included
	GuessAddress throttle.Limit // passwords of all accounts from one address
	Register     throttle.Limit // registrations from one address
	Recover      throttle.Limit // recoveries asked for from one address
	Confirm      throttle.Limit // mailed tokens shown from one address
}

// guess is one password tried for a login, or an e-mail, from the caller's
// address. It is counted by what was typed, whether or not an account has it: a
// count that a login and an e-mail share would tell that they are one account's.
func (s *Service) guess(ctx context.Context, login string) []throttle.Charge {
	target := login
	if q := s.loginQuery(login); q.LoginKey != "" {
		target = q.LoginKey
	}
	from := source(ctx)
	return []throttle.Charge{
		{Key: chargeKey("guess", from, target), Limit: s.settings.Throttle.Guess},
		{Key: chargeKey("guess", from), Limit: s.settings.Throttle.GuessAddress},
	}
}

func (s *Service) registration(ctx context.Context) []throttle.Charge {
	return []throttle.Charge{{Key: chargeKey("register", source(ctx)), Limit: s.settings.Throttle.Register}}
}

func (s *Service) recovery(ctx context.Context) []throttle.Charge {
	return []throttle.Charge{{Key: chargeKey("recover", source(ctx)), Limit: s.settings.Throttle.Recover}}
}

func (s *Service) confirmation(ctx context.Context) []throttle.Charge {
	return []throttle.Charge{{Key: chargeKey("confirm", source(ctx)), Limit: s.settings.Throttle.Confirm}}
}

// charge counts an attempt, or refuses it before any costly work is done.
func (s *Service) charge(ctx context.Context, attempt []throttle.Charge) error {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	wait, err := s.store.Charge(ctx, attempt, s.store.Now())
	if err != nil {
		return fail("counting an attempt", err)
	}
	if wait > 0 {
		return &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: wait}
	}
	return nil
}

// refund gives an attempt back that was no guess, or a right one. One that is
// lost costs the caller an attempt and nothing else.
func (s *Service) refund(ctx context.Context, attempt []throttle.Charge) {
	if !s.settings.Throttle.Enabled {
		return
	}
	if err := s.store.Refund(ctx, attempt); err != nil {
		s.log.WarnContext(ctx, "an attempt could not be given back", slog.Any("error", err))
	}
}

// source is where a call comes from: the address, or the network that one
// customer has of IPv6 (HTTP contract, section 5).
func source(ctx context.Context) string {
	address := personal.CallFrom(ctx).Address.Unmap()
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// chargeKey digests what an attempt is counted against: nothing typed is kept.
func chargeKey(parts ...string) [32]byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(strconv.Itoa(len(part))))
		h.Write([]byte{':'})
		h.Write([]byte(part))
	}
	return [32]byte(h.Sum(nil))
}
