package accounts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// Throttle says how often something may be tried. The zero value allows
// everything.
type Throttle struct {
	Enabled      bool
	Guess        throttle.Limit // passwords for one login from one address, right ones under way included
	GuessAddress throttle.Limit // passwords of all accounts from one address
	GuessAccount throttle.Limit // passwords for one login from all addresses where its owner has not been lately
	Register     throttle.Limit // registrations from one address
	Recover      throttle.Limit // recoveries asked for from one address
	RecoverAll   throttle.Limit // recoveries that wait at once: each is a row until it is done
	Confirm      throttle.Limit // mailed tokens shown from one address
}

// MostPlaces is how many places of an account are known. Its owner is not locked
// out from where he has been lately, whoever guesses elsewhere. The longest unseen
// goes.
const MostPlaces = 20

// PlaceLife is how long a place is known after the last sign-in there: for longer
// than a session lives, so that nobody is a stranger where his has just ended.
func (s Settings) PlaceLife() time.Duration {
	return max(90*24*time.Hour, 2*s.SessionAbsolute)
}

// guess charges one password tried for a login, or an e-mail, from the caller's
// address. A request in which nothing is to be judged is refused like another,
// but charged nothing and spared the writing.
func (s *Service) guess(ctx context.Context, login string, judged bool) ([]throttle.Charge, error) {
	if !s.settings.Throttle.Enabled {
		return nil, nil
	}
	attempt, err := s.guessCharges(ctx, login)
	if err != nil {
		return nil, err
	}
	if !judged {
		wait, err := s.store.Wait(ctx, attempt, s.store.Now())
		return nil, s.admit(ctx, wait, err)
	}
	return attempt, s.charge(ctx, attempt)
}

// guessCharges are what a guess is counted by; the first is the login and the
// address. It is the login as typed, whether or not an account has it: a count
// that a login and an e-mail share would tell that they are one account's.
func (s *Service) guessCharges(ctx context.Context, login string) ([]throttle.Charge, error) {
	limits, q := s.settings.Throttle, s.loginQuery(login)
	target, from := cmp.Or(q.LoginKey, login), source(ctx)
	known, err := s.store.KnownPlace(ctx, q, from, s.store.Now().Add(-s.settings.PlaceLife()))
	if err != nil {
		return nil, fail("looking for a place", err)
	}
	attempt := []throttle.Charge{{Key: chargeKey("guess", from, target), Limit: limits.Guess}}
	attempt = append(attempt, perAddress(ctx, "guess", limits.GuessAddress)...)
	if !known && target != "" { // what is no guess of an account is nobody's to share
		attempt = append(attempt, throttle.Charge{Key: chargeKey("guess of", target), Limit: limits.GuessAccount})
	}
	return attempt, nil
}

// sharedBy is how many times as much is allowed of an address that many callers
// seem to share: enough not to lock a site out whose proxy nobody listed, and a
// bound for who makes his address look like one.
const sharedBy = 10

// perAddress charges an attempt to the caller's address. One that is unknown is
// nobody's: its limit would lock all of them out.
func perAddress(ctx context.Context, what string, limit throttle.Limit) []throttle.Charge {
	call := personal.CallFrom(ctx)
	if call.Shared {
		limit = throttle.Limit{Burst: limit.Burst * sharedBy, Every: limit.Every / sharedBy}
	} else if !call.Address.IsValid() {
		return nil
	}
	return []throttle.Charge{{Key: chargeKey(what, source(ctx)), Limit: limit}}
}

func (s *Service) chargeRegistration(ctx context.Context) error {
	return s.charge(ctx, perAddress(ctx, "register", s.settings.Throttle.Register))
}

func (s *Service) chargeRecovery(ctx context.Context) error {
	return s.charge(ctx, append(perAddress(ctx, "recover", s.settings.Throttle.Recover), s.waitingRecovery()...))
}

// waitingRecovery charges a recovery to those that wait. It is given back once
// there is none: what nobody has to wait for keeps nobody from asking.
func (s *Service) waitingRecovery() []throttle.Charge {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	return []throttle.Charge{{Key: chargeKey("recover"), Limit: s.settings.Throttle.RecoverAll}}
}

func (s *Service) chargeConfirmation(ctx context.Context) error {
	return s.charge(ctx, perAddress(ctx, "confirm", s.settings.Throttle.Confirm))
}

// charge counts an attempt, or refuses it before any costly work is done.
func (s *Service) charge(ctx context.Context, attempt []throttle.Charge) error {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	wait, err := s.store.Charge(ctx, attempt, s.store.Now())
	return s.admit(ctx, wait, err)
}

// admit refuses an attempt that has to wait.
func (s *Service) admit(ctx context.Context, wait time.Duration, err error) error {
	if err != nil {
		return fail("counting an attempt", err)
	}
	if wait > 0 {
		s.throttled(ctx)
		return &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: wait}
	}
	return nil
}

// refund gives an attempt back that was no guess, or a right one, whether or not
// the caller still waits for an answer. One that is lost costs him an attempt and
// nothing else.
func (s *Service) refund(ctx context.Context, attempt []throttle.Charge) {
	if len(attempt) == 0 {
		return
	}
	if err := s.store.Refund(context.WithoutCancel(ctx), attempt); err != nil {
		s.log.WarnContext(ctx, "an attempt could not be given back", slog.Any("error", err))
	}
}

// forgive gives a guess back that was right, and with it all that were made for
// the same login from the same address.
func (s *Service) forgive(ctx context.Context, attempt []throttle.Charge) {
	if len(attempt) > 0 {
		attempt[0] = attempt[0].All()
	}
	s.refund(ctx, attempt)
}

// remember notes that the account's owner has been at the caller's address, even
// if he has gone meanwhile. One that is lost may cost him a wait while others
// guess his password.
func (s *Service) remember(ctx context.Context, accountID int64) {
	if !s.settings.Throttle.Enabled || !personal.CallFrom(ctx).Address.IsValid() {
		return
	}
	if err := s.store.NotePlace(context.WithoutCancel(ctx), accountID, source(ctx), MostPlaces); err != nil {
		s.log.WarnContext(ctx, "a place could not be remembered", slog.Any("error", err))
	}
}

// source is where a call comes from: the address, or the network that one
// customer has of IPv6 (HTTP contract, section 5).
func source(ctx context.Context) string {
	address := fromNAT64(personal.CallFrom(ctx).Address.Unmap())
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// hashSource returns the source of a call's hashing: the IPv4 address, or the /48
// of an IPv6 address and the /64 within it. All callers with unknown addresses
// share one source.
func hashSource(ctx context.Context) password.Source {
	call := personal.CallFrom(ctx)
	if !call.Address.IsValid() {
		return password.Source{Shared: true}
	}
	address := fromNAT64(call.Address.Unmap())
	if address.Is4() {
		return password.Source{Network: address.String(), Shared: call.Shared}
	}
	return password.Source{
		Network: netip.PrefixFrom(address, 48).Masked().String(),
		Subnet:  netip.PrefixFrom(address, 64).Masked().String(),
		Shared:  call.Shared,
	}
}

// fromNAT64 returns the IPv4 address that is written as one of 64:ff9b::/96 (RFC
// 6052), and any other as it is: all of IPv4 is in that one network.
func fromNAT64(address netip.Addr) netip.Addr {
	bytes := address.As16()
	if [12]byte(bytes[:]) != [12]byte{0x00, 0x64, 0xff, 0x9b} {
		return address
	}
	return netip.AddrFrom4([4]byte(bytes[12:]))
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
