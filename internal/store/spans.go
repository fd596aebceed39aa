package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/uptrace/bun"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/shared/tracing"
)

// queryHook makes a span of each of bun's statements whose context has a recorded span.
// The span has the operation and the table from the lists below and nothing else of the
// statement, into which bun writes the values.
type queryHook struct{ kind dbconn.Kind }

// spanKey is the key of a statement's span in an event's Stash. The span is not put into
// the context, because bun runs the rest of a transaction with the context of its BEGIN.
type spanKey struct{}

// BeforeQuery begins a span.
func (h queryHook) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	if tracing.IsRecorded(ctx) {
		operation, table := parts(e.Query)
		e.Stash = map[any]any{spanKey{}: startStatement(ctx, h.kind, operation, table)}
	}
	return ctx
}

// AfterQuery ends the span.
func (h queryHook) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if span, ok := e.Stash[spanKey{}].(trace.Span); ok {
		endStatement(span, e.Err)
	}
}

// startStatement begins the span of a statement, or of a call that waits for one that
// serves several calls. The span of ctx must be recorded.
func startStatement(ctx context.Context, kind dbconn.Kind, operation, table string) trace.Span {
	name := operation
	if table != "" {
		name += " " + table
	}
	_, span := tracing.Start(ctx, name, trace.SpanKindClient)
	system := "sqlite"
	if kind == dbconn.PostgreSQL {
		system = "postgresql"
	}
	span.SetAttributes(attribute.String("db.system.name", system), attribute.String("db.operation.name", operation))
	if table != "" {
		span.SetAttributes(attribute.String("db.collection.name", table))
	}
	return span
}

// endStatement ends the span. Results that callers expect are not failures.
func endStatement(span trace.Span, err error) {
	expected := errors.Is(err, sql.ErrNoRows) || errors.Is(err, accounts.ErrStale) || errors.Is(err, context.Canceled)
	tracing.End(span, err != nil && !expected)
}

// startSessionSpan begins the span of a call of hot.go that bypasses bun. It is nil
// unless the span of ctx is recorded.
func (s *Store) startSessionSpan(ctx context.Context, operation string) trace.Span {
	if !tracing.IsRecorded(ctx) {
		return nil
	}
	return startStatement(ctx, s.pools.Kind, operation, "personal_sessions")
}

// endSessionSpan ends the span, if there is one.
func endSessionSpan(span trace.Span, err error) {
	if span != nil {
		endStatement(span, err)
	}
}

// withoutSpan returns a context without the recorded span of a caller, for a batch: it
// serves other callers too, and each has a span that covers its wait.
func withoutSpan(ctx context.Context) context.Context {
	if !tracing.IsRecorded(ctx) {
		return ctx
	}
	return trace.ContextWithSpan(ctx, nil)
}

var operations = []string{
	"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "BEGIN", "COMMIT", "ROLLBACK", "CREATE", "ALTER", "DROP", "SET", "PRAGMA",
}

var tables = []string{
	"personal_accounts", "personal_sessions", "personal_throttle", "personal_jobs", "personal_mail_tokens", "personal_mails",
	"personal_places", "personal_refused_codes", "personal_audit", "personal_hash_formats", "personal_schema",
	"personal_keys", "personal_sent_mails", "personal_pending_factors", "personal_recovery_codes",
	"personal_mail_refusals", "personal_fill",
}

// parts returns the operation of a statement, or "other", and the table that it names
// first, or "". Both are from the lists above, so that no value of the statement can
// become part of a span.
func parts(statement string) (operation, table string) {
	statement = strings.TrimLeft(statement, " \t\n")
	operation = "other"
	for _, o := range operations {
		if len(statement) >= len(o) && strings.EqualFold(statement[:len(o)], o) && !inName(statement[len(o):]) {
			operation = o
			break
		}
	}
	const prefix = "personal_"
	for rest := statement; ; {
		_, after, found := strings.Cut(rest, prefix)
		if !found {
			return operation, ""
		}
		for _, t := range tables {
			if strings.HasPrefix(after, t[len(prefix):]) && !inName(after[len(t)-len(prefix):]) {
				return operation, t
			}
		}
		rest = after
	}
}

// inName reports whether a text goes on with a character of a name.
func inName(rest string) bool {
	if rest == "" {
		return false
	}
	c := rest[0]
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
