// Package personaltest has test helpers for the contract of package personal: fakes of
// [personal.Service], [personal.Administration] and [personal.Host], and the test
// suites that every Service and Administration must pass.
package personaltest

import (
	"context"
	"slices"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
)

// Host is a fake [personal.Host] and [personal.Eraser] that records mails, events and
// erasures. The zero value has no user fields and accepts everything. A function that is
// set is called first; what it returns an error for is not recorded. Set the functions before
// the first call. All methods are safe for concurrent use.
type Host struct {
	UserFieldsFunc   func(context.Context) (personal.Schema, error)
	SendMailFunc     func(context.Context, personal.Mail) error
	PublishEventFunc func(context.Context, personal.Event) error
	EraseUserFunc    func(context.Context, int64) error

	mu      sync.Mutex
	mails   []personal.Mail
	events  []personal.Event
	erased  []int64
	changed chan struct{} // closed and reset when something is recorded; nil until a caller waits
}

var (
	_ personal.Host   = (*Host)(nil)
	_ personal.Eraser = (*Host)(nil)
)

// UserFields calls UserFieldsFunc, or returns a schema without fields if it is nil.
func (h *Host) UserFields(ctx context.Context) (personal.Schema, error) {
	if h.UserFieldsFunc == nil {
		return personal.Schema{Revision: "empty"}, nil
	}
	return h.UserFieldsFunc(ctx)
}

// SendMail records the mail, unless SendMailFunc returns an error.
func (h *Host) SendMail(ctx context.Context, m personal.Mail) error {
	if h.SendMailFunc != nil {
		if err := h.SendMailFunc(ctx, m); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mails = append(h.mails, m)
	h.wakeLocked()
	return nil
}

// PublishEvent records the event, unless PublishEventFunc returns an error.
func (h *Host) PublishEvent(ctx context.Context, e personal.Event) error {
	if h.PublishEventFunc != nil {
		if err := h.PublishEventFunc(ctx, e); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.wakeLocked()
	return nil
}

// EraseUser records the erasure, unless EraseUserFunc returns an error.
func (h *Host) EraseUser(ctx context.Context, userID int64) error {
	if h.EraseUserFunc != nil {
		if err := h.EraseUserFunc(ctx, userID); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.erased = append(h.erased, userID)
	h.wakeLocked()
	return nil
}

// Erased returns the ids of the users of recorded erasures, including repetitions.
func (h *Host) Erased() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.erased)
}

// AwaitErased waits until n erasures are recorded and returns the ids of all users, or
// the context's error.
func (h *Host) AwaitErased(ctx context.Context, n int) ([]int64, error) {
	return await(ctx, h, n, h.Erased)
}

// Mails returns the recorded mails, including repeated deliveries.
func (h *Host) Mails() []personal.Mail {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mails)
}

// Events returns the recorded events, including repeated deliveries.
func (h *Host) Events() []personal.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// AwaitMails waits until n mails are recorded and returns all of them, or the
// context's error.
func (h *Host) AwaitMails(ctx context.Context, n int) ([]personal.Mail, error) {
	return await(ctx, h, n, h.Mails)
}

// AwaitEvents waits until n events are recorded and returns all of them, or the
// context's error.
func (h *Host) AwaitEvents(ctx context.Context, n int) ([]personal.Event, error) {
	return await(ctx, h, n, h.Events)
}

// await waits until n things are recorded and returns all of them.
func await[T any](ctx context.Context, h *Host, n int, recorded func() []T) ([]T, error) {
	for {
		changed := h.watch()
		if all := recorded(); len(all) >= n {
			return all, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// watch returns a channel that is closed when something is recorded.
func (h *Host) watch() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// wakeLocked wakes the waiting callers.
func (h *Host) wakeLocked() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}
