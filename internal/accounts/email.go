package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
)

// The jobs of an e-mail change.
const (
	KindEmailChange outbox.Kind = "email_change"  // mails a token to the new address
	KindEmailNotice outbox.Kind = "email_changed" // tells the old address afterwards
)

// emailJob is an e-mail change that was asked for, or was made.
type emailJob struct {
	AccountID int64  `json:"account_id"`
	From      string `json:"from"`    // the account's e-mail when the change was asked for
	To        string `json:"to"`      // the new address
	Version   int64  `json:"version"` // the account's credential version then: a new password voids the change
	Locale    string `json:"locale,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	MailID    string `json:"mail_id"`
}

// ChangeEmail implements [personal.Service].
func (s *Service) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	who, attempt, err := s.identifyGuess(ctx, r.Credentials)
	if err != nil {
		return err
	}
	faults := copyFaults(r.Faults)
	email, fault := ParseEmail(r.Email)
	if fault != "" {
		faults.Add("email", fault)
	}
	if err := s.confirmIdentity(ctx, who.account, attempt, &faults, "password", r.Password); err != nil {
		return err
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if err := s.mustBeFree(ctx, email, who.account.ID); err != nil {
		return err
	}
	return s.askEmailChange(ctx, who.account, email)
}

// mustBeFree saves a mail that could not be redeemed. The database decides when
// it is.
func (s *Service) mustBeFree(ctx context.Context, email Email, accountID int64) error {
	owner, err := s.store.FindAccount(ctx, AccountQuery{EmailKey: email.Key})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fail("finding an account by e-mail", err)
	case owner.ID != accountID:
		return alreadyExists(&TakenError{Email: true})
	}
	return nil
}

func (s *Service) askEmailChange(ctx context.Context, account Account, email Email) error {
	call := personal.CallFrom(ctx)
	job := emailJob{
		AccountID: account.ID, From: account.Email.Key, To: email.Address, Version: account.CredentialVersion,
		Locale: call.Locale, RequestID: call.RequestID, MailID: newID(),
	}
	payload, err := json.Marshal(job)
	if err != nil {
		return fail("writing an e-mail job", err)
	}
	wait, err := s.store.ReserveMail(ctx, reservation(job.MailID, account.ID, PurposeEmail),
		NewJob{Kind: KindEmailChange, Payload: payload})
	switch {
	case errors.Is(err, ErrNotFound):
		return refusal(personal.CodeUnauthenticated)
	case err != nil:
		return fail("reserving an e-mail confirmation", err)
	case wait > 0:
		return &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: wait}
	}
	s.wake()
	return nil
}

// sendEmailToken mails a token to the new address, unless the account's e-mail
// has changed since it was asked for.
func (s *Service) sendEmailToken(ctx context.Context, j outbox.Job) error {
	var r emailJob
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading an e-mail job: %w", err)
	}
	account, err := s.store.FindAccount(ctx, AccountQuery{EmailKey: r.From})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the account of an e-mail change: %w", err)
	}
	if account.ID != r.AccountID || account.CredentialVersion != r.Version {
		return nil
	}
	email, _ := ParseEmail(r.To)
	return s.mailToken(ctx, mailing{
		mailID: r.MailID, account: account, purpose: PurposeEmail,
		to: email, url: s.settings.EmailURL, template: emailChangeMail, locale: r.Locale,
	})
}

// ConfirmEmail implements [personal.Service].
func (s *Service) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) error {
	if err := s.charge(ctx, s.confirmation(ctx)); err != nil {
		return err
	}
	faults := copyFaults(r.Faults)
	require(&faults, "token", r.Token)
	if err := faults.Err(); err != nil {
		return err
	}
	digest, account, err := s.findMailToken(ctx, PurposeEmail, r.Token)
	if err != nil {
		return err
	}
	jobs, err := s.emailChanged(ctx, account)
	if err != nil {
		return err
	}
	err = s.store.RedeemEmail(ctx, digest, jobs...)
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
func (s *Service) emailChanged(ctx context.Context, account Account) ([]NewJob, error) {
	event, err := s.event(ctx, personal.EventEmailChanged, account.ID)
	if err != nil {
		return nil, err
	}
	call := personal.CallFrom(ctx)
	payload, err := json.Marshal(emailJob{
		AccountID: account.ID, From: account.Email.Address,
		Locale: call.Locale, RequestID: call.RequestID, MailID: newID(),
	})
	if err != nil {
		return nil, fail("writing an e-mail notice", err)
	}
	return []NewJob{event, {Kind: KindEmailNotice, Payload: payload}}, nil
}

// sendEmailNotice tells the old address that it is the account's no more.
func (s *Service) sendEmailNotice(ctx context.Context, j outbox.Job) error {
	var r emailJob
	if err := json.Unmarshal(j.Payload, &r); err != nil {
		return fmt.Errorf("reading an e-mail notice: %w", err)
	}
	m, err := emailNoticeMail.write(r.Locale, letter{})
	if err != nil {
		return err
	}
	m.ID, m.To = r.MailID, r.From
	if err := s.host.SendMail(ctx, m); err != nil {
		return fmt.Errorf("handing a mail to the host: %w", err)
	}
	return nil
}
