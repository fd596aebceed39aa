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

func (s *serviceServer) Authorize(ctx context.Context, in *personalv1.AuthorizeRequest) (*personalv1.AuthorizeResponse, error) {
	return respond(convert.authorizedToPB)(s.service().Authorize(ctx, convert.authorizeFromPB(in)))
}

func (s *serviceServer) Refresh(ctx context.Context, in *personalv1.RefreshRequest) (*personalv1.RefreshResponse, error) {
	credentials, err := s.service().Refresh(ctx, convert.credentialsFromPB(in.GetCredentials()))
	return &personalv1.RefreshResponse{Credentials: convert.credentialsToPB(credentials)}, err
}

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

func (s *serviceServer) Recover(ctx context.Context, in *personalv1.RecoverRequest) (*personalv1.RecoverResponse, error) {
	return &personalv1.RecoverResponse{}, s.service().Recover(ctx, convert.recoverFromPB(in))
}

func (s *serviceServer) RecoverConfirm(ctx context.Context, in *personalv1.RecoverConfirmRequest) (*personalv1.RecoverConfirmResponse,
	error) {
	recovered, err := s.service().RecoverConfirm(ctx, convert.recoverConfirmFromPB(in))
	return convert.recoveredToPB(recovered), err
}

func (s *serviceServer) Profile(ctx context.Context, in *personalv1.ProfileRequest) (*personalv1.ProfileResponse, error) {
	profile, err := respond(convert.profileToPB)(s.service().Profile(ctx, convert.credentialsFromPB(in.GetCredentials())))
	return &personalv1.ProfileResponse{Profile: profile}, err
}

func (s *serviceServer) UpdateProfile(ctx context.Context, in *personalv1.UpdateProfileRequest) (*personalv1.UpdateProfileResponse, error) {
	profile, err := respond(convert.profileToPB)(s.service().UpdateProfile(ctx, convert.updateProfileFromPB(in)))
	return &personalv1.UpdateProfileResponse{Profile: profile}, err
}

func (s *serviceServer) Prove(ctx context.Context, in *personalv1.ProveRequest) (*personalv1.ProveResponse, error) {
	proof, err := s.service().Prove(ctx, convert.proveFromPB(in))
	return convert.provedToPB(proof), err
}

func (s *serviceServer) ChangePassword(ctx context.Context, in *personalv1.ChangePasswordRequest) (*personalv1.ChangePasswordResponse,
	error) {
	credentials, err := s.service().ChangePassword(ctx, convert.changePasswordFromPB(in))
	return &personalv1.ChangePasswordResponse{Credentials: convert.credentialsToPB(credentials)}, err
}

func (s *serviceServer) ChangeEmail(ctx context.Context, in *personalv1.ChangeEmailRequest) (*personalv1.ChangeEmailResponse, error) {
	return &personalv1.ChangeEmailResponse{}, s.service().ChangeEmail(ctx, convert.changeEmailFromPB(in))
}

func (s *serviceServer) ConfirmEmail(ctx context.Context, in *personalv1.ConfirmEmailRequest) (*personalv1.ConfirmEmailResponse, error) {
	userID, err := s.service().ConfirmEmail(ctx, convert.confirmEmailFromPB(in))
	return &personalv1.ConfirmEmailResponse{UserId: userID}, err
}

func (s *serviceServer) Logout(ctx context.Context, in *personalv1.LogoutRequest) (*personalv1.LogoutResponse, error) {
	return &personalv1.LogoutResponse{}, s.service().Logout(ctx, convert.logoutFromPB(in))
}

func (s *serviceServer) Sessions(ctx context.Context, in *personalv1.SessionsRequest) (*personalv1.SessionsResponse, error) {
	sessions, err := s.service().Sessions(ctx, convert.credentialsFromPB(in.GetCredentials()))
	return &personalv1.SessionsResponse{Sessions: convert.sessionsToPB(sessions)}, err
}

func (s *serviceServer) RevokeSession(ctx context.Context, in *personalv1.RevokeSessionRequest) (*personalv1.RevokeSessionResponse, error) {
	return &personalv1.RevokeSessionResponse{}, s.service().RevokeSession(ctx, convert.revokeSessionFromPB(in))
}

func (s *serviceServer) RevokeOtherSessions(ctx context.Context,
	in *personalv1.RevokeOtherSessionsRequest) (*personalv1.RevokeOtherSessionsResponse, error) {
	return &personalv1.RevokeOtherSessionsResponse{}, s.service().RevokeOtherSessions(ctx, convert.credentialsFromPB(in.GetCredentials()))
}

func (s *serviceServer) Fields(ctx context.Context, _ *personalv1.FieldsRequest) (*personalv1.FieldsResponse, error) {
	fields, err := s.service().Fields(ctx)
	return &personalv1.FieldsResponse{Fields: convert.fieldsToPB(fields)}, err
}

func (s *serviceServer) Features(ctx context.Context, _ *personalv1.FeaturesRequest) (*personalv1.FeaturesResponse, error) {
	features, err := s.service().Features(ctx)
	return convert.featuresToPB(features), err
}

func (s *serviceServer) ResendVerification(ctx context.Context,
	in *personalv1.ResendVerificationRequest) (*personalv1.ResendVerificationResponse, error) {
	return &personalv1.ResendVerificationResponse{}, s.service().ResendVerification(ctx, convert.resendVerificationFromPB(in))
}

func (s *serviceServer) Export(ctx context.Context, in *personalv1.ExportRequest) (*personalv1.ExportResponse, error) {
	return respond(convert.exportedToPB)(s.service().Export(ctx, convert.exportFromPB(in)))
}

func (s *serviceServer) Delete(ctx context.Context, in *personalv1.DeleteRequest) (*personalv1.DeleteResponse, error) {
	eraseAt, err := s.service().Delete(ctx, convert.deleteFromPB(in))
	return &personalv1.DeleteResponse{EraseAt: timeToPB(eraseAt)}, err
}

func (s *serviceServer) UndoDelete(ctx context.Context, in *personalv1.UndoDeleteRequest) (*personalv1.UndoDeleteResponse, error) {
	userID, err := s.service().UndoDelete(ctx, convert.undoDeleteFromPB(in))
	return &personalv1.UndoDeleteResponse{UserId: userID}, err
}

func (s *serviceServer) BeginTwoFactor(ctx context.Context, in *personalv1.BeginTwoFactorRequest) (*personalv1.BeginTwoFactorResponse,
	error) {
	secret, err := s.service().BeginTwoFactor(ctx, convert.beginTwoFactorFromPB(in))
	return convert.startedTwoFactorToPB(secret), err
}

func (s *serviceServer) ConfirmTwoFactor(ctx context.Context, in *personalv1.ConfirmTwoFactorRequest) (*personalv1.ConfirmTwoFactorResponse,
	error) {
	confirmed, err := s.service().ConfirmTwoFactor(ctx, convert.confirmTwoFactorFromPB(in))
	return convert.confirmedTwoFactorToPB(confirmed), err
}

func (s *serviceServer) RenewRecoveryCodes(ctx context.Context,
	in *personalv1.RenewRecoveryCodesRequest) (*personalv1.RenewRecoveryCodesResponse, error) {
	codes, err := s.service().RenewRecoveryCodes(ctx, convert.renewRecoveryCodesFromPB(in))
	return &personalv1.RenewRecoveryCodesResponse{RecoveryCodes: codes}, err
}

func (s *serviceServer) RemoveOwnTwoFactor(ctx context.Context,
	in *personalv1.RemoveOwnTwoFactorRequest) (*personalv1.RemoveOwnTwoFactorResponse, error) {
	credentials, err := s.service().RemoveOwnTwoFactor(ctx, convert.removeOwnTwoFactorFromPB(in))
	return &personalv1.RemoveOwnTwoFactorResponse{Credentials: convert.credentialsToPB(credentials)}, err
}

func (s *serviceServer) BeginPasskey(ctx context.Context, in *personalv1.BeginPasskeyRequest) (*personalv1.BeginPasskeyResponse, error) {
	attempt, err := s.service().BeginPasskey(ctx, convert.beginPasskeyFromPB(in))
	return convert.startedPasskeyToPB(attempt), err
}

func (s *serviceServer) AuthorizePasskey(ctx context.Context, in *personalv1.AuthorizePasskeyRequest) (*personalv1.AuthorizePasskeyResponse,
	error) {
	return respond(convert.authorizedPasskeyToPB)(s.service().AuthorizePasskey(ctx, convert.authorizePasskeyFromPB(in)))
}

func (s *serviceServer) AddPasskey(ctx context.Context, in *personalv1.AddPasskeyRequest) (*personalv1.AddPasskeyResponse, error) {
	attempt, err := s.service().AddPasskey(ctx, convert.addPasskeyFromPB(in))
	return convert.addedPasskeyToPB(attempt), err
}

func (s *serviceServer) ConfirmPasskey(ctx context.Context, in *personalv1.ConfirmPasskeyRequest) (*personalv1.ConfirmPasskeyResponse,
	error) {
	passkey, err := s.service().ConfirmPasskey(ctx, convert.confirmPasskeyFromPB(in))
	return &personalv1.ConfirmPasskeyResponse{Passkey: convert.passkeyToPB(passkey)}, err
}

func (s *serviceServer) Passkeys(ctx context.Context, in *personalv1.PasskeysRequest) (*personalv1.PasskeysResponse, error) {
	passkeys, err := s.service().Passkeys(ctx, convert.credentialsFromPB(in.GetCredentials()))
	return &personalv1.PasskeysResponse{Passkeys: convert.passkeysToPB(passkeys)}, err
}

func (s *serviceServer) RenamePasskey(ctx context.Context, in *personalv1.RenamePasskeyRequest) (*personalv1.RenamePasskeyResponse, error) {
	return &personalv1.RenamePasskeyResponse{}, s.service().RenamePasskey(ctx, convert.renamePasskeyFromPB(in))
}

func (s *serviceServer) RemovePasskey(ctx context.Context, in *personalv1.RemovePasskeyRequest) (*personalv1.RemovePasskeyResponse, error) {
	return &personalv1.RemovePasskeyResponse{}, s.service().RemovePasskey(ctx, convert.removePasskeyFromPB(in))
}

// administrationServer serves the administration of a process, like serviceServer.
type administrationServer struct {
	personalv1.UnimplementedAdministrationServiceServer
	process *process
}

func (s *administrationServer) administration() personal.Administration {
	return s.process.parts.Load().administration
}

func (s *administrationServer) FindUsers(ctx context.Context, in *personalv1.FindUsersRequest) (*personalv1.FindUsersResponse, error) {
	return respond(convert.userPageToPB)(s.administration().FindUsers(ctx, convert.findUsersFromPB(in)))
}

func (s *administrationServer) Users(ctx context.Context, in *personalv1.UsersRequest) (*personalv1.UsersResponse, error) {
	users, err := respond(convert.usersToPB)(s.administration().Users(ctx, in.GetIds()))
	return &personalv1.UsersResponse{Users: users}, err
}

func (s *administrationServer) User(ctx context.Context, in *personalv1.UserRequest) (*personalv1.UserResponse, error) {
	return respond(convert.userRecordToPB)(s.administration().User(ctx, in.GetId()))
}

func (s *administrationServer) UpdateUser(ctx context.Context, in *personalv1.UpdateUserRequest) (*personalv1.UpdateUserResponse, error) {
	return &personalv1.UpdateUserResponse{}, s.administration().UpdateUser(ctx, convert.updateUserFromPB(in))
}

func (s *administrationServer) SetEmail(ctx context.Context, in *personalv1.SetEmailRequest) (*personalv1.SetEmailResponse, error) {
	return &personalv1.SetEmailResponse{}, s.administration().SetEmail(ctx, convert.setEmailFromPB(in))
}

func (s *administrationServer) DisableUser(ctx context.Context, in *personalv1.DisableUserRequest) (*personalv1.DisableUserResponse,
	error) {
	return &personalv1.DisableUserResponse{}, s.administration().DisableUser(ctx, in.GetId())
}

func (s *administrationServer) EnableUser(ctx context.Context, in *personalv1.EnableUserRequest) (*personalv1.EnableUserResponse, error) {
	return &personalv1.EnableUserResponse{}, s.administration().EnableUser(ctx, in.GetId())
}

func (s *administrationServer) UserSessions(ctx context.Context, in *personalv1.UserSessionsRequest) (*personalv1.UserSessionsResponse,
	error) {
	sessions, err := s.administration().UserSessions(ctx, in.GetId())
	return &personalv1.UserSessionsResponse{Sessions: convert.sessionsToPB(sessions)}, err
}

func (s *administrationServer) RevokeUserSession(ctx context.Context,
	in *personalv1.RevokeUserSessionRequest) (*personalv1.RevokeUserSessionResponse, error) {
	r := personal.RevokeUserSessionRequest{UserID: in.GetUserId(), ID: in.GetId()}
	return &personalv1.RevokeUserSessionResponse{}, s.administration().RevokeUserSession(ctx, r)
}

func (s *administrationServer) RevokeUserSessions(ctx context.Context,
	in *personalv1.RevokeUserSessionsRequest) (*personalv1.RevokeUserSessionsResponse, error) {
	return &personalv1.RevokeUserSessionsResponse{}, s.administration().RevokeUserSessions(ctx, in.GetId())
}

func (s *administrationServer) DeleteUser(ctx context.Context, in *personalv1.DeleteUserRequest) (*personalv1.DeleteUserResponse, error) {
	return &personalv1.DeleteUserResponse{}, s.administration().DeleteUser(ctx, in.GetId())
}

func (s *administrationServer) RemoveTwoFactor(ctx context.Context,
	in *personalv1.RemoveTwoFactorRequest) (*personalv1.RemoveTwoFactorResponse, error) {
	return &personalv1.RemoveTwoFactorResponse{}, s.administration().RemoveTwoFactor(ctx, convert.removeTwoFactorFromPB(in))
}

func (s *administrationServer) RemoveOtherWaysIn(ctx context.Context,
	in *personalv1.RemoveOtherWaysInRequest) (*personalv1.RemoveOtherWaysInResponse, error) {
	return &personalv1.RemoveOtherWaysInResponse{}, s.administration().RemoveOtherWaysIn(ctx, in.GetId())
}

func (s *administrationServer) ResetAccess(ctx context.Context, in *personalv1.ResetAccessRequest) (*personalv1.ResetAccessResponse, error) {
	return &personalv1.ResetAccessResponse{}, s.administration().ResetAccess(ctx, convert.resetAccessFromPB(in))
}

func (s *administrationServer) AuditEntries(ctx context.Context, in *personalv1.AuditEntriesRequest) (*personalv1.AuditEntriesResponse,
	error) {
	page, err := s.administration().AuditEntries(ctx, convert.auditEntriesFromPB(in))
	return convert.auditPageToPB(page), err
}

func (s *administrationServer) CreateUser(ctx context.Context, in *personalv1.CreateUserRequest) (*personalv1.CreateUserResponse, error) {
	id, err := s.administration().CreateUser(ctx, convert.createUserFromPB(in))
	return &personalv1.CreateUserResponse{Id: id}, err
}

func (s *administrationServer) Explain(ctx context.Context, in *personalv1.ExplainRequest) (*personalv1.ExplainResponse, error) {
	return respond(convert.explanationToPB)(s.administration().Explain(ctx, convert.explainFromPB(in)))
}

func (s *administrationServer) LiftLimits(ctx context.Context, in *personalv1.LiftLimitsRequest) (*personalv1.LiftLimitsResponse, error) {
	return &personalv1.LiftLimitsResponse{}, s.administration().LiftLimits(ctx, convert.liftLimitsFromPB(in))
}

func (s *administrationServer) PreviewFields(ctx context.Context,
	in *personalv1.PreviewFieldsRequest) (*personalv1.PreviewFieldsResponse, error) {
	preview, err := s.administration().PreviewFields(ctx, convert.fieldsFromPB(in.GetFields()))
	return convert.fieldsPreviewToPB(preview), err
}

func (s *administrationServer) FillFields(ctx context.Context, in *personalv1.FillFieldsRequest) (*personalv1.FillFieldsResponse, error) {
	return &personalv1.FillFieldsResponse{}, s.administration().FillFields(ctx, in.GetRevision())
}

func (s *administrationServer) FieldsFill(ctx context.Context, _ *personalv1.FieldsFillRequest) (*personalv1.FieldsFillResponse, error) {
	fill, err := s.administration().FieldsFill(ctx)
	return convert.fieldsFillToPB(fill), err
}

func (s *administrationServer) SignIn(ctx context.Context, in *personalv1.SignInRequest) (*personalv1.SignInResponse, error) {
	return respond(convert.openedToPB)(s.administration().SignIn(ctx, convert.signInFromPB(in)))
}

func (s *administrationServer) LinkIdentity(ctx context.Context, in *personalv1.LinkIdentityRequest) (*personalv1.LinkIdentityResponse,
	error) {
	return &personalv1.LinkIdentityResponse{}, s.administration().LinkIdentity(ctx, convert.linkIdentityFromPB(in))
}

func (s *administrationServer) FindIdentity(ctx context.Context, in *personalv1.FindIdentityRequest) (*personalv1.FindIdentityResponse,
	error) {
	id, err := s.administration().FindIdentity(ctx, convert.identityFromPB(in.GetIdentity()))
	return &personalv1.FindIdentityResponse{UserId: id}, err
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

func (s *administrationServer) ProveIdentity(ctx context.Context, in *personalv1.ProveIdentityRequest) (*personalv1.ProveIdentityResponse, error) {
	proof, err := s.administration().ProveIdentity(ctx, convert.proveIdentityFromPB(in))
	return convert.provedIdentityToPB(proof), err
}

func (s *administrationServer) EndIdentitySessions(ctx context.Context, in *personalv1.EndIdentitySessionsRequest) (*personalv1.EndIdentitySessionsResponse,
	error) {
	id, err := s.administration().EndIdentitySessions(ctx, convert.endIdentitySessionsFromPB(in))
	return &personalv1.EndIdentitySessionsResponse{UserId: id}, err
}

func (s *administrationServer) UnlinkIdentity(ctx context.Context,
	in *personalv1.UnlinkIdentityRequest) (*personalv1.UnlinkIdentityResponse, error) {
	return &personalv1.UnlinkIdentityResponse{}, s.administration().UnlinkIdentity(ctx, convert.unlinkIdentityFromPB(in))
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

func (s *hostServer) UserFields(ctx context.Context, _ *personalv1.UserFieldsRequest) (*personalv1.UserFieldsResponse, error) {
	schema, err := s.host.UserFields(ctx)
	return convert.schemaToPB(schema), err
}

func (s *hostServer) SendMail(ctx context.Context, in *personalv1.SendMailRequest) (*personalv1.SendMailResponse, error) {
	return &personalv1.SendMailResponse{}, s.host.SendMail(ctx, convert.mailFromPB(in))
}

func (s *hostServer) PublishEvent(ctx context.Context, in *personalv1.PublishEventRequest) (*personalv1.PublishEventResponse, error) {
	return &personalv1.PublishEventResponse{}, s.host.PublishEvent(ctx, convert.eventFromPB(in.GetEvent()))
}

func (s *hostServer) EraseUser(ctx context.Context, in *personalv1.EraseUserRequest) (*personalv1.EraseUserResponse, error) {
	if eraser, ok := s.host.(personal.Eraser); ok {
		return &personalv1.EraseUserResponse{}, eraser.EraseUser(ctx, in.GetUserId())
	}
	return &personalv1.EraseUserResponse{}, nil
}
