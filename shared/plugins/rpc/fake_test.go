package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func newClient(conn grpc.ClientConnInterface, host personal.Host) *rpc.Client {
	return rpc.NewClient(conn, host)
}

// fakeHost returns a schema that a test can change, and counts the calls for it.
type fakeHost struct {
	schema atomic.Pointer[personal.Schema]
	calls  atomic.Int64
	onMail func(ctx context.Context, m personal.Mail) error
	events chan personal.Event
}

func newFakeHost(revision string) *fakeHost {
	h := &fakeHost{events: make(chan personal.Event, 8)}
	h.use(revision)
	return h
}

func (h *fakeHost) use(revision string) {
	h.schema.Store(&personal.Schema{Revision: revision, Fields: []personal.Field{{Name: "field_" + revision, Type: personal.TypeText}}})
}

func (h *fakeHost) UserFields(context.Context) (personal.Schema, error) {
	h.calls.Add(1)
	return *h.schema.Load(), nil
}

func (h *fakeHost) SendMail(ctx context.Context, m personal.Mail) error {
	if h.onMail == nil {
		return errors.New("unexpected mail")
	}
	return h.onMail(ctx, m)
}

func (h *fakeHost) PublishEvent(_ context.Context, e personal.Event) error {
	h.events <- e
	return nil
}

// module is a module whose steps a test can replace.
type module struct {
	service   personal.Service
	preflight func(context.Context) (rpc.PreflightResult, error)
	step      func(ctx context.Context, name string) error
}

func (m *module) Service() personal.Service { return m.service }

func (m *module) Administration() personal.Administration {
	if a, ok := m.service.(personal.Administration); ok {
		return a
	}
	return &personaltest.Administration{}
}

func (m *module) Preflight(ctx context.Context) (rpc.PreflightResult, error) {
	if m.preflight == nil {
		return rpc.PreflightResult{}, nil
	}
	return m.preflight(ctx)
}

func (m *module) Metrics(ctx context.Context) ([]byte, error) {
	return []byte("personal_plugin_calls_total 1\n"), m.run(ctx, "Metrics")
}

func (m *module) run(ctx context.Context, name string) error {
	if m.step == nil {
		return nil
	}
	return m.step(ctx, name)
}

func (m *module) Migrate(ctx context.Context, limit time.Duration) error {
	return m.run(ctx, fmt.Sprint("Migrate ", limit))
}
func (m *module) CheckDatabase(ctx context.Context) error { return m.run(ctx, "CheckDatabase") }
func (m *module) Accepts(ctx context.Context, c personal.Credentials, settings []byte) (bool, error) {
	return c == pair, m.run(ctx, "Accepts "+string(settings))
}
func (m *module) Activate(ctx context.Context) error { return m.run(ctx, "Activate") }
func (m *module) Quiesce(ctx context.Context) error  { return m.run(ctx, "Quiesce") }
func (m *module) Health(ctx context.Context) ([]string, error) {
	return []string{"the sky is dark"}, m.run(ctx, "Health")
}
func (m *module) Settle(ctx context.Context) error { return m.run(ctx, "Settle") }
func (m *module) Turn(ctx context.Context, _ time.Duration, _, _ bool) (rpc.Turn, error) {
	return rpc.Turn{}, m.run(ctx, "Turn")
}
func (m *module) Close() error { return m.run(context.Background(), "Close") }

// logBuffer is a log that goroutines may write and a test may read concurrently.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) logger() *slog.Logger { return rpc.NewLogger(b, slog.LevelDebug) }
