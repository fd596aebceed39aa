package accounts

import (
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

// AttemptStore counts attempts.
type AttemptStore interface {
	// Charge counts one attempt against every key and stores the jobs. If any limit
	// is used up it does neither and returns *WaitError with the longest wait.
	Charge(ctx context.Context, charges []throttle.Charge, now time.Time, jobs ...NewJob) error
	// CheckLimits returns the *WaitError that Charge would return, and counts nothing.
	CheckLimits(ctx context.Context, charges []throttle.Charge, now time.Time) error
	// Refund takes one attempt off every key.
	Refund(ctx context.Context, charges []throttle.Charge) error
}

// Throttle holds the rate limits of attempts. The zero value allows everything. Those of codes are in
// twofactorcode.go, mail budgets in mailbudgets.go; explainlimits.go finds those that hold for a
// user, and liftlimits.go lifts them.
type Throttle struct {
	Enabled         bool
	Guess           throttle.Limit // passwords for one login from one address, including right ones still in progress
	GuessAddress    throttle.Limit // passwords for all accounts, and hashes of no session, from one address
	GuessAccount    throttle.Limit // passwords for one login from all addresses that are not known addresses of the account
	SignInAddress   throttle.Limit // sign-in attempts from one address, right or wrong
	SignInAccount   throttle.Limit // sign-ins with the correct password to one account
	Register        throttle.Limit // registrations from one address
	RegisterInvalid throttle.Limit // registrations with field errors from one address
	TakenEmail      throttle.Limit // e-mail addresses found to be taken from one address
	Recover         throttle.Limit // recovery requests from one address
	RecoverAll      throttle.Limit // recoveries waiting at once: each is a row until it is done
	Confirm         throttle.Limit // mailed tokens presented from one address
	SessionWrites   throttle.Limit // refreshes and other writing operations of one session, counted by each node
}

// attempt is one password entered for a login or e-mail.
type attempt struct {
	charges []throttle.Charge // may be refunded; the first one is that of the login and the address
	address KnownAddress      // what the caller's address is to the account

	looked []throttle.Charge // of an attempt without a password, which did not count
}

// guess charges one password entered for the account that q finds, and the further
// charges. An attempt without anything to verify is refused like any other, but is not
// charged.
//
// It charges the login as typed, whether or not an account has it: a count shared
// by a login and an e-mail would reveal that they belong to the same account.
func (s *Service) guess(ctx context.Context, q AccountQuery, typed string, verify bool, further []throttle.Charge) (attempt, error) {
	if !s.settings.Throttle.Enabled {
		return attempt{}, nil
	}
	target := s.typed(typed)
	address, err := s.callersAddress(ctx, q)
	if err != nil {
		return attempt{}, err
	}
	charges := append(s.guessAt(ctx, target), s.guessAddress(ctx)...)
	if address.Known() || target == "" {
		// Not limited (a zero limit allows everything), but with a key and a query all the
		// same: the response time must not reveal whose known address this is.
		charges = append(charges, s.limitTyped(throttle.Limit{}, "guess at a known address", source(ctx), target)...)
	} else {
		charges = append(charges, s.guessOf(target)...)
	}
	all := slices.Concat(charges, further)
	if !verify {
		return attempt{address: address, looked: charges}, s.checkLimits(ctx, all)
	}
	return attempt{charges: charges, address: address}, s.charge(ctx, all)
}

// guessAt charges a password for a login or e-mail at the caller's address.
func (s *Service) guessAt(ctx context.Context, target string) []throttle.Charge {
	return s.limitTyped(s.settings.Throttle.Guess, "guess", source(ctx), target)
}

// guessOf charges a password for a login or e-mail, entered at an address that is not a
// known one of the account.
func (s *Service) guessOf(target string) []throttle.Charge {
	return s.limitTyped(s.settings.Throttle.GuessAccount, "guess of", target)
}

// guessAddress charges a password, or a hash of no session, to the caller's address.
func (s *Service) guessAddress(ctx context.Context) []throttle.Charge {
	return s.perNetwork(ctx, "guess", s.settings.Throttle.GuessAddress)
}

// signInAddress charges a sign-in, right or wrong, to the caller's address.
func (s *Service) signInAddress(ctx context.Context) []throttle.Charge {
	return s.perNetwork(ctx, "sign in", s.settings.Throttle.SignInAddress)
}

// recoverAddress charges a request for a mail to the caller's address.
func (s *Service) recoverAddress(ctx context.Context) []throttle.Charge {
	return s.perNetwork(ctx, "recover", s.settings.Throttle.Recover)
}

// confirmAddress charges a mailed token to the address from which it is presented.
func (s *Service) confirmAddress(ctx context.Context) []throttle.Charge {
	return s.perAddress(ctx, "confirm", s.settings.Throttle.Confirm)
}

// limit returns the charge of one attempt, or nothing if throttling is off.
func (s *Service) limit(l throttle.Limit, key ...string) []throttle.Charge {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	return []throttle.Charge{{Key: chargeKey(key...), Limit: l}}
}

// limitTyped is limit for a key that contains a typed login.
func (s *Service) limitTyped(l throttle.Limit, key ...string) []throttle.Charge {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	return []throttle.Charge{{Key: s.typedKey(key...), Limit: l}}
}

// perAddress charges an attempt to the caller's address. An unknown address is not
// charged: its limit would lock out all callers without an address.
func (s *Service) perAddress(ctx context.Context, what string, l throttle.Limit) []throttle.Charge {
	call := personal.CallFrom(ctx)
	if call.Shared {
		l = wider(l)
	} else if !call.Address.IsValid() {
		return nil
	}
	return s.limit(l, what, source(ctx))
}

// perNetwork is perAddress, and for IPv6 also charges the /48 of the address with a
// limit ten times as wide: one customer may have 65,536 networks of /64 (HTTP
// contract, section 5).
func (s *Service) perNetwork(ctx context.Context, what string, l throttle.Limit) []throttle.Charge {
	charges := s.perAddress(ctx, what, l)
	if site, ok := sourceSite(ctx); ok {
		for _, c := range charges {
			charges = append(charges, throttle.Charge{Key: chargeKey(what, site), Limit: wider(c.Limit)})
		}
	}
	return charges
}

// wider is a limit for an address that many callers seem to share: wide enough not
// to lock out a site whose proxy is not configured, and still a limit for callers
// who fake a shared address.
func wider(l throttle.Limit) throttle.Limit {
	const times = 10
	return throttle.Limit{Burst: l.Burst * times, Every: l.Every / times, Name: l.Name}
}

// takenEmail charges the discovery that an e-mail is taken, which reveals that its
// owner has an account. With onlyLook it is not counted, only refused while the limit is
// used up.
func (s *Service) takenEmail(ctx context.Context, onlyLook bool) []throttle.Charge {
	charges := s.perNetwork(ctx, "taken email", s.settings.Throttle.TakenEmail)
	if onlyLook {
		return look(charges)
	}
	return charges
}

// look makes the charges count nothing, and only refuse while their limits are used up.
func look(charges []throttle.Charge) []throttle.Charge {
	for i := range charges {
		charges[i].Peek = true
	}
	return charges
}

// registerInvalid charges a registration with field errors to the caller's address: it
// costs checks and a response of many names, and nothing else limits it.
func (s *Service) registerInvalid(ctx context.Context) []throttle.Charge {
	return s.perNetwork(ctx, "register invalid", s.settings.Throttle.RegisterInvalid)
}

// signInAccount charges a sign-in to the account whose password was right.
func (s *Service) signInAccount(accountID int64) []throttle.Charge {
	return s.limit(s.settings.Throttle.SignInAccount, "sign in of", strconv.FormatInt(accountID, 10))
}

// waitingRecovery charges a recovery to the waiting ones. It is refunded when the
// recovery is done.
func (s *Service) waitingRecovery() []throttle.Charge {
	return s.limit(s.settings.Throttle.RecoverAll, "recover")
}

// chargeConfirmation charges the presentation of a mailed token.
func (s *Service) chargeConfirmation(ctx context.Context) error {
	return s.charge(ctx, s.confirmAddress(ctx))
}

// chargeWrite charges a writing operation to the caller's session. It counts in
// memory, because the limit protects the database.
func (s *Service) chargeWrite(ctx context.Context, who caller) error {
	if !s.settings.Throttle.Enabled {
		return nil
	}
	limit := s.settings.Throttle.SessionWrites
	wait := s.sessionWrites.Take(who.session.ID, limit, s.store.Now())
	if wait > 0 {
		return s.admit(ctx, "", &WaitError{Wait: wait, Limit: limit.Name})
	}
	return nil
}

// charge counts an attempt, or refuses it before any costly work is done.
func (s *Service) charge(ctx context.Context, attempt []throttle.Charge) error {
	return s.admit(ctx, "counting an attempt", s.store.Charge(ctx, attempt, s.store.Now()))
}

// checkLimits refuses what charge would refuse, and counts nothing.
func (s *Service) checkLimits(ctx context.Context, attempt []throttle.Charge) error {
	return s.admit(ctx, "counting an attempt", s.store.CheckLimits(ctx, attempt, s.store.Now()))
}

// admit is fail, but refuses an attempt for which the store returned *WaitError,
// and reports that.
func (s *Service) admit(ctx context.Context, doing string, err error) error {
	limited, ok := errors.AsType[*WaitError](err)
	if !ok {
		return fail(doing, err)
	}
	s.rejected(limited.Limit)
	s.throttled(ctx)
	return &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: limited.Wait}
}

// refund takes back an attempt that was correct or did not test a password, even if
// the caller has hung up. A failed refund costs the user one attempt and nothing else.
func (s *Service) refund(ctx context.Context, attempt []throttle.Charge) {
	if len(attempt) == 0 {
		return
	}
	if err := s.store.Refund(context.WithoutCancel(ctx), attempt); err != nil {
		s.log.WarnContext(ctx, "an attempt could not be refunded", slog.Any("error", err))
	}
}

// refundAll takes back a right guess, and with it all guesses for the same login
// from the same address, and the further charges.
func (s *Service) refundAll(ctx context.Context, right attempt, further ...throttle.Charge) {
	all := slices.Concat(right.charges, further)
	if len(right.charges) > 0 {
		all[0] = all[0].All()
	}
	s.refund(ctx, all)
}

// source is the origin of a call: the IPv4 address, or the /64 of an IPv6 address,
// which one customer has (HTTP contract, section 5).
func source(ctx context.Context) string { return sourceOf(personal.CallFrom(ctx).Address) }

// sourceOf is source for a call from an address.
func sourceOf(address netip.Addr) string {
	address = fromNAT64(address.Unmap())
	if address.Is6() {
		return netip.PrefixFrom(address, 64).Masked().String()
	}
	return address.String()
}

// sourceSite is the /48 of an IPv6 address, which a site usually gets (RFC 6177).
func sourceSite(ctx context.Context) (string, bool) {
	address := fromNAT64(personal.CallFrom(ctx).Address.Unmap())
	if !address.Is6() {
		return "", false
	}
	return networkOf(address), true
}

// networkOf is the IPv4 /24 or the IPv6 /48 of an address.
func networkOf(address netip.Addr) string {
	address = fromNAT64(address.Unmap())
	bits := 24
	if address.Is6() {
		bits = 48
	}
	return netip.PrefixFrom(address, bits).Masked().String()
}

// hashSource is the source by which the hasher shares out its turns: the IPv4
// address, or the /48 of an IPv6 address and the /64 within it. All calls with an
// unknown address share one.
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

// fromNAT64 returns the IPv4 address that an address in 64:ff9b::/96 (RFC 6052)
// embeds, and any other address as it is: otherwise all IPv4 clients of a NAT64
// would share one network.
func fromNAT64(address netip.Addr) netip.Addr {
	bytes := address.As16()
	if [12]byte(bytes[:]) != [12]byte{0x00, 0x64, 0xff, 0x9b} {
		return address
	}
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// chargeKey is a digest of what an attempt is counted against.
func chargeKey(parts ...string) [32]byte {
	var buffer [200]byte // most keys fit: it is not allocated
	return sha256.Sum256(appendParts(buffer[:0], parts))
}

// appendParts appends texts so that no others give the same bytes.
func appendParts(all []byte, parts []string) []byte {
	for _, part := range parts {
		all = strconv.AppendInt(all, int64(len(part)), 10)
		all = append(all, ':')
		all = append(all, part...)
	}
	return all
}
