package accounts

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// MailedCodeLifetime is how long a mailed code is valid (HTTP contract, section 3, code_begin).
const MailedCodeLifetime = 10 * time.Minute

// mailedCodeGuesses are the wrong codes that void the code of an attempt. The limit regains the first one
// when the code has ended.
var mailedCodeGuesses = throttle.Limit{Burst: 5, Every: 6 * MailedCodeLifetime, Name: "mailed_code"}

// MailedCodeStore keeps mailed codes by the digests of their attempts.
type MailedCodeStore interface {
	// AddMailedCode stores the code of an attempt, unless it is stored. ErrStale if the account has another
	// credential version or e-mail than the code, or is disabled, or if the stored code was used up or is void.
	AddMailedCode(ctx context.Context, c MailedCode) error
	// FindMailedCode returns the code of an attempt and its account, without user fields, unless it was used
	// up, is void or has ended, or its creation is false. ErrNotFound.
	FindMailedCode(ctx context.Context, attempt [32]byte, purpose personal.MailedCodePurpose) (MailedCode, Account, error)
}

// MailedCode is what is stored of a mailed code.
type MailedCode struct {
	Attempt   [32]byte // its digest
	AccountID int64
	Purpose   personal.MailedCodePurpose
	Digest    [32]byte // see mailedCodeDigest
	Expires   time.Time

	// The account's when the code was stored: with others it is void.
	CredentialVersion int64
	EmailKey          string
}

// ErrMailedCodeUsed means that a mailed code was used up, or is void.
var ErrMailedCodeUsed = errors.New("the mailed code was used")

// errWrongMailedCode means that no attempt has the mailed code that was entered.
var errWrongMailedCode = errors.New("the mailed code is wrong")

// crockford is the alphabet of mailed codes: Crockford's base32, without letters that look like digits.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// codeRequest is the part of a waiting request that mails a code. There is one for each attempt, so that
// all tries of its mail have the same code.
type codeRequest struct {
	Purpose personal.MailedCodePurpose `json:"purpose"`
	Attempt [32]byte                   `json:"attempt"`
	Digest  [32]byte                   `json:"digest"`
	Code    string                     `json:"code"`
}

// newMailedCode returns an attempt, and the request that mails its code.
func (s *Service) newMailedCode(ctx context.Context, purpose personal.MailedCodePurpose) (attempt string, r codeRequest, err error) {
	attempt, r.Attempt = token.NewMailToken()
	random := make([]byte, 5)
	_, _ = rand.Read(random) // it never fails
	r.Purpose, r.Code = purpose, crockford.EncodeToString(random)
	r.Digest, err = s.mailedCodeDigest(ctx, attempt, r.Code)
	return attempt, r, err
}

// mailedCodeDigest returns what is stored of a code. It depends on the attempt, which is not stored, and on
// the login key: who reads the database cannot try all codes, not even of an attempt of their own. Without a
// secret key the key is in the database, too.
func (s *Service) mailedCodeDigest(ctx context.Context, attempt, code string) ([32]byte, error) {
	key, err := s.sealingKey(ctx)
	digest := hmac.New(sha256.New, key)
	digest.Write(appendParts(nil, []string{"mailed code", attempt, code}))
	return [32]byte(digest.Sum(nil)), fail("reading the key of mailed codes", err)
}

// shownCode is how a mail shows a code.
func shownCode(code string) string { return code[:len(code)/2] + "-" + code[len(code)/2:] }

// parseMailedCode returns the code that a user means.
func parseMailedCode(entered string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Dash, r) {
			return -1
		}
		switch r = unicode.ToUpper(r); r {
		case 'O':
			return '0'
		case 'I', 'L':
			return '1'
		}
		return r
	}, entered)
}

// mailsCode reports whether a code of a purpose is mailed to the account.
func (s *Service) mailsCode(a Account, purpose personal.MailedCodePurpose) bool {
	return a.refusal() == "" && a.EmailVerified && a.Email.Key != "" &&
		(s.settings.MailedCode || purpose == personal.MailedCodeProve && password.IsUnusable(a.PasswordHash))
}

// offersMailedCode returns not_found unless users can sign in with a mailed code.
func (s *Service) offersMailedCode() error {
	if !s.settings.MailedCode {
		return refusal(personal.CodeNotFound)
	}
	return nil
}

// BeginMailedCode implements [personal.Service]. For a sign-in it looks nothing up, as [Service.Recover].
func (s *Service) BeginMailedCode(ctx context.Context, r personal.BeginMailedCodeRequest) (started personal.MailedCodeAttempt, err error) {
	r = personal.AsTyped(r)
	r.Purpose = cmp.Or(r.Purpose, personal.MailedCodeSignIn)
	var who caller
	typed := typedRequest{}
	invalid := maps.Clone(r.FieldErrors)
	switch r.Purpose {
	case personal.MailedCodeProve:
		delete(invalid, "login")
		delete(invalid, "email")
		if who, err = s.identifyWrite(ctx, r.Credentials, WholeAccount); err != nil {
			return started, err
		}
	case personal.MailedCodeSignIn:
		if err := s.offersMailedCode(); err != nil {
			return started, err
		}
		invalid = requestErrors(r.Login, r.Email, r.FieldErrors)
		typed.Login, typed.Email = r.Login, r.Email
	default:
		invalid.Add("purpose", personal.FieldErrorNotInList)
	}
	attempt, code, err := s.newMailedCode(ctx, r.Purpose)
	if err != nil {
		return started, err
	}
	typed.Code = &code
	if err := s.requestMail(ctx, KindMailedCode, who.account.ID, typed, invalid); err != nil {
		return started, err
	}
	return personal.MailedCodeAttempt{Attempt: attempt}, nil
}

// sendMailedCode mails the code of a request, if it finds an account that gets one.
func (s *Service) sendMailedCode(ctx context.Context, r recoveryJob) error {
	account, found, err := s.requestedAccount(ctx, r)
	if err != nil || !found || r.Code == nil || !s.mailsCode(account, r.Code.Purpose) {
		return err
	}
	now := s.store.Now()
	left := MailedCodeLifetime
	if since := now.Sub(r.created); since > 0 { // else the clock has jumped
		left -= since
	}
	if left <= 0 {
		return fmt.Errorf("%w: the code of the mail has ended", outbox.ErrOver)
	}
	m := outgoingMail{kind: mailtext.SignInCode, request: r.mailRequest, accountID: account.ID, to: account.Email, verified: true}
	granted, err := s.reserveMail(ctx, m)
	if err != nil || !granted {
		return err
	}
	err = s.store.AddMailedCode(ctx, MailedCode{
		Attempt: r.Code.Attempt, AccountID: account.ID, Purpose: r.Code.Purpose, Digest: r.Code.Digest,
		Expires: now.Add(left), CredentialVersion: account.CredentialVersion, EmailKey: account.Email.Key,
	})
	if errors.Is(err, ErrStale) {
		return nil // the account has changed since, or the code was used
	}
	if err != nil {
		return fmt.Errorf("storing a mailed code: %w", err)
	}
	return s.send(ctx, m, mailtext.Letter{
		Code: shownCode(r.Code.Code), Proves: r.Code.Purpose == personal.MailedCodeProve, Lifetime: left.Round(time.Minute),
		At: r.created, From: r.Address,
	})
}

// AuthorizeMailedCode implements [personal.Service]. An attempt without a code costs the same as a wrong
// code: the same queries, the same response.
func (s *Service) AuthorizeMailedCode(ctx context.Context, r personal.AuthorizeMailedCodeRequest) (in personal.SignedIn, err error) {
	r = personal.AsTyped(r)
	if err := s.offersMailedCode(); err != nil {
		return in, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "attempt", r.Attempt)
	require(&invalid, "mailed_code", r.MailedCode)
	charges := append(s.confirmAddress(ctx), s.signInAddress(ctx)...)
	if err := invalid.Err(); err != nil {
		return in, cmp.Or(s.checkLimits(ctx, charges), err)
	}
	if err := s.charge(ctx, charges); err != nil {
		return in, err
	}
	stored, a, err := s.checkMailedCode(ctx, r.Attempt, r.MailedCode, personal.MailedCodeSignIn)
	if err == nil {
		open := func(code checkedCode) (personal.SignedIn, error) {
			return s.signIn(ctx, a, signInBy{
				method: personal.MethodMailedCode, code: code, mailedCode: stored.Attempt, authenticated: s.store.Now(),
			})
		}
		in, err = s.signInAfterCode(ctx, a, r.Code, open)
	}
	if errors.Is(err, errWrongMailedCode) || errors.Is(err, ErrMailedCodeUsed) || errors.Is(err, ErrStale) {
		s.failed(ctx, "", a.ID)
		return personal.SignedIn{}, refusal(personal.CodeInvalidCode)
	}
	return in, err
}

// signInAfterCode opens a session for the user of a mailed code, by a code of the second factor if there is one.
func (s *Service) signInAfterCode(
	ctx context.Context, a Account, entered string, open func(checkedCode) (personal.SignedIn, error),
) (in personal.SignedIn, err error) {
	if !a.TwoFactor.On() {
		return open(checkedCode{})
	}
	in, code, err := s.signInOtherwise(ctx, a, entered, open)
	if err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrMailedCodeUsed) { // else it was not used
		s.refund(ctx, code.charges)
	}
	return in, err
}

// checkMailedCode judges the mailed code of an attempt, and counts it unless it is right. Of a wrong one it
// returns the account's id with errWrongMailedCode.
func (s *Service) checkMailedCode(ctx context.Context, attempt, entered string, purpose personal.MailedCodePurpose) (
	c MailedCode, a Account, err error,
) {
	digest, ok := token.MailDigest(attempt)
	if !ok { // nothing can be stored for it
		return c, a, errWrongMailedCode
	}
	// A right one counts, too, until it was judged: so of any number at the same time five are judged.
	guess := []throttle.Charge{{Key: chargeKey("mailed code", string(digest[:])), Limit: mailedCodeGuesses}}
	err = s.store.Charge(ctx, guess, s.store.Now())
	if _, void := errors.AsType[*WaitError](err); void {
		return c, a, errWrongMailedCode
	}
	if err != nil {
		return c, a, fail("counting a mailed code", err)
	}
	c, a, err = s.store.FindMailedCode(ctx, digest, purpose)
	if err != nil && !errors.Is(err, ErrNotFound) {
		s.refund(ctx, guess)
		return c, a, fail("finding a mailed code", err)
	}
	is, failed := s.mailedCodeDigest(ctx, attempt, parseMailedCode(entered))
	if failed != nil {
		s.refund(ctx, guess)
		return c, a, failed
	}
	if subtle.ConstantTimeCompare(is[:], c.Digest[:]) == 0 || err != nil {
		return c, Account{ID: a.ID}, errWrongMailedCode
	}
	s.refund(ctx, guess)
	return c, a, nil
}

// proveMailedCode judges a mailed code of a session's user, and the code of the second factor. It counts for the
// caller's address, as in code_auth/, and not for the account, whose guesses strangers may have used up.
func (s *Service) proveMailedCode(ctx context.Context, r personal.ProveRequest) (who caller, attempt [32]byte, code checkedCode, err error) {
	charges := s.confirmAddress(ctx)
	if err := s.charge(ctx, charges); err != nil {
		return who, attempt, code, err
	}
	if who, err = s.identifyWrite(ctx, r.Credentials, WholeAccount); err != nil {
		s.refund(ctx, charges)
		return who, attempt, code, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "attempt", r.Attempt)
	if r.Password != "" || r.Credential != "" { // one of them
		invalid.Add("mailed_code", personal.FieldErrorMismatch)
	}
	if err := invalid.Err(); err != nil {
		return who, attempt, code, err
	}
	stored, a, err := s.checkMailedCode(ctx, r.Attempt, r.MailedCode, personal.MailedCodeProve)
	if errors.Is(err, errWrongMailedCode) || err == nil && a.ID != who.account.ID {
		s.failed(ctx, who.account.LoginKey, who.account.ID)
		return who, attempt, code, errWrongMailedCodeOfProof()
	}
	if err != nil {
		return who, attempt, code, err
	}
	requireCode(&invalid, who.account, evidence{code: r.Code})
	if err := invalid.Err(); err != nil {
		return who, attempt, code, err
	}
	address, err := s.callersAddress(ctx, AccountQuery{LoginKey: who.account.LoginKey})
	if err == nil {
		code, err = s.confirmCode(ctx, who, address, evidence{code: r.Code})
	}
	return who, stored.Attempt, code, err
}

// errWrongMailedCodeOfProof is the error of prove/ for a wrong mailed code.
func errWrongMailedCodeOfProof() error {
	return personal.FieldErrors{"mailed_code": personal.FieldErrorMismatch}.Err()
}
