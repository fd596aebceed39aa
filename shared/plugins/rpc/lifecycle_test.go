package rpc_test

import (
	"slices"

	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

func start(t *testing.T, m *module) *rpc.Connection {
	t.Helper()
	return startBuilt(t, builderOf(m), newFakeHost("1"), new(logBuffer))
}

// startBuilt starts and configures a plugin.
func startBuilt(t testing.TB, build rpc.Builder, host personal.Host, log *logBuffer) *rpc.Connection {
	t.Helper()
	connection := rpctest.Start(t, build, host, log.logger())
	if err := connection.Configure(t.Context(), rpc.Configuration{}); err != nil {
		t.Fatal(err)
	}
	return connection
}

func builderOf(m *module) rpc.Builder {
	return func(context.Context, rpc.Configuration, personal.Host) (rpc.Module, error) { return m, nil }
}

func TestConfigure_PassesWholeConfiguration(t *testing.T) {
	var seen rpc.Configuration
	build := func(_ context.Context, c rpc.Configuration, _ personal.Host) (rpc.Module, error) {
		seen = c
		return &module{}, nil
	}
	connection := rpctest.Start(t, build, newFakeHost("1"), new(logBuffer).logger())
	sent, _ := filled(reflect.TypeFor[rpc.Configuration]()).(rpc.Configuration)
	if err := connection.Configure(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, seen); diff != "" {
		t.Errorf("configuration (-sent +received):\n%s", diff)
	}
}

func TestPreflight_ReturnsWholeReport(t *testing.T) {
	report, _ := filled(reflect.TypeFor[rpc.PreflightResult]()).(rpc.PreflightResult)
	connection := start(t, &module{preflight: func(context.Context) (rpc.PreflightResult, error) { return report, nil }})
	got, err := connection.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report, got); diff != "" {
		t.Errorf("report (-sent +received):\n%s", diff)
	}
}

// steps are the steps of the lifecycle without a result.
var steps = map[string]func(*rpc.Connection, context.Context) error{
	"Migrate 3s": func(l *rpc.Connection, ctx context.Context) error {
		return l.Migrate(ctx, 3*time.Second)
	},
	"CheckDatabase": (*rpc.Connection).CheckDatabase,
	"Accepts x=1": func(l *rpc.Connection, ctx context.Context) error {
		accepted, err := l.Accepts(ctx, pair, []byte("x=1"))
		if err == nil && !accepted {
			return errors.New("got refused credentials")
		}
		return err
	},
	"Activate": (*rpc.Connection).Activate,
	"Quiesce":  (*rpc.Connection).Quiesce,
	"Health": func(l *rpc.Connection, ctx context.Context) error {
		_, err := l.Health(ctx)
		return err
	},
	"Settle": (*rpc.Connection).Settle,
	"Turn": func(l *rpc.Connection, ctx context.Context) error {
		_, err := l.Turn(ctx, time.Second, true, true)
		return err
	},
}

func TestLifecycle_StepReturnsModuleError(t *testing.T) {
	var called string
	var fail error
	connection := start(t, &module{step: func(_ context.Context, name string) error {
		called = name
		return fail
	}})
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			fail = nil
			if err := step(connection, t.Context()); err != nil || called != name {
				t.Errorf("got error %v after step %s, want none after %s", err, called, name)
			}
			fail = errors.New("the database is unavailable")
			err := step(connection, t.Context())
			var permanent *rpc.PermanentError
			if err == nil || err.Error() != "the database is unavailable" || errors.As(err, &permanent) {
				t.Errorf("got %v, want the module's error", err)
			}
			fail = fmt.Errorf("migrating: %w", &rpc.PermanentError{Reason: "the schema is too new"})
			if err := step(connection, t.Context()); !errors.As(err, &permanent) || permanent.Reason != "the schema is too new" {
				t.Errorf("got %v, want the permanent error", err)
			}
		})
	}
}

func TestLifecycle_StepIsBoundedByContext(t *testing.T) {
	connection := start(t, &module{step: func(ctx context.Context, name string) error {
		if name != "Health" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // real time: it is to expire
	defer cancel()
	if _, err := connection.Health(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want an exceeded deadline", err)
	}
}

func TestProcess_UnconfiguredFailsEveryCall(t *testing.T) {
	connection := rpctest.Start(t, builderOf(&module{service: fixed(nil)}), newFakeHost("1"), new(logBuffer).logger())
	service := newClient(connection.Conn(), newFakeHost("1"))
	for _, m := range operations() {
		if _, err := callOperation(t.Context(), service, m, nil); personal.CodeOf(err) != personal.CodeUnavailable {
			t.Errorf("%s: got %v, want unavailable", m.Name, err)
		}
	}
	for name, step := range steps {
		if err := step(connection, t.Context()); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if _, err := connection.Preflight(t.Context()); err == nil {
		t.Error("Preflight: got no error, want one")
	}
}

func TestConfigure_FailedConfigurationIsFinal(t *testing.T) {
	build := func(context.Context, rpc.Configuration, personal.Host) (rpc.Module, error) {
		return nil, &rpc.PermanentError{Reason: "session.idle: not a duration"}
	}
	connection := rpctest.Start(t, build, newFakeHost("1"), new(logBuffer).logger())
	var permanent *rpc.PermanentError
	err := connection.Configure(t.Context(), rpc.Configuration{})
	if !errors.As(err, &permanent) || permanent.Reason != "session.idle: not a duration" {
		t.Errorf("got %v, want the permanent error", err)
	}
	if err := connection.Configure(t.Context(), rpc.Configuration{}); err == nil {
		t.Error("second configuration: got no error, want one")
	}
	if _, err := connection.Health(t.Context()); err == nil {
		t.Error("Health: got no error, want one")
	}
}

func TestLifecycle_PanicIsErrorAndProcessSurvives(t *testing.T) {
	panics := true
	connection := start(t, &module{step: func(context.Context, string) error {
		if panics {
			panic("secret value")
		}
		return nil
	}})
	if err := connection.Activate(t.Context()); err == nil || strings.Contains(err.Error(), "secret value") {
		t.Errorf("got %v, want an error without the panic's value", err)
	}
	panics = false
	if err := connection.Activate(t.Context()); err != nil {
		t.Errorf("next step: %v", err)
	}
}

func TestCallbacks_CountsRunningCallbacks(t *testing.T) {
	host := newFakeHost("1")
	entered, release := make(chan struct{}), make(chan struct{})
	host.onMail = func(context.Context, personal.Mail) error {
		close(entered)
		<-release
		return nil
	}
	build := func(_ context.Context, _ rpc.Configuration, h personal.Host) (rpc.Module, error) {
		return &module{step: func(ctx context.Context, name string) error {
			if name != "Health" {
				return nil
			}
			return h.SendMail(ctx, personal.Mail{})
		}}, nil
	}
	connection := startBuilt(t, build, host, new(logBuffer))
	done := make(chan error, 1)
	go func() {
		warnings, err := connection.Health(t.Context())
		if err == nil && !slices.Equal(warnings, []string{"the sky is dark"}) {
			err = fmt.Errorf("got the warnings %q", warnings)
		}
		done <- err
	}()
	<-entered
	if n := connection.Callbacks(); n != 1 {
		t.Errorf("got %d running callbacks, want 1", n)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := connection.Callbacks(); n != 0 {
		t.Errorf("got %d running callbacks, want 0", n)
	}
}

func TestCutCallbacks_RunningOnesReturnWhatTheHostKnows(t *testing.T) {
	host := newFakeHost("1")
	entered := make(chan struct{})
	host.onMail = func(ctx context.Context, m personal.Mail) error {
		if m.ID == "" { // of a later call
			return ctx.Err()
		}
		close(entered)
		<-ctx.Done()
		return &personal.MailFailedError{PerhapsSent: true}
	}
	given := make(chan personal.Host, 1)
	build := func(_ context.Context, _ rpc.Configuration, h personal.Host) (rpc.Module, error) {
		given <- h
		return &module{step: func(context.Context, string) error { return nil }}, nil
	}
	connection := startBuilt(t, build, host, new(logBuffer))
	toHost, done := <-given, make(chan error, 1)
	go func() { done <- toHost.SendMail(t.Context(), personal.Mail{ID: "slow"}) }()
	<-entered
	connection.CutCallbacks()
	err := <-done
	if failed, _ := errors.AsType[*personal.MailFailedError](err); failed == nil || !failed.PerhapsSent {
		t.Errorf("got %v, want that the mail is perhaps sent", err)
	}
	if err := toHost.SendMail(t.Context(), personal.Mail{}); err != nil {
		t.Errorf("a later call: got %v, want that it is not cut", err)
	}
}
