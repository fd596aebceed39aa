package accounts

import (
	"context"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// KnownAddressStore keeps the addresses that users have signed in from.
type KnownAddressStore interface {
	// KnownAddress returns what an address is to the account that q finds. Zero if there is
	// no such account, or the address was not used since the given time.
	KnownAddress(ctx context.Context, q AccountQuery, address string, since time.Time) (KnownAddress, error)
	// AddKnownAddress stores, at most once a day, that the account's user is at the address.
	// It is fully known if full is set; else that stays as it is. Of more addresses than
	// personal.MaxKnownAddresses, the ones unused for longest are removed. A missing account is not an error.
	AddKnownAddress(ctx context.Context, accountID int64, at KnownAt, full bool) error
}

// KnownAt names the caller's address in the form in which known addresses are stored.
type KnownAt struct {
	Address string    // "": the call has none
	After   time.Time // an address that was not used since then is not known
}

// KnownAddress is what an address is to an account (HTTP contract, section 5).
type KnownAddress struct {
	Since time.Time // when the address became known; zero: it is not known
	Full  bool      // fully known: a sign-in was completed there, or a session kept, since the account's credentials changed last
	Codes bool      // counts as fully known for codes: it is, or was until a recovery that was completed there
}

// Known reports whether the address is known.
func (k KnownAddress) Known() bool { return !k.Since.IsZero() }

// KnownAddressLifetime is how long an address is known after the last sign-in from
// it: 90 days, and always longer than a session, so that the address is still known
// when the session that began there expires.
func (s Settings) KnownAddressLifetime() time.Duration {
	return max(90*24*time.Hour, 2*s.SessionAbsolute)
}

// callersAddress returns what the caller's address is to the account that q finds; nothing
// with throttling off, where it does not matter. An address that many callers seem to share
// has no privileges of a fully known one: all of them would have these.
func (s *Service) callersAddress(ctx context.Context, q AccountQuery) (KnownAddress, error) {
	if !s.settings.Throttle.Enabled {
		return KnownAddress{}, nil
	}
	known, err := s.store.KnownAddress(ctx, q, source(ctx), s.knownSince())
	if personal.CallFrom(ctx).Shared {
		known.Full, known.Codes = false, false
	}
	return known, fail("looking for a known address", err)
}

// knownSince returns the time at or before which a sign-in makes no address known any more.
func (s *Service) knownSince() time.Time {
	return s.store.Now().Add(-s.settings.KnownAddressLifetime())
}

// addKnownAddress stores the caller's address as a known address of the account, and as a
// fully known one if full is set, even if the caller has hung up, and with throttling off,
// which may be switched on later. A failure may cost the user a wait while others guess
// their password.
func (s *Service) addKnownAddress(ctx context.Context, accountID int64, full bool) {
	at := s.knownAt(ctx)
	if at.Address == "" {
		return
	}
	if err := s.store.AddKnownAddress(context.WithoutCancel(ctx), accountID, at, full); err != nil {
		s.log.WarnContext(ctx, "a known address could not be stored", slog.Any("error", err))
	}
}

// knownAt returns the caller's address as known addresses are stored.
func (s *Service) knownAt(ctx context.Context) KnownAt {
	at := KnownAt{After: s.knownSince()}
	if personal.CallFrom(ctx).Address.IsValid() {
		at.Address = source(ctx)
	}
	return at
}
