package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// maxStack bounds the stack that is logged after a panic, in bytes.
const maxStack = 16 << 10

// interceptor handles calls from the other process: it puts the call's metadata into
// the context, recovers from panics and converts errors to statuses. A response
// that accompanies an error is dropped.
type interceptor struct {
	log    *slog.Logger
	tracer trace.Tracer // of the calls whose caller is traced; nil for none
	status func(ctx context.Context, log *slog.Logger, err error) error
}

func (i interceptor) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, span := serveCall(incoming(ctx), i.tracer, info.FullMethod)
	started := time.Now()
	response, err := i.callAndRecover(ctx, info, request, next)
	if span != nil {
		var failure error // not a nil *personal.Error
		if err != nil {
			failure = asContractError(ctx, err)
		}
		endCall(span, info.FullMethod, failure)
	}
	if err != nil {
		err = i.status(ctx, i.callLog(ctx, info), err)
	}
	if i.log.Enabled(ctx, slog.LevelDebug) { // the host logs every request
		i.callLog(ctx, info).DebugContext(ctx, "call", "status", status.Code(err).String(), "duration", time.Since(started).String())
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// callLog returns the log for one call. It is costly, so it is made on demand.
func (i interceptor) callLog(ctx context.Context, info *grpc.UnaryServerInfo) *slog.Logger {
	return i.log.With("method", info.FullMethod, requestIDKey, requestID(ctx))
}

// callAndRecover turns a panic into an error that does not contain its value.
func (i interceptor) callAndRecover(ctx context.Context, info *grpc.UnaryServerInfo, request any, next grpc.UnaryHandler) (response any,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			i.callLog(ctx, info).ErrorContext(ctx, "panic in a call", "panic", panicText(p), "stack", string(stack[:min(len(stack), maxStack)]))
			response, err = nil, errPanic
		}
	}()
	return next(ctx, request)
}

// panicText describes a panic without secrets: except for runtime errors only the
// type is shown, because the value may contain a library's input.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

// serviceServer serves the service of a process. Its methods run only if there is
// one, see process.intercept.
type serviceServer struct {
	personalv1.UnimplementedPersonalServiceServer
	process *process
}

// respond returns a function that takes the two results of an operation and converts that of a
// success. The conversion fails for a value that no user field has.
func respond[T, PB any](convert func(T) (PB, error)) func(T, error) (PB, error) {
	return func(result T, err error) (PB, error) {
		if err != nil {
			var none PB
			return none, err
		}
		return convert(result)
	}
}

func (s *serviceServer) service() personal.Service { return s.process.parts.Load().service }

func (s *serviceServer) Register(ctx context.Context, in *personalv1.RegisterRequest) (*personalv1.RegisterResponse, error) {
	signedIn, err := s.service().Register(ctx, convert.registerFromPB(in))
	if err != nil {
		return nil, err
	}
	if signedIn.Credentials == (personal.Credentials{}) && signedIn.Profile.Login == "" {
		return &personalv1.RegisterResponse{Unverified: true}, nil
	}
	return convert.registeredToPB(signedIn)
}

// administrationServer serves the administration of a process, like serviceServer.
type administrationServer struct {
	personalv1.UnimplementedAdministrationServiceServer
	process *process
}

func (s *administrationServer) administration() personal.Administration {
	return s.process.parts.Load().administration
}

// lifecycleServer lets the host drive the module of a process. All methods but Configure run only
// if there is one, see process.intercept.
type lifecycleServer struct {
	personalv1.UnimplementedLifecycleServiceServer
	process *process
	broker  *plugin.GRPCBroker
}

func (s *lifecycleServer) module() Module { return s.process.parts.Load().module }

// Configure dials the host before anything else, because the broker forgets the
// host's address after a few seconds.
func (s *lifecycleServer) Configure(ctx context.Context, in *personalv1.ConfigureRequest) (*personalv1.ConfigureResponse, error) {
	if s.process.configured.Swap(true) {
		return nil, &PermanentError{Reason: "the process is already configured"}
	}
	conn, err := s.broker.DialWithOptions(in.GetHostBrokerId(), DialOptions()...)
	if err != nil {
		return nil, fmt.Errorf("dialling the host: %w", err)
	}
	if err := s.process.configure(ctx, convert.configurationFromPB(in), conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &personalv1.ConfigureResponse{}, nil
}

func (s *lifecycleServer) Preflight(ctx context.Context, _ *personalv1.PreflightRequest) (*personalv1.PreflightResponse, error) {
	report, err := s.module().Preflight(ctx)
	return convert.preflightToPB(report), err
}

func (s *lifecycleServer) Migrate(ctx context.Context, in *personalv1.MigrateRequest) (*personalv1.MigrateResponse, error) {
	return &personalv1.MigrateResponse{}, s.module().Migrate(ctx, in.GetStepLimit().AsDuration())
}

func (s *lifecycleServer) CheckDatabase(ctx context.Context, _ *personalv1.CheckDatabaseRequest) (*personalv1.CheckDatabaseResponse, error) {
	return &personalv1.CheckDatabaseResponse{}, s.module().CheckDatabase(ctx)
}

func (s *lifecycleServer) Activate(ctx context.Context, _ *personalv1.ActivateRequest) (*personalv1.ActivateResponse, error) {
	return &personalv1.ActivateResponse{}, s.module().Activate(ctx)
}

func (s *lifecycleServer) Quiesce(ctx context.Context, _ *personalv1.QuiesceRequest) (*personalv1.QuiesceResponse, error) {
	return &personalv1.QuiesceResponse{}, s.module().Quiesce(ctx)
}

func (s *lifecycleServer) Health(ctx context.Context, _ *personalv1.HealthRequest) (*personalv1.HealthResponse, error) {
	warnings, err := s.module().Health(ctx)
	return &personalv1.HealthResponse{Warnings: warnings}, err
}

func (s *lifecycleServer) Settle(ctx context.Context, _ *personalv1.SettleRequest) (*personalv1.SettleResponse, error) {
	return &personalv1.SettleResponse{}, s.module().Settle(ctx)
}

func (s *lifecycleServer) Accepts(ctx context.Context, in *personalv1.AcceptsRequest) (*personalv1.AcceptsResponse, error) {
	accepted, err := s.module().Accepts(ctx, convert.credentialsFromPB(in.GetCredentials()), in.GetSettings())
	return &personalv1.AcceptsResponse{Accepted: accepted}, err
}

func (s *lifecycleServer) Turn(ctx context.Context, in *personalv1.TurnRequest) (*personalv1.TurnResponse, error) {
	turn, err := s.module().Turn(ctx, in.GetAdvance().AsDuration(), in.GetWork(), in.GetMeasure())
	return convert.turnToPB(turn), err
}

// hostServer serves the callbacks of a plugin.
type hostServer struct {
	personalv1.UnimplementedHostServiceServer
	host personal.Host
}

func (s *hostServer) EraseUser(ctx context.Context, in *personalv1.EraseUserRequest) (*personalv1.EraseUserResponse, error) {
	if eraser, ok := s.host.(personal.Eraser); ok {
		return &personalv1.EraseUserResponse{}, eraser.EraseUser(ctx, in.GetUserId())
	}
	return &personalv1.EraseUserResponse{}, nil
}

func (s *administrationServer) RegisterIdentity(ctx context.Context, in *personalv1.RegisterIdentityRequest) (*personalv1.RegisterIdentityResponse,
	error) {
	signedIn, err := s.administration().RegisterIdentity(ctx, convert.registerIdentityFromPB(in))
	if err != nil {
		return nil, err
	}
	if signedIn.Credentials == (personal.Credentials{}) && signedIn.Profile.Login == "" {
		return &personalv1.RegisterIdentityResponse{Unverified: true}, nil
	}
	return convert.registeredIdentityToPB(signedIn)
}
