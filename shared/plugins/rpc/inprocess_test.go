package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

type secretKey struct{}

func TestInProcess_PassesWhatCrossesProcessesOnly(t *testing.T) {
	var log bytes.Buffer
	served := &personaltest.Fake{}
	served.ProfileFunc = func(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
		if ctx.Value(secretKey{}) != nil {
			t.Error("a value of the caller's context has reached the service")
		}
		if got := personal.CallFrom(ctx); got.RequestID != "request" || got.SchemaRevision != "empty" {
			t.Errorf("got the call %+v, want that of the caller and the schema's revision", got)
		}
		return personal.Profile{Login: "ada"}, nil
	}
	served.RecoverFunc = func(context.Context, personal.RecoverRequest) error {
		return &personal.Error{Code: personal.CodeValidationFailed, FieldErrors: personal.FieldErrors{"email": personal.FieldErrorRequired}}
	}
	served.SessionsFunc = func(context.Context, personal.Credentials) ([]personal.Session, error) { panic("SecretSesame") }
	client := rpc.NewClient(rpc.InProcess(served, served, slog.New(slog.NewTextHandler(&log, nil))), &personaltest.Host{})
	ctx := context.WithValue(personal.WithCall(t.Context(), personal.Call{RequestID: "request"}), secretKey{}, true)

	if got, err := client.Profile(ctx, personal.Credentials{UserID: 1, UserHash: "hash"}); err != nil || got.Login != "ada" {
		t.Errorf("got %+v, %v, want the profile", got, err)
	}
	err := client.Recover(ctx, personal.RecoverRequest{})
	if personal.CodeOf(err) != personal.CodeValidationFailed || !strings.Contains(err.Error(), "email=required") {
		t.Errorf("got %v, want the service's error", err)
	}
	if _, err := client.Sessions(ctx, personal.Credentials{}); personal.CodeOf(err) != personal.CodeInternal {
		t.Errorf("after a panic: got %v, want an internal error", err)
	}
	if text := log.String(); !strings.Contains(text, "panic in a call") || strings.Contains(text, "SecretSesame") {
		t.Errorf("got the log %q, want the panic without its value", text)
	}
	if _, err := client.Fields(ctx); personal.CodeOf(err) != personal.CodeNotFound {
		t.Errorf("an operation that is not offered: got %v, want not_found", err)
	}
}
