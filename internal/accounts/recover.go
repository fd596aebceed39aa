package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// RecoveryStore completes recoveries.
type RecoveryStore interface {
	// RedeemRecovery uses up a recovery token: it sets the hash, raises the credential
	// version, confirms the e-mail, voids every token and ends every session of the
	// account, removes its other ways in, and stores the jobs, which it requests with what
	// was removed. The second factor stays. An address that was fully known until then is so for
	// codes alone. ErrNotFound if the token is void, expired or unknown by now, or the account disabled.
	RedeemRecovery(ctx context.Context, digest [32]byte, hash string, at KnownAt, jobs func(removed OtherWays) []NewJob) error
}

// recoveryJob is a request for a mail to an account that has not been looked up yet: a
// recovery, another verification mail, or a mailed code.
type recoveryJob struct {
	typedRequest `json:"-"`
	Key          string `json:"key"` // that encrypts what was typed, see sealRequest
	Typed        []byte `json:"typed"`
	mailRequest

	accountID int64     // of the job; 0: what was typed finds the account
	created   time.Time // of the job
}

// Recover implements [personal.Service].
func (s *Service) Recover(ctx context.Context, r personal.RecoverRequest) error {
	r = personal.AsTyped(r)
	return s.requestMail(ctx, KindRecovery, 0, typedRequest{Login: r.Login, Email: r.Email}, requestErrors(r.Login, r.Email, r.FieldErrors))
}

// requestMail stores a request for a mail to an account, or, if its id is 0, to the one with the login or the
// e-mail that was typed. It stores one row and looks up nothing, so neither its response nor its duration
// reveals whether an account exists.
func (s *Service) requestMail(ctx context.Context, kind outbox.Kind, accountID int64, typed typedRequest, invalid personal.FieldErrors) error {
	attempt := append(s.recoverAddress(ctx), s.waitingRecovery()...)
	if err := s.charge(ctx, attempt); err != nil {
		return err
	}
	err := invalid.Err()
	if err == nil {
		by := personal.ActorUser
		if personal.CallFrom(ctx).Administrator != "" { // an administrator asks for the user
			by = personal.ActorAdministrator
		}
		job := recoveryJob{mailRequest: newMailRequest(ctx, by)}
		if job.Key, job.Typed, err = s.sealRequest(ctx, typed); err == nil {
			err = s.store.Enqueue(ctx, jobOf(ctx, accountID, kind, job))
		}
	}
	if err != nil {
		s.refund(ctx, s.waitingRecovery())
		return fail("storing a request for a mail", err)
	}
	s.wake()
	return nil
}

// requestErrors checks the form of a request, not whether an account exists.
func requestErrors(login, email string, malformed personal.FieldErrors) personal.FieldErrors {
	invalid := maps.Clone(malformed)
	if login == "" && email == "" && len(invalid) == 0 {
		invalid.Add("login", personal.FieldErrorRequired)
		invalid.Add("email", personal.FieldErrorRequired)
	}
	if utf8.RuneCountInString(login) > maxEmail {
		invalid.Add("login", personal.FieldErrorTooLong)
	}
	if email != "" {
		_, code := ParseEmail(email)
		check(&invalid, "email", code)
	}
	return invalid
}

// lookedUp returns a function that runs a request, which then no longer counts as
// waiting. If it fails it is retried, and still counts.
func (s *Service) lookedUp(send func(context.Context, recoveryJob) error) outbox.Handler {
	return func(ctx context.Context, j outbox.Job) error {
		keys, err := s.requestKeys(ctx)
		if err != nil {
			return err
		}
		r, err := readRequest(keys, j.Payload)
		if err != nil {
			return fmt.Errorf("reading a job of kind %s: %w", j.Kind, err)
		}
		r.accountID, r.created = j.AccountID, j.Created
		err = send(r.withCall(withJob(ctx, j)), r)
		if err == nil || errors.Is(err, outbox.ErrOver) {
			s.refund(ctx, s.waitingRecovery())
		}
		return err
	}
}

// requestedAccount returns the account that a request finds. If both login and e-mail were given, both
// must be that account's.
func (s *Service) requestedAccount(ctx context.Context, r recoveryJob) (account Account, found bool, err error) {
	if r.accountID != 0 {
		return s.jobAccount(ctx, r.accountID)
	}
	email, _ := ParseEmail(r.Email)
	account, found, err = s.findAccount(ctx, s.requestQuery(r, email))
	return account, found && (r.Email == "" || account.Email.Key == email.Key), err
}

// sendRecovery mails a token, if the request finds an account with an e-mail.
func (s *Service) sendRecovery(ctx context.Context, r recoveryJob) error {
	account, found, err := s.requestedAccount(ctx, r)
	if err != nil || !found || account.Disabled || account.Email.Key == "" {
		return err
	}
	event := s.event(ctx, personal.ActorUser, personal.EventRecoveryRequested, account.ID)
	m := outgoingMail{
		kind: mailtext.Recovery, request: r.mailRequest, accountID: account.ID, to: account.Email, verified: account.EmailVerified,
	}
	passkeys, identities, err := s.OtherWaysIn(ctx, account)
	if err != nil {
		return err
	}
	letter := mailtext.Letter{
		Lifetime: s.settings.RecoveryLifetime, Passkeys: len(passkeys), Identities: len(identities), Hosts: personal.Providers(identities),
	}
	return s.mailToken(ctx, m, s.settings.RecoveryURL, letter, MailToken{
		AccountID: account.ID, Purpose: PurposeRecovery, CredentialVersion: account.CredentialVersion, AccountEmailKey: account.Email.Key,
	}, event)
}

// requestQuery returns the query for the account of a request; email is the request's.
func (s *Service) requestQuery(r recoveryJob, email Email) AccountQuery {
	if r.Login != "" {
		return s.loginQuery(r.Login)
	}
	return AccountQuery{EmailKey: email.Key}
}

// RecoverConfirm implements [personal.Service]. It checks the password before the
// token, so that a weak password does not use up the token.
func (s *Service) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) (recovered personal.Recovered, err error) {
	r = personal.AsTyped(r)
	if err := s.chargeConfirmation(ctx); err != nil {
		return recovered, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "token", r.Token)
	if r.Preview {
		return s.previewRecovery(ctx, r.Token, invalid)
	}
	s.newPassword(&invalid, r.Password, r.ConfirmPassword)
	if err := invalid.Err(); err != nil {
		return recovered, err
	}
	digest, account, err := s.findMailToken(ctx, PurposeRecovery, r.Token)
	if err != nil {
		return recovered, err
	}
	prepared := s.newPassword(&invalid, r.Password, r.ConfirmPassword, identifiersOf(account)...)
	if err := invalid.Err(); err != nil {
		return recovered, err
	}
	hash, err := s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return recovered, fail("hashing a password", err)
	}
	jobs := []NewJob{s.event(ctx, personal.ActorUser, personal.EventRecovered, account.ID)}
	if !account.EmailVerified { // the token has reached it
		jobs = append(jobs, s.event(ctx, personal.ActorUser, personal.EventEmailVerified, account.ID))
	}
	err = s.store.RedeemRecovery(ctx, digest, hash, s.knownAt(ctx), func(removed OtherWays) []NewJob {
		all := append(slices.Clip(jobs), s.waysRemovedEvents(ctx, personal.ActorUser, account.ID, removed)...)
		if password.IsUnusable(account.PasswordHash) && removed.None() { // they choose their first password
			return all
		}
		return append(all, s.noticeJobs(ctx, personal.ActorUser, account.ID,
			noticeJob{Kind: mailtext.Recovered, To: account.Email.Address, Removed: removed})...)
	})
	// With a second factor it needs a sign-in, because the caller may only have got hold of the
	// mailbox.
	if err == nil && !account.TwoFactor.On() {
		s.addKnownAddress(ctx, account.ID, false) // so that others' guesses do not lock the user out here
	}
	if err := s.committed(personal.CodeInvalidToken, "redeeming a recovery token", err); err != nil {
		return recovered, err
	}
	return personal.Recovered{UserID: account.ID}, nil
}

// previewRecovery returns what a recovery with the token would remove. Only the holder of the token
// can ask.
func (s *Service) previewRecovery(ctx context.Context, text string, invalid personal.FieldErrors) (preview personal.Recovered, err error) {
	delete(invalid, "password")
	delete(invalid, "confirm_password")
	if err := invalid.Err(); err != nil {
		return preview, err
	}
	_, account, err := s.findMailToken(ctx, PurposeRecovery, text)
	if err != nil {
		return preview, err
	}
	passkeys, identities, err := s.OtherWaysIn(ctx, account)
	return personal.Recovered{UserID: account.ID, Passkeys: len(passkeys), Providers: personal.Providers(identities)}, err
}
