package pluginrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// closeTime is how long a process may take to close. go-plugin kills it two
// seconds after asking it to end.
const closeTime = 1800 * time.Millisecond

var errNotConfigured = errors.New("the plugin is not configured")

// process is the state of a plugin process: first without a module, then with
// one, until it ends.
type process struct {
	build   Builder
	log     *slog.Logger
	calls   gate
	claimed atomic.Bool
	parts   atomic.Pointer[parts]
}

// parts is what a configured process consists of.
type parts struct {
	module         Module
	service        personal.Service
	administration personal.Administration // nil if the module offers none
	host           io.Closer               // the connection to the host
}

// claimConfiguration reports whether the caller is the one who may configure.
func (p *process) claimConfiguration() bool { return !p.claimed.Swap(true) }

// configure makes the module, after a first round trip to the host.
func (p *process) configure(ctx context.Context, c Configuration, conn *grpc.ClientConn) error {
	host := newHostClient(conn)
	if _, err := host.UserFields(ctx); err != nil {
		return fmt.Errorf("asking the host for the user fields: %w", err)
	}
	module, err := p.build(ctx, c, host)
	if err != nil {
		return err
	}
	made := &parts{module: module, service: module.Service(), host: conn}
	if m, ok := module.(ModuleWithAdministration); ok {
		made.administration = m.Administration()
	}
	p.parts.Store(made)
	return nil
}

// answer is the interceptor of every unary call to the plugin. Calls to
// go-plugin's own services pass untouched.
func (p *process) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	switch serviceOf(info.FullMethod) {
	case personalv1.PersonalService_ServiceDesc.ServiceName:
		return answerer{log: p.log, level: slog.LevelInfo, status: contractStatus}.answer(ctx, request, info, p.serving(next))
	case personalv1.AdministrationService_ServiceDesc.ServiceName:
		return answerer{log: p.log, level: slog.LevelInfo, status: contractStatus}.answer(ctx, request, info, p.administering(next))
	case personalv1.LifecycleService_ServiceDesc.ServiceName:
		return answerer{log: p.log, level: slog.LevelDebug, status: lifecycleStatus}.answer(ctx, request, info, p.counted(next))
	}
	return next(ctx, request)
}

// serving lets calls through once there is a module to answer them.
func (p *process) serving(next grpc.UnaryHandler) grpc.UnaryHandler {
	return p.counted(func(ctx context.Context, request any) (any, error) {
		if p.parts.Load() == nil {
			return nil, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: errNotConfigured}
		}
		return next(ctx, request)
	})
}

// administering lets calls through if the module has an administration.
func (p *process) administering(next grpc.UnaryHandler) grpc.UnaryHandler {
	return p.serving(func(ctx context.Context, request any) (any, error) {
		if p.parts.Load().administration == nil {
			return nil, personal.NewError(personal.CodeNotFound, nil)
		}
		return next(ctx, request)
	})
}

// counted keeps the module open while a call is under way.
func (p *process) counted(next grpc.UnaryHandler) grpc.UnaryHandler {
	return func(ctx context.Context, request any) (any, error) {
		if !p.calls.enter() {
			return nil, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter}
		}
		defer p.calls.leave()
		return next(ctx, request)
	}
}

// quiesce stops the module's background work, if there is a module.
func (p *process) quiesce(ctx context.Context) {
	parts := p.parts.Load()
	if parts == nil {
		return
	}
	if err := parts.module.Quiesce(ctx); err != nil {
		p.log.Warn("stopping background work", "error", err)
	}
}

// close waits for the calls under way and closes the module, as long as
// closeTime allows. The calls' contexts have ended before.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := p.calls.shut(ctx); err != nil {
		p.log.Error("calls are still under way, the module is left as it is")
		return
	}
	parts := p.parts.Load()
	if parts == nil {
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(parts.module.Close(), parts.host.Close()) }()
	select {
	case err := <-closed:
		if err != nil {
			p.log.Error("closing the module", "error", err)
		}
	case <-ctx.Done():
		p.log.Error("the module does not close in time")
	}
}
