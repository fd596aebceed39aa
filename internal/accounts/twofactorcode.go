package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pquerna/otp/hotp"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// TwoFactor is the second factor of an account. The zero value is none.
type TwoFactor struct {
	Secret Sealed
	Step   int64 // the last time step (RFC 6238) whose code was used
}

// On reports whether the account has a second factor. It needs only the key of the
// secret.
func (t TwoFactor) On() bool { return t.Secret.Key != "" }

// Sealed is an encrypted secret.
type Sealed struct {
	Key  string // the id of the key that decrypts it
	Data []byte
}

// CodeUse is a code that was found right. The transaction that it authorises uses it up,
// or fails with ErrCodeUsed. A recovery code makes it forget the account's refused codes. A
// proof stands for the code, too. The zero value stands for an account without a second factor.
type CodeUse struct {
	Step     int64    // of a time-based code; 0: none
	Recovery [32]byte // the digest of a recovery code; zero: none
	Proof    ProofUse // without a code; not in a sign-in
}

// ErrCodeUsed means that a code was used before, or that no recovery code has the digest.
// Nothing was written.
var ErrCodeUsed = errors.New("the code was used")

// errWrongCode means that a code is malformed or not the one of any time step that counts.
var errWrongCode = errors.New("the code is wrong")

// codeLimit limits the wrong codes of an account over all operations (HTTP contract,
// section 5). A fully known address has the same limit once more.
var codeLimit = throttle.Limit{Burst: 10, Every: 15 * time.Minute, Name: "code"}

// CodeStore counts refused codes and judges by their number.
type CodeStore interface {
	// CountRefusedCode counts a code of an account that was refused, and stores the jobs of
	// the notice that the rules demand. A missing account is not an error.
	CountRefusedCode(ctx context.Context, accountID int64, rules CodeRules, notice func() []NewJob) error
	// CodesBlockedUntil returns when codes of the account's app are accepted again away from
	// its fully known addresses; zero: they are now.
	CodesBlockedUntil(ctx context.Context, accountID int64, rules CodeRules) (time.Time, error)
}

// CodeRules say what refused codes lead to. They count for Window. Number Block within it
// and every later one block the codes of the app for Window. Number Notice and every later
// one have a notice, unless there was one within NoticeEvery.
type CodeRules struct {
	Window        time.Duration
	Notice, Block int
	NoticeEvery   time.Duration
}

var codeRules = CodeRules{
	Window: personal.RefusedCodeWindow, Notice: personal.CodesToNotice, NoticeEvery: personal.CodeNoticeEvery, Block: personal.CodesToBlock,
}

// codeOwner is the account whose code is checked.
type codeOwner struct {
	id     int64
	login  string // as typed, or its key: reports of wrong codes name it like wrong passwords
	email  Email
	factor TwoFactor
	known  bool // the caller is at an address that counts as fully known for codes
}

// owner returns the caller at an address as the owner of a code.
func (who caller) owner(address KnownAddress) codeOwner {
	a := who.account
	return codeOwner{id: a.ID, login: a.LoginKey, email: a.Email, factor: a.TwoFactor, known: address.Codes}
}

// checkedCode is a code, or a proof, that may authorise an operation. Whether it was used before, the
// operation's transaction decides. The zero value is for an account without a second
// factor.
type checkedCode struct {
	owner   codeOwner
	use     CodeUse
	charges []throttle.Charge // refunded when the operation is completed
	jobs    []NewJob          // that report the use of a recovery code
}

// judged reports whether there is a code that was judged.
func (c checkedCode) judged() bool { return c.use.Step != 0 || c.use.Recovery != [32]byte{} }

// checkCode charges a code of an account that has a second factor, and checks it as far as
// that is possible without using it up. Without the key of the secret a time-based code
// is refused as unavailable, and not charged: it has not been judged. Recovery codes need
// no key. The error is errWrongCode for a wrong code.
func (s *Service) checkCode(ctx context.Context, owner codeOwner, entered string) (checkedCode, error) {
	c := checkedCode{owner: owner, charges: s.chargesOfCode(ctx, owner)}
	code, digest := parseCode(entered)
	if code != "" && !s.hasKey(ctx, owner.factor.Secret.Key) {
		return c, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter}
	}
	if err := s.charge(ctx, c.charges); err != nil {
		return c, err
	}
	if code == "" && digest == [32]byte{} {
		return c, errWrongCode
	}
	if code == "" {
		c.use.Recovery = digest
		c.jobs = s.reports(ctx, personal.ActorUser, personal.EventRecoveryCodeUsed, mailtext.RecoveryCodeUsed, owner.id, owner.email)
		return c, nil
	}
	step, err := s.stepOf(owner.id, owner.factor, code)
	c.use.Step = step
	return c, err
}

// requireCode adds a field error if the account has a second factor, and neither its code nor a
// proof was sent.
func requireCode(invalid *personal.FieldErrors, a Account, e evidence) {
	if a.TwoFactor.On() && e.proof == "" {
		require(invalid, "code", e.code)
	}
}

// confirmCode is checkCode for an operation of a signed-in user of which nothing else is
// wrong; address as guess returns it. Without a second factor it ignores the code. With a
// proof, which was found valid, it returns that.
func (s *Service) confirmCode(ctx context.Context, who caller, address KnownAddress, e evidence) (checkedCode, error) {
	if e.proof != "" {
		use, _ := s.proofUse(who, e)
		return checkedCode{use: CodeUse{Proof: use}}, nil
	}
	if !who.account.TwoFactor.On() {
		return checkedCode{}, nil
	}
	c, err := s.checkCode(ctx, who.owner(address), e.code)
	return c, s.refusedCode(ctx, c.owner, err)
}

// refusedCode turns a wrong code or a void proof into the field error of an operation of a
// signed-in user. Any other error stays as it is.
func (s *Service) refusedCode(ctx context.Context, owner codeOwner, err error) error {
	var invalid personal.FieldErrors
	switch {
	case s.wrongCode(ctx, owner, err):
		invalid.Add("code", personal.FieldErrorMismatch)
	case errors.Is(err, ErrProofVoid):
		invalid.Add("proof", personal.FieldErrorMismatch)
	default:
		return err
	}
	return invalid.Err()
}

// authorized ends an operation of a signed-in user that the code or the proof has authorised; err is
// the outcome of its write. A completed operation wakes the worker and refunds the code.
func (s *Service) authorized(ctx context.Context, c checkedCode, doing string, err error) error {
	err = s.refusedCode(ctx, c.owner, err)
	switch {
	case err == nil:
		s.refund(ctx, c.charges)
		s.wake()
		return nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrStale):
		return refusal(personal.CodeUnauthenticated)
	}
	return s.notStored(ctx, doing, err)
}

// wrongCode reports whether err says that a code is wrong or was used before. If so, it is
// reported like a wrong password, and counted away from fully known addresses.
func (s *Service) wrongCode(ctx context.Context, owner codeOwner, err error) bool {
	if !errors.Is(err, errWrongCode) && !errors.Is(err, ErrCodeUsed) {
		return false
	}
	s.failed(ctx, owner.login, owner.id)
	if s.settings.Throttle.Enabled && !owner.known {
		s.countRefused(ctx, owner)
	}
	return true
}

// countRefused counts a refused code, even if the caller has hung up. A failure is only
// logged: the code is refused in any case.
func (s *Service) countRefused(ctx context.Context, owner codeOwner) {
	err := s.store.CountRefusedCode(context.WithoutCancel(ctx), owner.id, codeRules, func() []NewJob {
		if owner.email.Key == "" {
			return nil
		}
		return s.notice(ctx, personal.ActorUser, mailtext.CodeRefused, owner.id, owner.email.Address)
	})
	if err != nil {
		s.log.WarnContext(ctx, "a refused code could not be counted", slog.Int64("user_id", owner.id), slog.Any("error", err))
		return
	}
	s.wake()
}

// blocked refuses a code of the app at a sign-in while these are blocked at the caller's
// address. Nothing was judged or charged.
func (s *Service) blocked(ctx context.Context, owner codeOwner, entered string) error {
	if code, _ := parseCode(entered); code == "" || owner.known || !s.settings.Throttle.Enabled {
		return nil
	}
	until, err := s.store.CodesBlockedUntil(ctx, owner.id, codeRules)
	if err != nil {
		return fail("counting refused codes", err)
	}
	if !until.IsZero() {
		return refusal(personal.CodeCodesBlocked)
	}
	return nil
}

// chargesOfCode are the charges of one code.
func (s *Service) chargesOfCode(ctx context.Context, owner codeOwner) []throttle.Charge {
	key := []string{"code of", strconv.FormatInt(owner.id, 10)}
	if owner.known {
		key = append(key, source(ctx))
	}
	return s.limit(codeLimit, key...)
}

// hasKey reports whether there is the key of a stored secret, and logs once a minute that
// one is missing: users cannot sign in with their apps.
func (s *Service) hasKey(ctx context.Context, key string) bool {
	if s.settings.Keys.Has(key) {
		return true
	}
	if s.keyWarnings.Take(0, oncePerMinute, s.store.Now()) == 0 {
		s.log.ErrorContext(ctx, "the secret key of second factors is missing; their codes are refused", slog.String("key_id", key))
	}
	return false
}

// stepOf returns the time step of a code of 6 digits. errWrongCode if it has none that
// counts.
func (s *Service) stepOf(accountID int64, factor TwoFactor, code string) (int64, error) {
	secret, err := s.settings.Keys.Open(accountID, factor.Secret.Key, factor.Secret.Data)
	if err != nil {
		return 0, fail("decrypting the secret of a second factor", err)
	}
	return matchStep(secret, code, s.store.Now(), factor.Step)
}

// Time-based codes (RFC 6238, section 4): authenticator apps support these values best.
const (
	codePeriod = 30 // seconds
	codeDigits = 6
	codeDrift  = 1 // time steps that the clock of a device may be ahead or behind
)

// matchStep returns the oldest time step above last that has the code and is at most
// codeDrift from now. errWrongCode if there is none. Its duration does not depend on the
// secret or the code.
func matchStep(secret []byte, code string, now time.Time, last int64) (step int64, err error) {
	current := now.Unix() / codePeriod
	for candidate := current + codeDrift; candidate >= current-codeDrift; candidate-- {
		right, err := hotp.GenerateCode(unpadded.EncodeToString(secret), uint64(candidate))
		if err != nil {
			return 0, fail("computing a code", err)
		}
		if subtle.ConstantTimeCompare([]byte(right), []byte(code)) == 1 && candidate > last {
			step = candidate
		}
	}
	if step == 0 {
		return 0, errWrongCode
	}
	return step, nil
}

// unpadded is how authenticator apps read secrets, and recovery codes are written.
var unpadded = base32.StdEncoding.WithPadding(base32.NoPadding)

const (
	recoveryCodeBytes  = 15
	recoveryCodeLength = recoveryCodeBytes * 8 / 5 // without hyphens
	recoveryCodeGroup  = 4                         // characters between two hyphens
)

// parseCode returns a time-based code or the digest of a recovery code, in any case and
// with or without spaces and hyphens; neither if it is malformed.
func parseCode(entered string) (code string, recovery [32]byte) {
	normal := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.Dash, r):
			return -1
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return r
	}, entered)
	if len(normal) == codeDigits && strings.Trim(normal, "0123456789") == "" {
		return normal, recovery
	}
	// The decoder skips line breaks, which are not left here, and odd characters at the end.
	if _, err := unpadded.DecodeString(normal); err == nil && len(normal) == recoveryCodeLength {
		return "", sha256.Sum256([]byte(normal))
	}
	return "", recovery
}

// newRecoveryCodes returns codes as users see them, and the digests to store.
func newRecoveryCodes() (codes []string, digests [][32]byte) {
	for range personal.MaxRecoveryCodes {
		var secret [recoveryCodeBytes]byte
		_, _ = rand.Read(secret[:]) // it never fails
		text := unpadded.EncodeToString(secret[:])
		digests = append(digests, sha256.Sum256([]byte(text)))
		code := text[:recoveryCodeGroup]
		for rest := text[recoveryCodeGroup:]; rest != ""; rest = rest[recoveryCodeGroup:] {
			code += "-" + rest[:recoveryCodeGroup]
		}
		codes = append(codes, code)
	}
	return codes, digests
}
