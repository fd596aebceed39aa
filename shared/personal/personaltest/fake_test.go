package personaltest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

func TestService_MissingFunctionIsNotFound(t *testing.T) {
	ctx, s := t.Context(), &personaltest.Service{}
	_, authorize := s.Authorize(ctx, personal.AuthorizeRequest{})
	_, fields := s.Fields(ctx)
	for name, err := range map[string]error{
		"authorize": authorize,
		"fields":    fields,
		"logout":    s.Logout(ctx, personal.LogoutRequest{}),
		"disabling": new(personaltest.Administration).DisableUser(ctx, 1),
	} {
		if got := personal.CodeOf(err); got != personal.CodeNotFound {
			t.Errorf("%s: got %q, want not_found", name, got)
		}
	}
}

func TestHost_RecordsAcceptedDeliveries(t *testing.T) {
	rejection := errors.New("mailbox full")
	h := &personaltest.Host{SendMailFunc: func(_ context.Context, m personal.Mail) error {
		if m.ID == "rejected" {
			return rejection
		}
		return nil
	}}
	if err := h.SendMail(t.Context(), personal.Mail{ID: "rejected"}); !errors.Is(err, rejection) {
		t.Errorf("got error %v, want the function's", err)
	}
	go func() {
		_ = h.PublishEvent(context.Background(), personal.Event{ID: "e"})
		_ = h.SendMail(context.Background(), personal.Mail{ID: "taken"})
		_ = h.EraseUser(context.Background(), 7)
	}()
	mails, err := h.AwaitMails(t.Context(), 1)
	if err != nil || len(mails) != 1 || mails[0].ID != "taken" {
		t.Errorf("got %v, %v; want the accepted mail", mails, err)
	}
	if events, err := h.AwaitEvents(t.Context(), 1); err != nil || len(events) != 1 {
		t.Errorf("got %v, %v; want the event", events, err)
	}
	if ids, err := h.AwaitErased(t.Context(), 1); err != nil || len(ids) != 1 || ids[0] != 7 {
		t.Errorf("got %v, %v; want the erasure", ids, err)
	}
}

func TestHost_AwaitStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(personaltest.Host).AwaitMails(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want the context's", err)
	}
}
