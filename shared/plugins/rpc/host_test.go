package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

// serveCallback serves a service whose operations all call callback. It returns the
// service and the host as the module sees it.
func serveCallback(t *testing.T, host personal.Host, callback func(ctx context.Context,
	host personal.Host) error) (service personal.Service, module personal.Host) {
	t.Helper()
	service = rpctest.NewService(t, func(h personal.Host) personal.Service {
		module = h
		return personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, _ any) (any, error) {
			return results[operation], callback(ctx, h)
		})
	}, host)
	return service, module
}

func userFields(ctx context.Context, host personal.Host) error {
	_, err := host.UserFields(ctx)
	return err
}

func TestCallbacks_ConvertEveryField(t *testing.T) {
	host := newFakeHost("1")
	mails := make(chan personal.Mail, 1)
	host.onMail = func(_ context.Context, m personal.Mail) error { mails <- m; return nil }
	_, module := serveCallback(t, host, userFields)

	mail, _ := filled(reflect.TypeFor[personal.Mail]()).(personal.Mail)
	if err := module.SendMail(t.Context(), mail); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mail, <-mails); diff != "" {
		t.Errorf("mail (-sent +received):\n%s", diff)
	}
	event, _ := filled(reflect.TypeFor[personal.Event]()).(personal.Event)
	if err := module.PublishEvent(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(event, <-host.events); diff != "" {
		t.Errorf("event (-sent +received):\n%s", diff)
	}
	schema, _ := filled(reflect.TypeFor[personal.Schema]()).(personal.Schema)
	host.schema.Store(&schema)
	got, err := module.UserFields(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(schema, got); diff != "" {
		t.Errorf("schema (-sent +received):\n%s", diff)
	}
}

func TestCallbacks_CarryTheirCall(t *testing.T) {
	host := newFakeHost("1")
	var seen personal.Call
	var bounded bool
	host.onMail = func(ctx context.Context, _ personal.Mail) error {
		seen = personal.CallFrom(ctx)
		_, bounded = ctx.Deadline()
		return nil
	}
	service, module := serveCallback(t, host, func(ctx context.Context, h personal.Host) error {
		return h.SendMail(ctx, personal.Mail{})
	})
	sent := personal.Call{RequestID: "r", Locale: "ru", Languages: "de,ru", Address: netip.MustParseAddr("192.0.2.1"), Agent: "Browser/1",
		Shared: true}
	if _, err := service.Refresh(personal.WithCall(t.Context(), sent), pair); err != nil {
		t.Fatal(err)
	}
	if seen != sent {
		t.Errorf("got %+v, want %+v", seen, sent)
	}
	if err := module.SendMail(context.Background(), personal.Mail{}); err != nil || !bounded {
		t.Errorf("callback without a deadline: got error %v, deadline %t; want a default deadline", err, bounded)
	}
}

func TestSendMail_PermanentRefusalReachesModule(t *testing.T) {
	host := newFakeHost("1")
	_, module := serveCallback(t, host, userFields)
	const reply = "550 5.1.1 no such mailbox"
	tests := map[string]struct {
		err    error
		reason string
	}{
		"plain refusal":                         {personal.NewMailRefusedError(reply), reply},
		"wrapped refusal":                       {fmt.Errorf("mail 17: %w", personal.NewMailRefusedError(reply)), reply},
		"refusal as the cause of another error": {personal.NewError(personal.CodeUnavailable, personal.NewMailRefusedError(reply)), reply},
		"refusal without a reason":              {&personal.MailRefusedError{}, ""},
		"invalid reason is cleaned": {
			&personal.MailRefusedError{Reason: "550 no\r\nsuch \x1bbox \xff" + strings.Repeat("é", 300)},
			"550 no such box \uFFFD" + strings.Repeat("é", 240),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			host.onMail = func(context.Context, personal.Mail) error { return tt.err }
			err := module.SendMail(t.Context(), personal.Mail{})
			var refused *personal.MailRefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a permanent refusal", err)
			}
			if refused.Reason != tt.reason {
				t.Errorf("got reason %q, want %q", refused.Reason, tt.reason)
			}
		})
	}
}

func TestSendMail_FailureReachesModule(t *testing.T) {
	host := newFakeHost("1")
	_, module := serveCallback(t, host, userFields)
	for sent, want := range map[personal.MailFailedError]personal.MailFailedError{
		{Reply: "550 5.7.1"}:                   {Reply: "550 5.7.1"},
		{Reply: "451 later, anna@example.com"}: {Reply: "451"},
		{PerhapsSent: true}:                    {PerhapsSent: true},
	} {
		host.onMail = func(context.Context, personal.Mail) error { return fmt.Errorf("mail 17: %w", &sent) }
		err := module.SendMail(t.Context(), personal.Mail{})
		got, _ := errors.AsType[*personal.MailFailedError](err)
		if got == nil || *got != want {
			t.Errorf("%+v: got %v with %+v, want %+v", sent, err, got, want)
		}
	}
}

func TestSendMail_OtherErrorsAreNoRefusal(t *testing.T) {
	host := newFakeHost("1")
	_, module := serveCallback(t, host, userFields)
	for failure, code := range map[error]personal.Code{
		errors.New("550 disk full"): personal.CodeInternal,
		&personal.Error{Code: personal.CodeUnavailable, RetryAfter: time.Minute}: personal.CodeUnavailable,
		context.DeadlineExceeded: personal.CodeUnavailable,
	} {
		host.onMail = func(context.Context, personal.Mail) error { return failure }
		err := module.SendMail(t.Context(), personal.Mail{})
		var refused *personal.MailRefusedError
		if personal.CodeOf(err) != code || errors.As(err, &refused) {
			t.Errorf("host returned %v: got %v, want %s and no refusal", failure, err, code)
		}
	}
}

// eraser is a host that keeps data about users.
type eraser struct {
	*fakeHost
	erase func(userID int64) error
}

func (e eraser) EraseUser(_ context.Context, userID int64) error { return e.erase(userID) }

func TestEraseUser_ReachesAHostThatKeepsData(t *testing.T) {
	var erased []int64
	failure := errors.New("the search index is away")
	erase := func(userID int64) error {
		erased = append(erased, userID)
		if len(erased) == 1 {
			return failure
		}
		return nil
	}
	_, module := serveCallback(t, eraser{newFakeHost("1"), erase}, userFields)
	toModule, ok := module.(personal.Eraser)
	if !ok {
		t.Fatal("the host as the module sees it is no Eraser")
	}
	if err := toModule.EraseUser(t.Context(), 7); err == nil {
		t.Error("got no error, want the host's")
	}
	if err := toModule.EraseUser(t.Context(), 7); err != nil || !slices.Equal(erased, []int64{7, 7}) {
		t.Errorf("got error %v and the erasures %v, want 7 twice", err, erased)
	}

	_, module = serveCallback(t, newFakeHost("1"), userFields)
	if err := module.(personal.Eraser).EraseUser(t.Context(), 7); err != nil {
		t.Errorf("a host that keeps nothing: got error %v, want none", err)
	}
}
