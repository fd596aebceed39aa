package accounts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// Throttle says how often something may be tried. The zero value allows
// everything.
type Throttle struct {
	Enabled       bool
	Guess         throttle.Limit // passwords for one login from one address, right ones under way included
	GuessAddress  throttle.Limit // passwords of all accounts, and hashes of no session, from one address
	GuessAccount  throttle.Limit // passwords for one login from all addresses that are not known addresses of the account
	SignInAddress throttle.Limit // sign-in attempts from one address, right or wrong
	SignInAccount throttle.Limit // sign-ins with the right password to one account
	Register      throttle.Limit // registrations from one address
	TakenEmail    throttle.Limit // e-mail addresses found to be taken from one address
	Recover       throttle.Limit // recoveries asked for from one address
	RecoverAll    throttle.Limit // recoveries that wait at once: each is a row until it is done
	Confirm       throttle.Limit // mailed tokens presented from one address
	SessionWrites throttle.Limit // refreshes and other writing operations of one session, counted by each node
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
// address, and the further charges. It returns those that may be refunded. A
// request in which nothing is to be judged is refused like another, but charged
// nothing and spared the writing.
func (s *Service) guess(ctx context.Context, login string, judged bool, further []throttle.Charge) ([]throttle.Charge, error) {
	if !s.settings.Throttle.Enabled {
		return nil, nil
	}
	attempt, err := s.guessCharges(ctx, login)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(attempt, further)
	if !judged {
		return nil, s.look(ctx, all)
	}
	return attempt, s.charge(ctx, all)
}

// guessCharges are what a guess is counted by; the first is the login and the
// address. It is the login as typed, whether or not an account has it: a count
// that a login and an e-mail share would tell that they are one account's.
func (s *Service) guessCharges(ctx context.Context, login string) ([]throttle.Charge, error) {
	limits, q := s.settings.Throttle, s.loginQuery(login)
	target, from := cmp.Or(q.LoginKey, q.EmailKey, login), source(ctx)
	known, err := s.store.KnownPlace(ctx, q, from, s.store.Now().Add(-s.settings.PlaceLife()))
	if err != nil {
		return nil, fail("looking for a place", err)
	}
	attempt := []throttle.Charge{{Key: chargeKey("guess", from, target), Limit: limits.Guess}}
	attempt = append(attempt, perNetwork(ctx, "guess", limits.GuessAddress)...)
	of := throttle.Charge{Key: chargeKey("guess of", target), Limit: limits.GuessAccount}
	if known || target == "" {
		// Not charged, but with a key and a query all the same: how long it takes must
		// not tell whose known address this is. A limit of zero never refuses.
		of = throttle.Charge{Key: chargeKey("guess at a known address", from, target)}
	}
	return append(attempt, of), nil
}

// sharedBy is how many times as much is allowed of an address that many callers
// seem to share: enough not to lock a site out whose proxy nobody listed, and a
// bound for who makes his address look like one.
const sharedBy = 10

// perAddress charges an attempt to the caller's address. One that is unknown is
// not charged: its limit would lock out everybody without an address.
func perAddress(ctx context.Context, what string, limit throttle.Limit) []throttle.Charge {
	call := personal.CallFrom(ctx)
	if call.Shared {
		limit = wider(limit)
	} else if !call.Address.IsValid() {
		return nil
	}
	return []throttle.Charge{{Key: chargeKey(what, source(ctx)), Limit: limit}}
}

// perNetwork is perAddress, and for IPv6 charges the /48 of the address besides,
// whose limit is ten times as wide: one customer may have 65,536 networks of /64
// (HTTP contract, section 5).
func perNetwork(ctx context.Context, what string, limit throttle.Limit) []throttle.Charge {
	charges := perAddress(ctx, what, limit)
	if site, ok := sourceSite(ctx); ok {
		for _, c := range charges {
			charges = append(charges, throttle.Charge{Key: chargeKey(what, site), Limit: wider(c.Limit)})
		}
	}
	return charges
}

func wider(l throttle.Limit) throttle.Limit {
	return throttle.Limit{Burst: l.Burst * sharedBy, Every: l.Every / sharedBy}
}

// chargeRegistration charges a registration. One in which nothing is to be judged
// is refused like another, but charged nothing.
func (s *Service) chargeRegistration(ctx context.Context, judged bool) error {
	attempt := append(perNetwork(ctx, "register", s.settings.Throttle.Register), s.takenEmail(ctx, true)...)
	if !judged {
		return s.look(ctx, attempt)
	}
	return s.charge(ctx, attempt)
}

// takenEmail charges the discovery that an e-mail is taken, which tells that its
// owner has an account. With look it only refuses while the limit is used up.
func (s *Service) takenEmail(ctx context.Context, look bool) []throttle.Charge {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	charges := perNetwork(ctx, "taken email", s.settings.Throttle.TakenEmail)
	for i := range charges {
		charges[i].Look = look
	}
	return charges
}

// signInAccount charges a sign-in to the account whose password was right.
func (s *Service) signInAccount(accountID int64) []throttle.Charge {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	return []throttle.Charge{{Key: chargeKey("sign in of", strconv.FormatInt(accountID, 10)), Limit: s.settings.Throttle.SignInAccount}}
}

// chargeWrite charges a writing operation to the caller's session. The count is in
// memory: it protects the database.
func (s *Service) chargeWrite(ctx context.Context, who caller) error {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	wait := s.sessionWrites.Take(who.session.ID, s.settings.Throttle.SessionWrites, s.store.Now())
	return s.admit(ctx, wait, nil)
}

func (s *Service) chargeRecovery(ctx context.Context) error {
	return s.charge(ctx, append(perNetwork(ctx, "recover", s.settings.Throttle.Recover), s.waitingRecovery()...))
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

// look refuses what charge would refuse, and counts nothing.
func (s *Service) look(ctx context.Context, attempt []throttle.Charge) error {
	if !s.settings.Throttle.Enabled || len(attempt) == 0 {
		return nil
	}
	wait, err := s.store.Wait(ctx, attempt, s.store.Now())
	return s.admit(ctx, wait, err)
}

// admit refuses an attempt that has to wait.
func (s *Service) admit(ctx context.Context, wait time.Duration, err error) error {
	var refused *WaitError
	if errors.As(err, &refused) {
		wait, err = refused.Wait, nil
	}
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

// remember notes the caller's address as a known address of the account, even if
// the caller has hung up meanwhile and with throttling off, too: it may be switched
// on later. One that is lost may cost the user a wait while others guess their
// password.
func (s *Service) remember(ctx context.Context, accountID int64) {
	if !personal.CallFrom(ctx).Address.IsValid() {
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

// sourceSite is the /48 of an IPv6 address, which is what a site usually gets (RFC
// 6177).
func sourceSite(ctx context.Context) (string, bool) {
	address := fromNAT64(personal.CallFrom(ctx).Address.Unmap())
	if !address.Is6() {
		return "", false
	}
	return netip.PrefixFrom(address, 48).Masked().String(), true
}

// hashSource is the source of a call's hashing: the IPv4 address, or the /48 of an
// IPv6 address and the /64 within it. All calls with an unknown address share one.
func hashSource(ctx context.Context) password.Source {
	call := personal.CallFrom(ctx)
	if !call.Address.IsValid() {
		return password.Source{Shared: true}
	}
	if site, ok := sourceSite(ctx); ok {
		return password.Source{Network: site, Subnet: source(ctx), Shared: call.Shared}
	}
	return password.Source{Network: source(ctx), Shared: call.Shared}
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
