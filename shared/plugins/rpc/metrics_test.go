package rpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// metricsPlugin returns a fixed text.
type metricsPlugin struct {
	personalv1.LifecycleServiceClient
	text string
}

func (p metricsPlugin) Metrics(context.Context, *personalv1.MetricsRequest, ...grpc.CallOption) (*personalv1.MetricsResponse, error) {
	return &personalv1.MetricsResponse{Text: []byte(p.text)}, nil
}

func TestMetrics_AreLimitedTo1MiB(t *testing.T) {
	largest := strings.Repeat("#", 1<<20)
	if got, err := (&Connection{lifecycle: metricsPlugin{text: largest}}).Metrics(t.Context()); string(got) != largest || err != nil {
		t.Errorf("got %d bytes and error %v, want all of 1 MiB", len(got), err)
	}
	got, err := (&Connection{lifecycle: metricsPlugin{text: largest + "#"}}).Metrics(t.Context())
	if want := "the plugin's metrics have 1048577 bytes, at most 1048576 are accepted"; got != nil || err == nil || err.Error() != want {
		t.Errorf("got %d bytes and error %v, want none and %q", len(got), err, want)
	}
}

func TestObserver_IsToldOutcomesOfOperations(t *testing.T) {
	var seen []string
	p := &process{log: slog.New(slog.DiscardHandler), observe: func(operation string, outcome Outcome, took time.Duration) {
		seen = append(seen, operation+" "+string(outcome))
		if took <= 0 {
			t.Errorf("got duration %v, want more", took)
		}
	}}
	p.parts.Store(&parts{})
	call := func(server any, method string, err error) {
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: method}
		_, _ = p.intercept(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, err })
	}
	const service = "/personal.v1.PersonalService/"
	call(&serviceServer{}, service+"Refresh", nil)
	call(&serviceServer{}, service+"Refresh", personal.NewError(personal.CodeUnauthenticated, nil))
	call(&serviceServer{}, service+"Authorize", personal.NewError(personal.CodeTooManyAttempts, nil))
	call(&serviceServer{}, service+"Authorize", personal.NewError(personal.CodeUnavailable, nil))
	call(&serviceServer{}, service+"Authorize", context.Canceled)
	call(&serviceServer{}, service+"Profile", errors.New("a bug"))
	call(&administrationServer{}, "/personal.v1.AdministrationService/User", personal.NewError(personal.CodeNotFound, nil))
	call(&lifecycleServer{}, "/personal.v1.LifecycleService/Health", nil)
	want := []string{
		"Refresh ok", "Refresh refused", "Authorize refused", "Authorize unavailable", "Authorize unavailable",
		"Profile internal", "User refused",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	for _, one := range seen {
		operation, outcome, _ := strings.Cut(one, " ")
		if !slices.Contains(MethodNames(), operation) || !slices.Contains(Outcomes(), Outcome(outcome)) {
			t.Errorf("%s is not among the declared operations and outcomes", one)
		}
	}
}

func TestObserver_AddsNoAllocation(t *testing.T) {
	info := &grpc.UnaryServerInfo{Server: &serviceServer{}, FullMethod: "/personal.v1.PersonalService/Refresh"}
	next := func(context.Context, any) (any, error) { return nil, nil }
	allocations := func(o Observer) float64 {
		p := &process{log: slog.New(slog.DiscardHandler), observe: o}
		p.parts.Store(&parts{})
		return testing.AllocsPerRun(100, func() { _, _ = p.intercept(context.Background(), nil, info, next) })
	}
	calls := 0
	without, with := allocations(nil), allocations(func(string, Outcome, time.Duration) { calls++ })
	if with > without || calls == 0 {
		t.Errorf("got %v allocations in %d calls, want %v as without an observer", with, calls, without)
	}
}
