package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"strings"
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

func TestCallback_LogHasNoMailboxAndNoReply(t *testing.T) {
	reply := &textproto.Error{Code: 450, Msg: "4.2.0 greylisted, marker <anna@example.com>"}
	for condition, err := range map[string]error{
		"a temporary refusal":              fmt.Errorf("sending to anna@example.com: %w", reply),
		"one as the cause":                 personal.NewError(personal.CodeUnavailable, fmt.Errorf("RCPT TO:<anna@example.com>: %w", reply)),
		"a permanent one":                  fmt.Errorf("mail 17: %w", personal.NewMailRefusedError("550 5.1.1 marker <anna@example.com>")),
		"a permanent one without the code": personal.NewMailRefusedError("marker: anna@example.com"),
		"a failure that names a mailbox":   fmt.Errorf("RCPT of anna@example.com: %w", &personal.MailFailedError{Reply: "550 5.7.1 marker"}),
		"a service reached by HTTP":        errors.New(`Post "https://mail.example/send?to=anna%40example.com": marked`),
		"a quoted mailbox":                 errors.New(`sending to "anna x"@example.com`),
		"a mailbox as JSON":                errors.New(`{"to":"anna\u0040example.com"}`),
	} {
		var log bytes.Buffer
		_ = callbackStatus(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), err)
		if text := log.String(); !strings.Contains(text, "call failed") || strings.Contains(text, "anna") || strings.Contains(text, "marker") {
			t.Errorf("%s: got log %q, want the failure without mailbox and reply", condition, text)
		}
	}
}
