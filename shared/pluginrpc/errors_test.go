package pluginrpc

import (
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func TestCallbackStatus_OlderPluginGetsInternalError(t *testing.T) {
	refused := personal.NewMailRefusedError("550 5.1.1 no such mailbox")
	crossing := status.Convert(callbackStatus(t.Context(), slog.New(slog.DiscardHandler), refused))
	detail, ok := crossing.Details()[0].(*personalv1.ErrorDetail)
	if !ok || detail.MailRefused == nil {
		t.Fatalf("got status %v, want one with the refusal", crossing)
	}
	detail.MailRefused = nil // as in a plugin that does not know the field
	err := contractError(t.Context(), newStatus(crossing.Code(), crossing.Message(), detail))
	if personal.CodeOf(err) != personal.CodeInternal || errors.As(err, &refused) {
		t.Errorf("got %v, want %s and no refusal", err, personal.CodeInternal)
	}
}

func TestContractStatus_ModulesRefusalDoesNotCross(t *testing.T) {
	refused := personal.NewMailRefusedError("550 5.1.1 no such mailbox")
	err := contractError(t.Context(), contractStatus(t.Context(), slog.New(slog.DiscardHandler), refused))
	if personal.CodeOf(err) != personal.CodeInternal || errors.As(err, &refused) {
		t.Errorf("got %v, want %s and no refusal", err, personal.CodeInternal)
	}
}
