package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// The jobs of an e-mail change.
const (
	KindEmailChange outbox.Kind = "email_change"  // mails a token to the new address
	KindEmailNotice outbox.Kind = "email_changed" // tells the old address afterwards
)

// emailJob is an e-mail change that was asked for.
type emailJob struct {
	AccountID int64  `json:"account_id"`
	From      string `json:"from"`    // the account's e-mail when the change was asked for, "" if it had none
	To        string `json:"to"`      // the new address
	Version   int64  `json:"version"` // the account's credential version then: a new password voids the change
	Locale    string `json:"locale,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	MailID    string `json:"mail_id"`
}

// ChangeEmail implements [personal.Service].
func (s *Service) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, r.Password, s.takenEmail(ctx, true))
	if err != nil {
		return err
	}
	job, reserve := s.emailChange(ctx, who.account)
	if wait, err := s.store.MailWait(ctx, reserve); err != nil || wait > 0 {
		s.refund(ctx, attempt)
		return s.mailRefused(ctx, wait, err)
	}
	faults := maps.Clone(r.FieldErrors)
	email, fault := ParseEmail(r.Email)
	if fault != "" {
		faults.Add("email", fault)
	}
	guessed, err := s.confirmIdentity(ctx, who.account, &faults, "password", r.Password)
	if err == nil {
		err = faults.Err()
	}
	if err != nil {
		if !guessed {
			s.refund(ctx, attempt)
		}
		return err
	}
	job.To = email.Address
	// A mail that could not be redeemed is not sent. Whether the address is free
	// then, the database decides.
	reserve.NewEmailKey, reserve.Taken = email.Key, s.takenEmail(ctx, false)
	change := jobOf(who.account.ID, KindEmailChange, job)
	change.Replaces = true // an address that was mistyped may never take its mail
	wait, err := s.store.ReserveMail(ctx, reserve, change)
	var taken *TakenError
	if !errors.As(err, &taken) { // learning that an address is taken costs an attempt, besides
		s.refund(ctx, attempt)
	}
	if err != nil || wait > 0 {
		return s.mailRefused(ctx, wait, err)
	}
	s.wake()
	return nil
}

// emailChange returns the job of an e-mail change, but for the new address, and
// the reservation of its mail.
func (s *Service) emailChange(ctx context.Context, account Account) (emailJob, MailReservation) {
	call := personal.CallFrom(ctx)
	job := emailJob{
		AccountID: account.ID, From: account.Email.Key, Version: account.CredentialVersion,
		Locale: call.Locale, RequestID: call.RequestID, MailID: newID(),
	}
	return job, reservation(job.MailID, account.ID, PurposeEmail)
}

// mailRefused is why there is no room for one more mail.
func (s *Service) mailRefused(ctx context.Context, wait time.Duration, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return refusal(personal.CodeUnauthenticated)
	case err != nil:
		return s.notStored(ctx, "reserving an e-mail confirmation", err)
	}
	return &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: wait}
}

// sendEmailToken mails a token to the new address, unless the account's e-mail
// has changed since it was asked for.
func (s *Service) sendEmailToken(ctx context.Context, j outbox.Job) error {
	var r emailJob
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading an e-mail job: %w", err)
	}
	ctx = personal.WithCall(ctx, personal.Call{RequestID: r.RequestID, Locale: r.Locale})
	account, err := s.store.Account(ctx, r.AccountID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the account of an e-mail change: %w", err)
	}
	if account.Email.Key != r.From || account.CredentialVersion != r.Version {
		return nil
	}
	email, _ := ParseEmail(r.To)
	return s.mailToken(ctx, mailing{
		mailID: r.MailID, account: account.Account, purpose: PurposeEmail,
		to: email, url: s.settings.EmailURL, template: emailChangeMail, locale: r.Locale,
	})
}

// ConfirmEmail implements [personal.Service].
func (s *Service) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) error {
	if err := s.chargeConfirmation(ctx); err != nil {
		return err
	}
	faults := maps.Clone(r.FieldErrors)
	require(&faults, "token", r.Token)
	if err := faults.Err(); err != nil {
		return err
	}
	digest, account, err := s.findMailToken(ctx, PurposeEmail, r.Token)
	if err != nil {
		return err
	}
	err = s.store.RedeemEmail(ctx, digest, s.emailChanged(ctx, personal.ActorUser, account)...)
	var taken *TakenError
	if errors.As(err, &taken) {
		return alreadyExists(taken)
	}
	if err != nil {
		return redeemError("redeeming an e-mail token", err)
	}
	s.wake()
	return nil
}

// emailChanged are the jobs that follow: the event, and the notice to the old
// address, whose owner may not be who changed it.
func (s *Service) emailChanged(ctx context.Context, by personal.Actor, account Account) []NewJob {
	jobs := []NewJob{s.event(ctx, by, personal.EventEmailChanged, account.ID)}
	if account.Email.Address != "" {
		call := personal.CallFrom(ctx)
		notice := noticeJob{To: account.Email.Address, Locale: call.Locale, RequestID: call.RequestID, MailID: newID()}
		jobs = append(jobs, jobOf(account.ID, KindEmailNotice, notice))
	}
	return jobs
}

// noticeJob tells an address that it is an account's no more.
type noticeJob struct {
	To        string `json:"to"`
	Locale    string `json:"locale,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	MailID    string `json:"mail_id"`
}

func (s *Service) sendEmailNotice(ctx context.Context, j outbox.Job) error {
	var r noticeJob
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading an e-mail notice: %w", err)
	}
	ctx = personal.WithCall(ctx, personal.Call{RequestID: r.RequestID, Locale: r.Locale})
	m, err := emailNoticeMail.write(r.Locale, letter{})
	if err != nil {
		return err
	}
	m.ID, m.To = r.MailID, r.To
	return s.send(ctx, j.Account, m)
}
