package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// defaultRetryAfter is the RetryAfter of an unavailable error where no better value
// is known.
const defaultRetryAfter = time.Second

var errPanic = errors.New("panic")

// grpcCodes are the gRPC codes of contract errors, for gRPC's own tools; the other
// process reads the detail. Codes that are not listed are InvalidArgument.
var grpcCodes = map[personal.Code]codes.Code{
	personal.CodeInvalidCredentials: codes.Unauthenticated,
	personal.CodeUnauthenticated:    codes.Unauthenticated,
	personal.CodeAccountDisabled:    codes.PermissionDenied,
	personal.CodeNotFound:           codes.NotFound,
	personal.CodeAlreadyExists:      codes.AlreadyExists,
	personal.CodeTooManyAttempts:    codes.ResourceExhausted,
	personal.CodeInternal:           codes.Internal,
	personal.CodeUnavailable:        codes.Unavailable,
}

// Unavailable returns a status error that a [Client] converts to
// personal.CodeUnavailable with retryAfter. It is for a connection that forwards
// calls and has no plugin process to forward to. The reason is the error's cause: it
// is logged and not shown to users.
func Unavailable(retryAfter time.Duration, reason string) error {
	return newStatus(codes.Unavailable, reason, &personalv1.ErrorDetail{
		Code:       string(personal.CodeUnavailable),
		RetryAfter: durationpb.New(retryAfter),
	})
}

// contractStatus converts the error of a contract call to the status that crosses to
// the caller. It logs the cause, which does not cross.
func contractStatus(ctx context.Context, log *slog.Logger, err error) error {
	e := asContractError(ctx, err)
	logCause(ctx, log, e)
	detail := &personalv1.ErrorDetail{
		Code:        string(e.Code),
		FieldErrors: convert.fieldErrorsToPB(e.FieldErrors),
		RequestId:   requestID(ctx),
		UserId:      e.UserID,
	}
	if e.RetryAfter > 0 {
		detail.RetryAfter = durationpb.New(e.RetryAfter)
	}
	code, ok := grpcCodes[e.Code]
	if !ok {
		code = codes.InvalidArgument
	}
	return newStatus(code, string(e.Code), detail)
}

// callbackStatus is [contractStatus] for callbacks to the host. In addition a
// [*personal.MailRefusedError] crosses, with a cleaned reason, and a [*personal.MailFailedError].
// They are logged as warnings, because the relay failed and the host did not.
func callbackStatus(ctx context.Context, log *slog.Logger, err error) error {
	detail := &personalv1.ErrorDetail{Code: string(personal.CodeInternal), RequestId: requestID(ctx)}
	var refused *personal.MailRefusedError
	var failed *personal.MailFailedError
	switch {
	case errors.As(err, &refused):
		reason := personal.NewMailRefusedError(refused.Reason).Reason
		detail.MailRefused = &reason
		log.WarnContext(ctx, "call failed", "error", refused.Error()) // which has no words of the relay
	case errors.As(err, &failed):
		detail.MailFailure = &personalv1.MailFailure{Reply: failed.Codes(), PerhapsSent: failed.PerhapsSent}
		log.WarnContext(ctx, "call failed", "error", withoutMailboxes(err))
	default:
		return contractStatus(ctx, log, err)
	}
	return newStatus(codes.Internal, string(personal.CodeInternal), detail)
}

// asContractError returns err as an error of the contract. An internal error of a
// call whose deadline passed or whose caller hung up is reported as unavailable.
func asContractError(ctx context.Context, err error) *personal.Error {
	var e *personal.Error
	if !errors.As(err, &e) {
		e = personal.NewError(personal.CodeInternal, err)
	}
	if e.Code == personal.CodeInternal && !errors.Is(err, errPanic) && (ctx.Err() != nil || isContextError(err)) {
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: defaultRetryAfter, Cause: err}
	}
	return e
}

func logCause(ctx context.Context, log *slog.Logger, e *personal.Error) {
	if e.Cause == nil || errors.Is(e.Cause, errPanic) { // a panic is already logged, with its stack
		return
	}
	level := slog.LevelDebug
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the caller hung up
	case e.Code == personal.CodeInternal:
		level = slog.LevelError
	case e.Code == personal.CodeUnavailable:
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "call failed", "code", string(e.Code), "error", withoutMailboxes(e.Cause))
}

var mailbox = regexp.MustCompile(`(?i)("[^"]*"|[^\s<>"'(),;=]+)(@|%40|\\u0040)[^\s<>"'(),;&]+`)

// withoutMailboxes returns the text of an error for the log. A CMS may send mails by a library whose
// errors have the relay's reply.
func withoutMailboxes(err error) string {
	text := err.Error()
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		text = strings.ReplaceAll(text, reply.Error(), strconv.Itoa(reply.Code))
	}
	return mailbox.ReplaceAllString(text, "[mailbox]")
}

// lifecycleStatus converts the error of a lifecycle call to the status that crosses
// to the host. Its text crosses, because the host shows it to an administrator.
func lifecycleStatus(ctx context.Context, log *slog.Logger, err error) error {
	log.DebugContext(ctx, "lifecycle call failed", "error", err.Error()) // the host logs it at its own level
	if permanent, ok := errors.AsType[*PermanentError](err); ok {
		return status.Error(codes.FailedPrecondition, permanent.Reason)
	}
	if errors.Is(err, ErrNotScratch) {
		return status.Error(codes.NotFound, err.Error())
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// newStatus returns a status error with a detail. The detail is dropped if it cannot
// be encoded because a text is not valid UTF-8: the call still fails.
func newStatus(code codes.Code, message string, detail *personalv1.ErrorDetail) error {
	bare := status.New(code, message)
	full, err := bare.WithDetails(protoadapt.MessageV1Of(detail))
	if err != nil {
		return bare.Err()
	}
	return full.Err()
}

// contractError converts the error of a call to an error of the contract; nil stays
// nil. An error of unknown meaning is internal.
func contractError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*personal.Error](err); ok {
		return err
	}
	if s, ok := status.FromError(err); ok {
		if e := fromDetail(s); e != nil {
			return e
		}
	}
	e := &personal.Error{Code: personal.CodeInternal, RequestID: requestID(ctx), Cause: withContextError(ctx, err)}
	code := status.Code(err)
	switch {
	case code == codes.Unimplemented:
		e.Code = personal.CodeNotFound
	case code == codes.Unavailable, code == codes.Canceled, code == codes.DeadlineExceeded, code == codes.ResourceExhausted,
		isContextError(err):
		e.Code, e.RetryAfter = personal.CodeUnavailable, defaultRetryAfter
	}
	return e
}

// fromDetail returns the contract error in the detail of a status, or nil.
func fromDetail(s *status.Status) *personal.Error {
	for _, detail := range s.Details() {
		d, ok := detail.(*personalv1.ErrorDetail)
		if !ok || d.GetCode() == "" {
			continue
		}
		e := &personal.Error{
			Code:        personal.Code(d.GetCode()),
			FieldErrors: convert.fieldErrorsFromPB(d.GetFieldErrors()),
			RetryAfter:  max(0, d.GetRetryAfter().AsDuration()),
			RequestID:   d.GetRequestId(),
			UserID:      d.GetUserId(),
		}
		switch {
		case d.MailRefused != nil:
			e.Cause = personal.NewMailRefusedError(d.GetMailRefused())
		case d.MailFailure != nil:
			e.Cause = &personal.MailFailedError{Reply: d.GetMailFailure().GetReply(), PerhapsSent: d.GetMailFailure().GetPerhapsSent()}
		case s.Message() != d.GetCode():
			e.Cause = s.Err()
		}
		return e
	}
	return nil
}

// lifecycleError converts the error of a lifecycle call; nil stays nil.
func lifecycleError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	switch s.Code() {
	case codes.FailedPrecondition:
		return &PermanentError{Reason: s.Message()}
	case codes.DeadlineExceeded: // the plugin may notice it before the host does
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, s.Message())
	}
	return withContextError(ctx, errors.New(s.Message()))
}

// withContextError wraps err and the error of ctx, if ctx is done.
func withContextError(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
