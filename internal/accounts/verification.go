package accounts

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

// VerificationStore keeps accounts whose e-mail is to be confirmed.
type VerificationStore interface {
	// FindWaiting returns the ids of accounts that wait for an address and are not
	// disabled, two at most.
	FindWaiting(ctx context.Context, emailKey string) (ids []int64, err error)
	// RedeemVerification uses up a verification token: the account's e-mail is
	// confirmed, or, if the account waits for the address, that becomes its e-mail and
	// is confirmed. It voids every token and stores the jobs. ErrNotFound if the token
	// is void, expired or unknown by now, or the account disabled; *TakenError if the
	// address has become another account's, which does not use up the token.
	//
	// If the account waits and the login key is not its own, the result is ErrOtherLogin,
	// and the token is not used up. Unless the key is empty, that is counted with the
	// token, and the MaxMismatches-th time voids it. Concurrent calls are judged one
	// after the other.
	RedeemVerification(ctx context.Context, digest [32]byte, loginKey string, jobs ...NewJob) error
}

// MaxMismatches is how many wrong logins void a verification token (HTTP contract,
// section 3, verification).
const MaxMismatches = 10

// verificationRequired reports whether new accounts must confirm their e-mail before their
// first sign-in.
func (s *Service) verificationRequired() bool {
	return s.settings.EmailVerification == personal.VerificationRequired
}

// verifies reports whether users are asked to confirm their e-mail.
func (s *Service) verifies() bool {
	return s.settings.EmailVerification == personal.VerificationOptional || s.verificationRequired()
}

// registerUnverified creates an account, with an identity unless that is zero, that waits for its e-mail to be
// confirmed.
// Neither the response nor the statements before it depend on whose address it is:
// the job decides that.
func (s *Service) registerUnverified(ctx context.Context, account Account, i personal.Identity) error {
	account.Unverified, account.Email = account.Email, Email{}
	account.Created = s.store.Now()
	account.Updated = account.Created
	_, err := s.store.CreateWithIdentity(ctx, account, i, nil, func(id int64) []NewJob { return s.registered(ctx, id) })
	if err != nil {
		return s.notCreated(ctx, err)
	}
	s.wake()
	return nil
}

// registered are the jobs that follow a registration: the event, and the mail that
// proves the address.
func (s *Service) registered(ctx context.Context, id int64) []NewJob {
	jobs := []NewJob{s.event(ctx, personal.ActorUser, personal.EventRegistered, id)}
	if s.verifies() {
		r := newMailRequest(ctx, personal.ActorUser)
		jobs = append(jobs, jobOf(ctx, id, KindVerification, verificationJob{Time: s.store.Now(), mailRequest: r}))
	}
	return jobs
}

// verificationJob is a mail to the address of the job's account that is not confirmed
// when the job runs.
type verificationJob struct {
	Time time.Time `json:"time"` // of the request
	mailRequest
	again bool // by email_resend/
}

// sendVerification mails a token to the account's unconfirmed address. If the account
// waits for an address that is another account's, it notifies that account's user
// instead, in the language of that account, but only of a registration.
func (s *Service) sendVerification(ctx context.Context, accountID int64, r verificationJob) error {
	if !s.verifies() {
		return nil
	}
	account, found, err := s.jobAccount(ctx, accountID)
	if err != nil || !found {
		return err
	}
	to := account.Unverified
	if to.Key == "" {
		to = account.Email
	}
	if account.Disabled || account.EmailVerified || to.Key == "" {
		return nil
	}
	if account.Unverified.Key != "" {
		owner, taken, err := s.findAccount(ctx, AccountQuery{EmailKey: to.Key})
		if err != nil {
			return err
		}
		if taken && r.again {
			return nil
		}
		if taken {
			return s.sendRegistrationAttempt(ctx, owner.ID, r)
		}
	}
	letter := mailtext.Letter{Lifetime: s.settings.VerificationLifetime, At: r.Time, From: r.Address}
	m := outgoingMail{kind: mailtext.Verification, request: r.mailRequest, accountID: accountID, to: to}
	return s.mailToken(ctx, m, s.settings.RegistrationURL, letter, MailToken{
		AccountID: accountID, Purpose: PurposeVerification, CredentialVersion: account.CredentialVersion, AccountEmailKey: account.Email.Key, Email: to,
	})
}

// sendRegistrationAttempt tells the owner of an address that an account was registered
// with it, which that account will not get. A disabled account's user is told too:
// the registration may be theirs, and then they wait for a mail.
func (s *Service) sendRegistrationAttempt(ctx context.Context, ownerID int64, r verificationJob) error {
	owner, found, err := s.jobAccount(ctx, ownerID)
	if err != nil || !found {
		return err
	}
	r.Locale = cmp.Or(owner.Locale, r.Locale)
	attempt := mailtext.Letter{At: r.Time, From: r.Address}
	m := outgoingMail{kind: mailtext.RegistrationAttempt, request: r.mailRequest, accountID: ownerID, to: owner.Email}
	return s.mailPlain(ctx, m, attempt)
}

// confirmVerification confirms the address that a verification token was mailed to. For
// an account that waits for it, the login shows that the caller knows which account that
// is: anyone can register an account that waits for any address.
func (s *Service) confirmVerification(ctx context.Context, r personal.ConfirmEmailRequest) (userID int64, err error) {
	digest, account, err := s.findMailToken(ctx, PurposeVerification, r.Token)
	if err != nil {
		return 0, err
	}
	key, wrong := LoginKey(r.Login)
	if wrong != "" {
		key = r.Login // is no account's key, and counts unless it is empty
	}
	err = s.store.RedeemVerification(ctx, digest, key, s.event(ctx, personal.ActorUser, personal.EventEmailVerified, account.ID))
	if errors.Is(err, ErrOtherLogin) {
		code := personal.FieldErrorMismatch
		if r.Login == "" {
			code = cmp.Or(r.FieldErrors["login"], personal.FieldErrorRequired)
		}
		return 0, personal.FieldErrors{"login": code}.Err()
	}
	if err := s.committed(personal.CodeInvalidToken, "redeeming a verification token", err); err != nil {
		return 0, err
	}
	return account.ID, nil
}

// ResendVerification implements [personal.Service], by the rules and limits of Recover.
func (s *Service) ResendVerification(ctx context.Context, r personal.ResendVerificationRequest) error {
	r = personal.AsTyped(r)
	return s.requestMail(ctx, KindResend, 0, typedRequest{Login: r.Login, Email: r.Email}, requestErrors(r.Login, r.Email, r.FieldErrors))
}

// resendVerification sends another verification mail, if the request finds an account
// with an unconfirmed address.
func (s *Service) resendVerification(ctx context.Context, r recoveryJob) error {
	if !s.verifies() {
		return nil
	}
	accountID, err := s.findUnverified(ctx, r)
	if err != nil || accountID == 0 {
		return err
	}
	return s.sendVerification(ctx, accountID, verificationJob{Time: s.store.Now(), mailRequest: r.mailRequest, again: true})
}

// findUnverified returns the account that a request means, 0 for none. An address
// alone means the account that has it as its e-mail or, without one, the only account
// that waits for it: if several wait, another caller could choose which of them the
// address's owner confirms.
func (s *Service) findUnverified(ctx context.Context, r recoveryJob) (accountID int64, err error) {
	email, _ := ParseEmail(r.Email)
	q := s.requestQuery(r, email)
	account, found, err := s.findAccount(ctx, q)
	switch {
	case err != nil:
		return 0, err
	case found && email.Key != "" && email.Key != account.Email.Key && email.Key != account.Unverified.Key:
		return 0, nil
	case found:
		return account.ID, nil
	case q.EmailKey == "" || q.OwnEmail || email.Key != "" && email.Key != q.EmailKey:
		return 0, nil
	}
	waiting, err := s.store.FindWaiting(ctx, q.EmailKey)
	if err != nil || len(waiting) != 1 {
		return 0, fail("finding the account that waits for an address", err)
	}
	return waiting[0], nil
}
