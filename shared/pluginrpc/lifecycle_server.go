package pluginrpc

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-plugin"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

// lifecycleServer lets the host drive the module of a process.
type lifecycleServer struct {
	personalv1.UnimplementedLifecycleServiceServer
	process *process
	broker  *plugin.GRPCBroker
}

// Configure dials the host first, while the broker still knows the way there.
func (s *lifecycleServer) Configure(ctx context.Context, in *personalv1.ConfigureRequest) (*personalv1.ConfigureResponse, error) {
	if !s.process.claimConfiguration() {
		return nil, &PermanentError{Reason: "the process has been configured before"}
	}
	conn, err := s.broker.DialWithOptions(in.GetHostBrokerId(), DialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("dialling the host: %w", err)
	}
	if err := s.process.configure(ctx, configurationFromPB(in), conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &personalv1.ConfigureResponse{}, nil
}

func (s *lifecycleServer) Preflight(ctx context.Context, _ *personalv1.PreflightRequest) (*personalv1.PreflightResponse, error) {
	report, err := run(s, func(m Module) (Report, error) { return m.Preflight(ctx) })
	if err != nil {
		return nil, err
	}
	return reportToPB(report), nil
}

func (s *lifecycleServer) Migrate(ctx context.Context, _ *personalv1.MigrateRequest) (*personalv1.MigrateResponse, error) {
	return run(s, func(m Module) (*personalv1.MigrateResponse, error) {
		return &personalv1.MigrateResponse{}, m.Migrate(ctx)
	})
}

func (s *lifecycleServer) Activate(ctx context.Context, _ *personalv1.ActivateRequest) (*personalv1.ActivateResponse, error) {
	return run(s, func(m Module) (*personalv1.ActivateResponse, error) {
		return &personalv1.ActivateResponse{}, m.Activate(ctx)
	})
}

func (s *lifecycleServer) Quiesce(ctx context.Context, _ *personalv1.QuiesceRequest) (*personalv1.QuiesceResponse, error) {
	return run(s, func(m Module) (*personalv1.QuiesceResponse, error) {
		return &personalv1.QuiesceResponse{}, m.Quiesce(ctx)
	})
}

func (s *lifecycleServer) Health(ctx context.Context, _ *personalv1.HealthRequest) (*personalv1.HealthResponse, error) {
	return run(s, func(m Module) (*personalv1.HealthResponse, error) {
		return &personalv1.HealthResponse{}, m.Health(ctx)
	})
}

func run[T any](s *lifecycleServer, step func(Module) (T, error)) (T, error) {
	if p := s.process.parts.Load(); p != nil {
		return step(p.module)
	}
	var none T
	return none, errNotConfigured
}
