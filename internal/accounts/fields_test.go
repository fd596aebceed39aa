package accounts_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// schemaHost returns a schema that the test may change, and counts requests.
type schemaHost struct {
	personaltest.Host
	schema atomic.Pointer[personal.Schema]
	asked  atomic.Int64
}

// fieldsOf returns a service that needs only its host.
func fieldsOf(h personal.Host, log *slog.Logger) *accounts.Service {
	return accounts.New(accounts.Settings{}, nil, nil, h, log, func() {})
}

func (h *schemaHost) use(revision string) {
	h.schema.Store(&personal.Schema{Revision: revision, Fields: []personal.Field{{Name: "field_" + revision, Type: personal.TypeText}}})
}

func (h *schemaHost) UserFields(context.Context) (personal.Schema, error) {
	h.asked.Add(1)
	return *h.schema.Load(), nil
}

func withRevision(ctx context.Context, revision string) context.Context {
	return personal.WithCall(ctx, personal.Call{SchemaRevision: revision})
}

func TestFields_EachRevisionIsRequestedOnce(t *testing.T) {
	host := &schemaHost{}
	service := fieldsOf(host, slog.New(slog.DiscardHandler))
	for i, step := range []struct {
		revision string
		asked    int64
	}{{"1", 1}, {"2", 1}, {"2", 0}, {"1", 0}, {"3", 1}, {"4", 1}, {"1", 0}, {"5", 1}, {"2", 0}, {"1", 1}} {
		host.use(step.revision)
		before := host.asked.Load()
		fields, err := service.Fields(withRevision(t.Context(), step.revision))
		if err != nil {
			t.Fatal(err)
		}
		if want := "field_" + step.revision; len(fields) != 1 || fields[0].Name != want {
			t.Errorf("step %d: got %v, want %s", i, fields, want)
		}
		if asked := host.asked.Load() - before; asked != step.asked {
			t.Errorf("step %d: got %d requests to the host, want %d", i, asked, step.asked)
		}
	}
}

func TestFields_WithoutARevisionEachCallAsksTheHost(t *testing.T) {
	host := &schemaHost{}
	service := fieldsOf(host, slog.New(slog.DiscardHandler))
	for _, revision := range []string{"1", "2", "2", "1"} {
		host.use(revision)
		fields, err := service.Fields(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := "field_" + revision; len(fields) != 1 || fields[0].Name != want {
			t.Errorf("got %v, want %s", fields, want)
		}
	}
	if asked := host.asked.Load(); asked != 4 {
		t.Errorf("got %d requests to the host, want 4", asked)
	}
}

// slowHost responds when release is closed, or the call is canceled.
type slowHost struct {
	schemaHost
	entered chan struct{}
	release chan struct{}
}

func (h *slowHost) UserFields(ctx context.Context) (personal.Schema, error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return h.schemaHost.UserFields(ctx)
	case <-ctx.Done():
		return personal.Schema{}, ctx.Err()
	}
}

func newSlowHost() (*slowHost, *accounts.Service) {
	host := &slowHost{entered: make(chan struct{}, 16), release: make(chan struct{})}
	host.use("1")
	return host, fieldsOf(host, slog.New(slog.DiscardHandler))
}

func TestFields_ConcurrentCallsShareOneRequest(t *testing.T) {
	host, service := newSlowHost()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := service.Fields(withRevision(t.Context(), "1")); err != nil {
				t.Error(err)
			}
		})
	}
	<-host.entered
	close(host.release)
	calls.Wait()
	if more := len(host.entered); more > 0 {
		t.Errorf("got %d requests to the host, want 1", more+1)
	}
}

func TestFields_CanceledCallDoesNotAffectOthers(t *testing.T) {
	host, service := newSlowHost()
	asking, stop := context.WithCancel(withRevision(t.Context(), "1"))
	var calls sync.WaitGroup
	want := func(ctx context.Context, code personal.Code) {
		calls.Go(func() {
			if _, err := service.Fields(ctx); personal.CodeOf(err) != code {
				t.Errorf("got %v, want code %q", err, code)
			}
		})
	}
	want(asking, personal.CodeUnavailable)
	<-host.entered
	canceled, cancel := context.WithCancel(withRevision(t.Context(), "1"))
	cancel()
	if _, err := service.Fields(canceled); personal.CodeOf(err) != personal.CodeUnavailable {
		t.Errorf("during another call's request: got %v, want unavailable", err)
	}
	want(withRevision(t.Context(), "1"), "")
	stop()
	<-host.entered
	close(host.release)
	calls.Wait()
}

// A made-up 0.3.0 has a type of measures.
func TestFields_FieldOfALaterVersionIsToldOnce(t *testing.T) {
	host := &schemaHost{}
	var log bytes.Buffer
	service := fieldsOf(host, slog.New(slog.NewTextHandler(&log, nil)))
	host.schema.Store(&personal.Schema{Revision: "1", Fields: []personal.Field{
		{Name: "height", Type: "measure", Required: true, MaxLength: -1}, {Name: "city", Type: personal.TypeText},
	}})
	for range 2 {
		if fields, err := service.Fields(t.Context()); err != nil || len(fields) != 1 || fields[0].Name != "city" {
			t.Errorf("got %v, %v, want city alone", fields, err)
		}
	}
	if got := strings.Count(log.String(), "fields=[height]"); got != 1 {
		t.Errorf("got %d log lines about height, want 1: %s", got, log.String())
	}
}

func TestFields_InvalidSchemaKeepsTheLastValidOne(t *testing.T) {
	for name, inPlugin := range map[string]bool{"in a plugin": true, "in the host's process": false} {
		t.Run(name, func(t *testing.T) {
			host := &schemaHost{}
			var log bytes.Buffer
			service := fieldsOf(host, slog.New(slog.NewTextHandler(&log, nil)))
			ask := func(revision string) ([]personal.Field, error) {
				ctx := t.Context()
				if inPlugin {
					ctx = withRevision(ctx, revision)
				}
				return service.Fields(ctx)
			}
			invalid := &personal.Schema{Revision: "f", Fields: []personal.Field{{Name: "x"}}}
			host.schema.Store(invalid)
			for range 2 {
				if _, err := ask("f"); personal.CodeOf(err) != personal.CodeInternal {
					t.Errorf("without a valid schema: got %v, want internal", err)
				}
			}
			host.use("1")
			if _, err := ask("1"); err != nil {
				t.Fatal(err)
			}
			log.Reset()
			host.schema.Store(invalid)
			for range 2 {
				if fields, err := ask("f"); err != nil || len(fields) != 1 || fields[0].Name != "field_1" {
					t.Errorf("got %v, %v, want field_1", fields, err)
				}
			}
			if logged := strings.Count(log.String(), "user fields are invalid"); logged != 1 {
				t.Errorf("got %d log lines about the schema, want 1", logged)
			}
		})
	}
}
