package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

func TestSpans_OfStatements(t *testing.T) {
	for name, newDatabase := range map[string]func(testing.TB) string{"sqlite": testkit.SQLite, "postgresql": testkit.Postgres} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
			s := migrated(t, newDatabase(t), store.Options{Spans: true})
			// traced runs f in a span of its own and returns the names of the spans below.
			traced := func(f func(ctx context.Context)) (names []string) {
				t.Helper()
				recorder.Reset()
				ctx, above := tracer.Start(t.Context(), "operation")
				f(ctx)
				for _, span := range recorder.Ended() {
					checkStatement(t, name, span)
					if span.Parent().SpanID() != above.SpanContext().SpanID() {
						t.Errorf("%q is not below the operation", span.Name())
					}
					names = append(names, span.Name())
				}
				above.End()
				return names
			}
			want := func(what string, got []string, want ...string) {
				t.Helper()
				for _, name := range want {
					if !strings.Contains(" "+strings.Join(got, ", ")+",", " "+name+",") {
						t.Errorf("%s: got spans %q, want %q among them", what, got, name)
					}
				}
			}
			session := accounts.Session{Selector: [8]byte{1}, Created: s.Now(), Rotated: s.Now(), LastSeen: s.Now(), Agent: "agent of anna"}
			want("a transaction", traced(func(ctx context.Context) {
				account := accounts.Account{
					Login: "anna", LoginKey: "anna", Email: accounts.Email{Address: "anna@example.org", Key: "anna@example.org"},
					PasswordHash: "hash of anna", CredentialVersion: 1,
				}
				_, err := s.CreateAccount(ctx, account, session, func(int64) []accounts.NewJob {
					return []accounts.NewJob{{Kind: "anna", Payload: []byte(`"anna"`)}}
				})
				if err != nil {
					t.Error(err)
				}
			}), "BEGIN", "INSERT personal_accounts", "INSERT personal_sessions", "COMMIT")
			for _, part := range []accounts.AccountPart{accounts.AccountState, accounts.AccountProfile, accounts.WholeAccount} {
				want("a lookup", traced(func(ctx context.Context) {
					var err error
					if session, _, err = s.FindSession(ctx, session.Selector, part); err != nil {
						t.Error(err)
					}
				}), "SELECT personal_sessions")
			}
			missing := traced(func(ctx context.Context) {
				if _, _, err := s.FindSession(ctx, [8]byte{9}, accounts.AccountState); !errors.Is(err, accounts.ErrNotFound) {
					t.Errorf("got %v, want not found", err)
				}
			})
			want("a lookup that finds nothing", missing, "SELECT personal_sessions")
			if recorder.Ended()[0].Status().Code == codes.Error {
				t.Error("a lookup that finds nothing has failed")
			}
			rotated := traced(func(ctx context.Context) {
				err := s.RotateSession(ctx, session, func(now time.Time) accounts.Session {
					session.Rotated = now
					return session
				})
				if err != nil {
					t.Error(err)
				}
			})
			if len(rotated) != 1 || rotated[0] != "UPDATE personal_sessions" {
				t.Errorf("a rotation: got spans %q, want one", rotated)
			}
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Health(canceled); err == nil {
				t.Error("a canceled check succeeded")
			}
			if n := len(recorder.Started()) - len(recorder.Ended()); n != 0 {
				t.Errorf("%d spans were not ended", n)
			}
		})
	}
}

// Each caller's own span covers its wait for the batch that serves several.
func TestSpans_OfABatchBelongToTheirCallers(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	s := migrated(t, testkit.SQLite(t), store.Options{Spans: true})
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
			if err := s.TouchSession(ctx, int64(i), [32]byte{}, true); err != nil {
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

// checkStatement checks that a span has operation and table and nothing else.
func checkStatement(t *testing.T, system string, span sdktrace.ReadOnlySpan) {
	t.Helper()
	got := map[string]string{}
	for _, a := range span.Attributes() {
		got[string(a.Key)] = a.Value.AsString()
	}
	name := got["db.operation.name"]
	if table, ok := got["db.collection.name"]; ok {
		name += " " + table
		delete(got, "db.collection.name")
	}
	if span.Name() != name || got["db.system.name"] != system || len(got) != 2 || span.Status().Description != "" || len(span.Events()) > 0 {
		t.Errorf("got span %q with %v, status %+v and %d events", span.Name(), got, span.Status(), len(span.Events()))
	}
}
