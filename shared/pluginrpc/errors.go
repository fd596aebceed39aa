package pluginrpc

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// retryAfter is what a caller is told when nobody knows better.
const retryAfter = time.Second

var errPanic = errors.New("panic")

// Unavailable returns a status error that [NewService] turns into
// personal.CodeUnavailable with retryAfter: for whoever stands between a service
// and its plugin process and has none to send a call to. The reason goes to the
// log of the caller, not to users.
func Unavailable(retryAfter time.Duration, reason string) error {
	return statusOf(codes.Unavailable, reason, &personalv1.ErrorDetail{
		Code:       string(personal.CodeUnavailable),
		RetryAfter: durationpb.New(retryAfter),
	})
}

// contractStatus returns the status by which err crosses to the caller of a
// service, and logs what does not cross.
func contractStatus(ctx context.Context, log *slog.Logger, err error) error {
	e := contractOf(ctx, err)
	logCause(ctx, log, e)
	detail := &personalv1.ErrorDetail{
		Code:      string(e.Code),
		Fields:    mapTexts[string](e.FieldErrors),
		RequestId: requestID(ctx),
	}
	if e.RetryAfter > 0 {
		detail.RetryAfter = durationpb.New(e.RetryAfter)
	}
	return statusOf(statusCode(e.Code), string(e.Code), detail)
}

// callbackStatus is [contractStatus] for callbacks to the host: a
// [*personal.MailRefusedError] crosses too, cleaned and bounded. It is logged as
// a warning, because the relay has failed and not the host.
func callbackStatus(ctx context.Context, log *slog.Logger, err error) error {
	var refused *personal.MailRefusedError
	if !errors.As(err, &refused) {
		return contractStatus(ctx, log, err)
	}
	reason := personal.NewMailRefusedError(refused.Reason).Reason
	log.WarnContext(ctx, "mail refused for good", "reason", reason)
	return statusOf(codes.Internal, string(personal.CodeInternal), &personalv1.ErrorDetail{
		Code:        string(personal.CodeInternal),
		RequestId:   requestID(ctx),
		MailRefused: &reason,
	})
}

// contractOf returns err as an error of the contract. An internal failure in a
// call whose time is up, or whose caller went away, is put down to that.
func contractOf(ctx context.Context, err error) *personal.Error {
	var e *personal.Error
	if !errors.As(err, &e) {
		e = personal.NewError(personal.CodeInternal, err)
	}
	if e.Code == personal.CodeInternal && !errors.Is(err, errPanic) && (ctx.Err() != nil || isContextError(err)) {
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: err}
	}
	return e
}

func logCause(ctx context.Context, log *slog.Logger, e *personal.Error) {
	if e.Cause == nil || errors.Is(e.Cause, errPanic) { // a panic is logged with its stack
		return
	}
	level := slog.LevelDebug
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the caller went away
	case e.Code == personal.CodeInternal:
		level = slog.LevelError
	case e.Code == personal.CodeUnavailable:
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "call failed", "code", string(e.Code), "error", e.Cause.Error())
}

// lifecycleStatus returns the status by which err crosses to the host's
// administrator: with its text.
func lifecycleStatus(ctx context.Context, log *slog.Logger, err error) error {
	log.DebugContext(ctx, "lifecycle call failed", "error", err.Error()) // the host is told, and tells
	var refusal *PermanentError
	if errors.As(err, &refusal) {
		return status.Error(codes.FailedPrecondition, refusal.Reason)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func statusOf(code codes.Code, message string, detail *personalv1.ErrorDetail) error {
	bare := status.New(code, message)
	full, err := bare.WithDetails(protoadapt.MessageV1Of(detail))
	if err != nil { // a text that is no valid UTF-8: the status alone still denies
		return bare.Err()
	}
	return full.Err()
}

// statusCode is for gRPC's own tools; the other side goes by the detail.
func statusCode(code personal.Code) codes.Code {
	switch code {
	case personal.CodeInvalidCredentials, personal.CodeUnauthenticated:
		return codes.Unauthenticated
	case personal.CodeAccountDisabled:
		return codes.PermissionDenied
	case personal.CodeNotFound:
		return codes.NotFound
	case personal.CodeAlreadyExists:
		return codes.AlreadyExists
	case personal.CodeTooManyAttempts:
		return codes.ResourceExhausted
	case personal.CodeInternal:
		return codes.Internal
	case personal.CodeUnavailable:
		return codes.Unavailable
	}
	return codes.InvalidArgument
}
