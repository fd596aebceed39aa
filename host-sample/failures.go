package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/host-sample/eventlog"
	"github.com/cms-personal/personal/shared/personal"
)

// notingFailures is a service whose failed sign-ins are kept as events.
type notingFailures struct {
	personal.Service
	events *eventlog.Log
	log    *slog.Logger
}

// Authorize signs a user in.
func (n notingFailures) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	signedIn, err := n.Service.Authorize(ctx, r)
	if personal.CodeOf(err) == personal.CodeInvalidCredentials {
		n.note(ctx)
	}
	return signedIn, err
}

func (n notingFailures) note(ctx context.Context) {
	call := personal.CallFrom(ctx)
	e := personal.Event{ID: "host-" + rand.Text(), Type: eventlog.SignInFailed, Time: time.Now().UTC(), RequestID: call.RequestID}
	if call.Address.IsValid() {
		e.Address = call.Address.String()
	}
	if err := n.events.Append(e); err != nil {
		n.log.ErrorContext(ctx, "keeping a failed sign-in", "request_id", call.RequestID, "error", err)
	}
}
