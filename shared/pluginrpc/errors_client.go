package pluginrpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// contractError returns the error of a call as one of the contract; nil for nil.
// Whatever is not clearly something else is an internal failure.
func contractError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var known *personal.Error
	if errors.As(err, &known) {
		return err
	}
	if s, ok := status.FromError(err); ok {
		if e := fromDetail(s); e != nil {
			return e
		}
	}
	failure := &personal.Error{Code: personal.CodeInternal, RequestID: requestID(ctx), Cause: withContext(ctx, err)}
	switch status.Code(err) {
	case codes.Unimplemented:
		failure.Code = personal.CodeNotFound
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted:
		failure.Code, failure.RetryAfter = personal.CodeUnavailable, retryAfter
	default:
		if isContextError(err) {
			failure.Code, failure.RetryAfter = personal.CodeUnavailable, retryAfter
		}
	}
	return failure
}

// fromDetail returns the error that a status carries whole, or nil.
func fromDetail(s *status.Status) *personal.Error {
	for _, detail := range s.Details() {
		d, ok := detail.(*personalv1.ErrorDetail)
		if !ok || d.GetCode() == "" {
			continue
		}
		e := &personal.Error{
			Code:        personal.Code(d.GetCode()),
			FieldErrors: mapTexts[personal.FieldErrorCode](d.GetFields()),
			RetryAfter:  max(0, d.GetRetryAfter().AsDuration()),
			RequestID:   d.GetRequestId(),
		}
		switch {
		case d.MailRefused != nil:
			e.Cause = personal.NewMailRefusedError(d.GetMailRefused())
		case s.Message() != d.GetCode():
			e.Cause = s.Err()
		}
		return e
	}
	return nil
}

// lifecycleError returns the error of a lifecycle call; nil for nil.
func lifecycleError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.FailedPrecondition:
		return &PermanentError{Reason: s.Message()}
	case codes.Unimplemented:
		return &PermanentError{Reason: "the plugin does not know this step: " + s.Message()}
	case codes.DeadlineExceeded: // the plugin's clock may be the first to notice
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, s.Message())
	}
	return withContext(ctx, errors.New(s.Message()))
}

// withContext adds to err that the caller's own time is up, if it is.
func withContext(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
