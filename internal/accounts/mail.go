package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// MailWindow is how long a mail counts towards the most that an account gets of
// one purpose (HTTP contract, section 3), whoever asks for them and however.
const MailWindow = time.Hour

const (
	mailGap  = time.Minute
	mailMost = 5 // within MailWindow
)

func reservation(mailID string, accountID int64, p MailPurpose) MailReservation {
	return MailReservation{
		MailID: mailID, AccountID: accountID, Purpose: p,
		Gap: mailGap, Most: mailMost, Window: MailWindow,
	}
}

// mailing is one mail that brings a token.
type mailing struct {
	mailID   string
	account  Account
	purpose  MailPurpose
	to       Email
	url      string // {token} within; "" for no link
	template mailTemplate
	locale   string
}

// mailToken makes a token, stores its digest and mails it. The token exists in
// clear only here and in the mail: a job that is tried again makes another.
func (s *Service) mailToken(ctx context.Context, m mailing) error {
	text, digest := token.NewMailToken()
	stored := MailToken{
		AccountID:         m.account.ID,
		Purpose:           m.purpose,
		Digest:            digest,
		CredentialVersion: m.account.CredentialVersion,
		AccountEmailKey:   m.account.Email.Key,
		Expires:           s.store.Now().Add(s.settings.MailLifetime),
	}
	if m.purpose == PurposeEmail {
		stored.Email = m.to
	}
	err := s.store.AddMailToken(ctx, stored)
	if errors.Is(err, ErrStale) {
		return nil // the account has moved on; nobody is to be mailed any more
	}
	if err != nil {
		return fmt.Errorf("storing a mailed token: %w", err)
	}
	mail, err := m.template.write(m.locale, letter{
		Token:   text,
		Link:    strings.ReplaceAll(m.url, "{token}", text),
		Minutes: int(s.settings.MailLifetime / time.Minute),
	})
	if err != nil {
		return err
	}
	mail.ID, mail.To = m.mailID, m.to.Address
	return s.send(ctx, m.account.ID, mail)
}

// send hands a mail to the host. One that is refused for good is given up, with an
// event; any other error means that it is to be tried again.
func (s *Service) send(ctx context.Context, accountID int64, m personal.Mail) error {
	err := s.host.SendMail(ctx, m)
	var refused *personal.MailRefusedError
	if errors.As(err, &refused) {
		// Not the relay's words: they often name the address, and the host has them.
		s.log.WarnContext(ctx, "a mail was refused for good and is given up", slog.Int64("user_id", accountID))
		err = s.store.Enqueue(ctx, s.event(ctx, personal.ActorSystem, personal.EventMailRefused, accountID))
		if err == nil {
			s.wake()
		}
	}
	if err != nil {
		return fmt.Errorf("handing a mail to the host: %w", err)
	}
	return nil
}
