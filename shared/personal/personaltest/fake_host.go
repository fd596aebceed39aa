package personaltest

import (
	"context"
	"slices"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
)

// Host is a [personal.Host] that keeps what it is given. Where a function is
// set it decides; a mail or event that it refuses is not kept. The zero value
// has no user fields and takes everything. Set the functions before the first
// call; all methods are safe for concurrent use.
type Host struct {
	UserFieldsFunc   func(context.Context) (personal.Schema, error)
	SendMailFunc     func(context.Context, personal.Mail) error
	PublishEventFunc func(context.Context, personal.Event) error

	mu      sync.Mutex
	mails   []personal.Mail
	events  []personal.Event
	changed chan struct{} // closed and replaced whenever something is kept; nil until somebody waits
}

var _ personal.Host = (*Host)(nil)

// UserFields calls UserFieldsFunc; without one the schema is empty.
func (h *Host) UserFields(ctx context.Context) (personal.Schema, error) {
	if h.UserFieldsFunc == nil {
		return personal.Schema{Revision: "empty"}, nil
	}
	return h.UserFieldsFunc(ctx)
}

// SendMail keeps the mail if SendMailFunc, where set, takes it.
func (h *Host) SendMail(ctx context.Context, m personal.Mail) error {
	if h.SendMailFunc != nil {
		if err := h.SendMailFunc(ctx, m); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mails = append(h.mails, m)
	h.tell()
	return nil
}

// PublishEvent keeps the event if PublishEventFunc, where set, takes it.
func (h *Host) PublishEvent(ctx context.Context, e personal.Event) error {
	if h.PublishEventFunc != nil {
		if err := h.PublishEventFunc(ctx, e); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.tell()
	return nil
}

// Mails returns the mails kept so far, repeated deliveries included.
func (h *Host) Mails() []personal.Mail {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mails)
}

// Events returns the events kept so far, repeated deliveries included.
func (h *Host) Events() []personal.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// AwaitMails waits until n mails have been kept and returns all of them, or the
// context's error.
func (h *Host) AwaitMails(ctx context.Context, n int) ([]personal.Mail, error) {
	for {
		changed := h.watch()
		if mails := h.Mails(); len(mails) >= n {
			return mails, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// AwaitEvents waits until n events have been kept and returns all of them, or
// the context's error.
func (h *Host) AwaitEvents(ctx context.Context, n int) ([]personal.Event, error) {
	for {
		changed := h.watch()
		if events := h.Events(); len(events) >= n {
			return events, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// watch returns a channel that is closed when the next thing is kept.
func (h *Host) watch() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// tell wakes whoever waits; h.mu is held.
func (h *Host) tell() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}
