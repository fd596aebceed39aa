package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/mailer"
	"github.com/cms-personal/personal/shared/personal"
)

// callbacks are what the plugin may ask of this CMS.
type callbacks struct {
	fields *fieldstore.Store
	mail   mailer.Sender
	log    *slog.Logger
}

var _ personal.Host = (*callbacks)(nil)

// UserFields answers from memory.
func (c *callbacks) UserFields(context.Context) (personal.Schema, error) {
	return c.fields.Get().Schema, nil
}

// SendMail delivers a mail, or keeps it where no relay is configured.
func (c *callbacks) SendMail(ctx context.Context, m personal.Mail) error {
	if err := c.mail.Send(ctx, m); err != nil {
		return fmt.Errorf("mail %s: %w", m.ID, err)
	}
	c.log.InfoContext(ctx, "mail delivered", "mail_id", m.ID, "request_id", personal.CallFrom(ctx).RequestID)
	return nil
}

// CheckMail tells an administrator who swaps plugins that mails stay here.
func (c *callbacks) CheckMail(ctx context.Context) error { return c.mail.Check(ctx) }

// PublishEvent logs an event. The plugin's audit log keeps it.
func (c *callbacks) PublishEvent(ctx context.Context, e personal.Event) error {
	c.log.InfoContext(ctx, "account event", "type", string(e.Type), "user_id", e.UserID, "request_id", e.RequestID)
	return nil
}
