package personalhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/tracing"
)

// Host is a [personal.Host] made of ready parts. All fields are required. A CMS that
// needs something else for one of the methods embeds a *Host and replaces the method;
// it replaces CheckMail together with SendMail, and still sets all fields. If it keeps
// data about users, it adds the method of [personal.Eraser].
type Host struct {
	Fields *fieldstore.Store
	Mail   mailer.Sender
	Log    *slog.Logger
}

var _ personal.Host = (*Host)(nil)

func (h *Host) check() error {
	if h == nil || h.Fields == nil || h.Mail == nil || h.Log == nil {
		return errors.New("a personalhost.Host needs Fields, Mail and Log")
	}
	return nil
}

// reserve refuses names to user fields.
func (h *Host) reserve(names []string) error { return h.Fields.Reserve(names...) }

// store returns the store of the user fields.
func (h *Host) store() *fieldstore.Store { return h.Fields }

// useSite tells the sender the URL of the site.
func (h *Host) useSite(url string) {
	if s, ok := h.Mail.(*mailer.SMTP); ok {
		s.UseSite(url)
	}
}

// captured returns the folder of mails that are not sent, empty if they are sent.
func (h *Host) captured() string {
	if c, ok := h.Mail.(*mailer.Capture); ok {
		return c.Folder()
	}
	return ""
}

// UserFields returns the schema from memory.
func (h *Host) UserFields(context.Context) (personal.Schema, error) {
	return h.Fields.Get().Schema, nil
}

// SendMail hands a mail to the sender. The log gets its ID only.
func (h *Host) SendMail(ctx context.Context, m personal.Mail) error {
	err := tracing.Do(ctx, "deliver mail", trace.SpanKindClient, func(ctx context.Context) error { return h.Mail.Send(ctx, m) })
	if err != nil {
		return fmt.Errorf("mail %s: %w", m.ID, err)
	}
	h.Log.InfoContext(ctx, "mail delivered", "mail_id", m.ID, "request_id", personal.CallFrom(ctx).RequestID)
	return nil
}

// CheckMail reports why mails cannot be sent now. The plugin manager calls it before a
// swap.
func (h *Host) CheckMail(ctx context.Context) error { return h.Mail.Check(ctx) }

// PublishEvent logs an event. The plugin's audit log stores it.
func (h *Host) PublishEvent(ctx context.Context, e personal.Event) error {
	attributes := []any{"type", string(e.Type), "user_id", e.UserID, "request_id", e.RequestID}
	if len(e.Fields) > 0 {
		attributes = append(attributes, "fields", strings.Join(e.Fields, ","))
	}
	h.Log.InfoContext(ctx, "account event", attributes...)
	return nil
}
