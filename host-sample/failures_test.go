package main

import (
	"context"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/host-sample/eventlog"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

func TestFailedSignInsAreEventsThatNameNobody(t *testing.T) {
	events, err := eventlog.Open(filepath.Join(t.TempDir(), "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var code personal.Code
	service := notingFailures{&personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			if code == "" {
				return personal.SignedIn{}, nil
			}
			return personal.SignedIn{}, personal.NewError(code, nil)
		},
	}, events, quietLog()}
	ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "r1", Address: netip.MustParseAddr("192.0.2.1")})
	for _, code = range []personal.Code{"", personal.CodeInvalidCredentials, personal.CodeTooManyAttempts, personal.CodeUnavailable} {
		_, err := service.Authorize(ctx, personal.AuthorizeRequest{Login: "anna", Password: "secret"})
		if personal.CodeOf(err) != code {
			t.Errorf("the answer is %v, want %s", err, code)
		}
	}
	r, err := events.Read(eventlog.End())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	e, err := r.Next()
	if err != nil || e.Type != eventlog.SignInFailed || e.Address != "192.0.2.1" || e.RequestID != "r1" || e.UserID != 0 || e.Time.IsZero() || e.ID == "" {
		t.Errorf("%+v, %v", e, err)
	}
	if more, err := r.Next(); err == nil {
		t.Errorf("one failure, and yet there is %+v", more)
	}
}
