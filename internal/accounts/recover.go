package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// KindRecovery is the job that finds out whether somebody is to be mailed.
const KindRecovery outbox.Kind = "recovery"

// recoveryJob is what was asked for, before anybody has looked whether such an
// account exists.
type recoveryJob struct {
	Login     string     `json:"login,omitempty"`
	Email     string     `json:"email,omitempty"`
	Locale    string     `json:"locale,omitempty"`
	RequestID string     `json:"request_id,omitempty"`
	Address   netip.Addr `json:"address,omitzero"`
	MailID    string     `json:"mail_id"`
}

// Recover implements [personal.Service]. It stores one row and looks at nothing,
// so that neither its answer nor its time tells whether an account exists.
func (s *Service) Recover(ctx context.Context, r personal.RecoverRequest) error {
	if err := s.chargeRecovery(ctx); err != nil {
		return err
	}
	if err := s.storeRecovery(ctx, r); err != nil {
		s.refund(ctx, s.waitingRecovery())
		return err
	}
	s.wake()
	return nil
}

func (s *Service) storeRecovery(ctx context.Context, r personal.RecoverRequest) error {
	if err := recoverFaults(r).Err(); err != nil {
		return err
	}
	call := personal.CallFrom(ctx)
	job := newJob(KindRecovery, recoveryJob{
		Login: r.Login, Email: r.Email,
		Locale: call.Locale, RequestID: call.RequestID, Address: call.Address, MailID: newID(),
	})
	if err := s.store.Enqueue(ctx, job); err != nil {
		return fail("storing a recovery job", err)
	}
	return nil
}

// recoverFaults judges by form alone.
func recoverFaults(r personal.RecoverRequest) personal.FieldErrors {
	faults := maps.Clone(r.FieldErrors)
	if r.Login == "" && r.Email == "" && len(faults) == 0 {
		faults.Add("login", personal.FieldErrorRequired)
		faults.Add("email", personal.FieldErrorRequired)
	}
	if utf8.RuneCountInString(r.Login) > longestEmail {
		faults.Add("login", personal.FieldErrorTooLong)
	}
	if r.Email != "" {
		if _, fault := ParseEmail(r.Email); fault != "" {
			faults.Add("email", fault)
		}
	}
	return faults
}

// doRecovery does what a recovery asked for, which then waits no more. One that
// fails will be tried again, and waits still.
func (s *Service) doRecovery(ctx context.Context, j outbox.Job) error {
	var r recoveryJob
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading a recovery job: %w", err)
	}
	if err := s.sendRecovery(ctx, r); err != nil {
		return err
	}
	s.refund(ctx, s.waitingRecovery())
	return nil
}

// sendRecovery mails a token, if the recovery means an account.
func (s *Service) sendRecovery(ctx context.Context, r recoveryJob) error {
	ctx = personal.WithCall(ctx, personal.Call{RequestID: r.RequestID, Locale: r.Locale, Address: r.Address})
	account, found, err := s.recoverable(ctx, r)
	if err != nil || !found {
		return err
	}
	event := s.event(ctx, personal.ActorUser, personal.EventRecoveryRequested, account.ID)
	wait, err := s.store.ReserveMail(ctx, reservation(r.MailID, account.ID, PurposeRecovery), event)
	if errors.Is(err, ErrNotFound) || wait > 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reserving a recovery mail: %w", err)
	}
	return s.mailToken(ctx, mailing{
		mailID: r.MailID, account: account, purpose: PurposeRecovery,
		to: account.Email, url: s.settings.RecoveryURL, template: recoveryMail, locale: r.Locale,
	})
}

// recoverable finds the account that a recovery means. Where both login and
// e-mail were given, both must be that account's.
func (s *Service) recoverable(ctx context.Context, r recoveryJob) (Account, bool, error) {
	email, _ := ParseEmail(r.Email)
	q := AccountQuery{EmailKey: email.Key}
	if r.Login != "" {
		q = s.loginQuery(r.Login)
	}
	account, err := s.store.FindAccount(ctx, q)
	if errors.Is(err, ErrNotFound) {
		return Account{}, false, nil
	}
	if err != nil {
		return Account{}, false, fmt.Errorf("finding the account of a recovery: %w", err)
	}
	if account.Disabled || account.Email.Key == "" || r.Email != "" && account.Email.Key != email.Key {
		return Account{}, false, nil
	}
	return account, true, nil
}

// RecoverConfirm implements [personal.Service]. A weak password is judged before
// the token, and uses nothing up.
func (s *Service) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) error {
	if err := s.chargeConfirmation(ctx); err != nil {
		return err
	}
	faults := maps.Clone(r.FieldErrors)
	require(&faults, "token", r.Token)
	s.newPassword(&faults, r.Password, r.ConfirmPassword)
	if err := faults.Err(); err != nil {
		return err
	}
	digest, account, err := s.findMailToken(ctx, PurposeRecovery, r.Token)
	if err != nil {
		return err
	}
	prepared := s.newPassword(&faults, r.Password, r.ConfirmPassword, personalWords(account)...)
	if err := faults.Err(); err != nil {
		return err
	}
	hash, err := s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return fail("hashing a password", err)
	}
	event := s.event(ctx, personal.ActorUser, personal.EventRecovered, account.ID)
	if err := s.store.RedeemRecovery(ctx, digest, hash, event); err != nil {
		return redeemError("redeeming a recovery token", err)
	}
	s.wake()
	s.remember(ctx, account.ID) // he may sign in from here, whoever guesses elsewhere
	return nil
}

// findMailToken looks up a token as it was mailed.
func (s *Service) findMailToken(ctx context.Context, p MailPurpose, text string) ([32]byte, Account, error) {
	digest, ok := token.MailDigest(text)
	if !ok {
		return digest, Account{}, refusal(personal.CodeInvalidToken)
	}
	account, err := s.store.FindMailToken(ctx, p, digest)
	if err != nil {
		return digest, Account{}, redeemError("finding a mailed token", err)
	}
	return digest, account, nil
}

// redeemError gives one answer for every token that is no good.
func redeemError(doing string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return refusal(personal.CodeInvalidToken)
	}
	return fail(doing, err)
}
