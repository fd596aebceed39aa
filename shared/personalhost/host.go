package personalhost

import (
	"context"
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

// own returns the Host in a host that is one, or embeds one.
func (h *Host) own() *Host { return h }

// ownHost returns the Host that a host is or embeds. ok is false for a host of another kind.
func ownHost(h personal.Host) (own *Host, ok bool) {
	o, ok := h.(interface{ own() *Host })
	if !ok {
		return nil, false
	}
	return o.own(), true
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
