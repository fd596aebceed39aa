package store

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/shared/tracing"
)

// startSpan begins the span of a transaction, of a statement on its own, or of a call
// that waits for a batch. doing is a fixed text. The span is nil unless that of ctx is
// recorded.
func (s *Store) startSpan(ctx context.Context, doing string) trace.Span {
	if !tracing.IsRecorded(ctx) {
		return nil
	}
	_, span := tracing.Start(ctx, "store: "+doing, trace.SpanKindClient)
	system := "sqlite"
	if s.pools.Kind == dbconn.PostgreSQL {
		system = "postgresql"
	}
	span.SetAttributes(attribute.String("db.system.name", system))
	return span
}

// endSpan ends the span, if there is one. Results that callers expect are not failures.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	var taken *accounts.TakenError
	var wait *accounts.WaitError
	failed := err != nil && !errors.As(err, &taken) && !errors.As(err, &wait)
	for _, expected := range []error{accounts.ErrNotFound, accounts.ErrStale, accounts.ErrOtherLogin, accounts.ErrCodeUsed, context.Canceled} {
		failed = failed && !errors.Is(err, expected)
	}
	tracing.End(span, failed)
}
