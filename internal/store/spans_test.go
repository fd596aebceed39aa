package store_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func TestSpans_OfOperations(t *testing.T) {
	for system, newDatabase := range map[string]func(testing.TB) string{"sqlite": testdb.SQLite, "postgresql": testdb.Postgres} {
		t.Run(system, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
			s := migrated(t, newDatabase(t), store.Options{})
			// wantSpan runs f in its own span and checks that the store has made one span
			// below, with this name and status, and with nothing of what was stored.
			wantSpan := func(name string, status codes.Code, f func(ctx context.Context)) {
				t.Helper()
				recorder.Reset()
				ctx, above := tracer.Start(t.Context(), "operation")
				f(ctx)
				spans := recorder.Ended()
				above.End()
				if len(spans) != 1 || len(recorder.Started()) != 2 {
					t.Fatalf("%s: got %d spans, %d of them ended, want one and the operation's", name, len(recorder.Started()), len(spans))
				}
				span := spans[0]
				want := []attribute.KeyValue{attribute.String("db.system.name", system)}
				if span.Name() != name || span.SpanKind() != trace.SpanKindClient || !slices.Equal(span.Attributes(), want) || len(span.Events()) > 0 {
					t.Errorf("%s: got span %q of kind %v with %v and %d events", name, span.Name(), span.SpanKind(), span.Attributes(), len(span.Events()))
				}
				if span.Status() != (sdktrace.Status{Code: status}) {
					t.Errorf("%s: got status %+v, want %v", name, span.Status(), status)
				}
				if span.Parent().SpanID() != above.SpanContext().SpanID() {
					t.Errorf("%s: the span is not below the operation", name)
				}
			}
			session := accounts.Session{Selector: [8]byte{1}, Created: s.Now(), Rotated: s.Now(), LastSeen: s.Now(), Agent: "agent of anna"}
			create := func(want bool) func(context.Context) {
				return func(ctx context.Context) {
					account := accounts.Account{
						Login: "anna", LoginKey: "anna", Email: accounts.Email{Address: "anna@example.org", Key: "anna@example.org"},
						PasswordHash: "hash of anna", CredentialVersion: 1,
					}
					_, err := s.CreateAccount(ctx, account, session, func(int64) []accounts.NewJob {
						return []accounts.NewJob{{Kind: "anna", Payload: []byte(`"anna"`)}}
					})
					if (err == nil) != want {
						t.Error(err)
					}
				}
			}
			wantSpan("store: create an account", codes.Unset, create(true))
			wantSpan("store: create an account", codes.Unset, create(false)) // the login is taken
			for _, part := range []accounts.AccountPart{accounts.AccountState, accounts.AccountProfile, accounts.WholeAccount} {
				wantSpan("store: find a session", codes.Unset, func(ctx context.Context) {
					var err error
					if session, _, err = s.FindSession(ctx, session.Selector, part); err != nil {
						t.Error(err)
					}
				})
				wantSpan("store: find a session", codes.Unset, func(ctx context.Context) {
					if _, _, err := s.FindSession(ctx, [8]byte{9}, part); !errors.Is(err, accounts.ErrNotFound) {
						t.Errorf("got %v, want not found", err)
					}
				})
			}
			rotate := func(want error) func(context.Context) {
				return func(ctx context.Context) {
					before := session
					err := s.RotateSession(ctx, before, func(now time.Time) accounts.Session {
						after := before
						after.Current, after.Rotated = [32]byte{1}, now
						return after
					})
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
			}
			wantSpan("store: rotate a session", codes.Unset, rotate(nil))
			wantSpan("store: rotate a session", codes.Unset, rotate(accounts.ErrStale))
			revoke := func(ctx context.Context) error { return s.RevokeSession(ctx, session.AccountID, session.ID) }
			wantSpan("store: revoke a session", codes.Unset, func(ctx context.Context) {
				if err := revoke(ctx); err != nil {
					t.Error(err)
				}
			})
			wantSpan("store: revoke a session", codes.Unset, func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				if err := revoke(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want canceled", err)
				}
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			wantSpan("store: revoke a session", codes.Error, func(ctx context.Context) {
				if err := revoke(ctx); err == nil {
					t.Error("a closed store has revoked a session")
				}
			})
		})
	}
}

// Each caller's own span covers its wait for the batch that serves several.
func TestSpans_OfABatchBelongToTheirCallers(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	s := migrated(t, testdb.SQLite(t), store.Options{})
	const callers = 20
	above := map[trace.SpanID]bool{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			ctx, span := tracer.Start(t.Context(), "operation")
			mu.Lock()
			above[span.SpanContext().SpanID()] = true
			mu.Unlock()
			if err := s.TouchSession(ctx, accounts.SessionTouch{ID: int64(i), Used: true}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := len(recorder.Ended()); n != callers {
		t.Errorf("got %d spans of %d calls", n, callers)
	}
	for _, span := range recorder.Ended() {
		if !above[span.Parent().SpanID()] {
			t.Errorf("two spans are below one call, or one is below none")
		}
		delete(above, span.Parent().SpanID())
	}
}
