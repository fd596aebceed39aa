package pluginrpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// serviceServer lets the host call the service of a process. It is not called
// before there is one, see process.serving. A response beside an error is dropped,
// see answerer.answer.
type serviceServer struct {
	personalv1.UnimplementedPersonalServiceServer
	process *process
}

func (s *serviceServer) service() personal.Service { return s.process.parts.Load().service }

func (s *serviceServer) Authorize(ctx context.Context, in *personalv1.AuthorizeRequest) (*personalv1.AuthorizeResponse, error) {
	signedIn, err := s.service().Authorize(ctx, authorizeFromPB(in))
	profile, err := profileOrError(signedIn.Profile, err)
	return &personalv1.AuthorizeResponse{Credentials: credentialsToPB(signedIn.Credentials), Profile: profile}, err
}

func (s *serviceServer) Refresh(ctx context.Context, in *personalv1.RefreshRequest) (*personalv1.RefreshResponse, error) {
	credentials, err := s.service().Refresh(ctx, credentialsFromPB(in.GetCredentials()))
	return &personalv1.RefreshResponse{Credentials: credentialsToPB(credentials)}, err
}

func (s *serviceServer) Register(ctx context.Context, in *personalv1.RegisterRequest) (*personalv1.RegisterResponse, error) {
	signedIn, err := s.service().Register(ctx, registerFromPB(in))
	profile, err := profileOrError(signedIn.Profile, err)
	return &personalv1.RegisterResponse{Credentials: credentialsToPB(signedIn.Credentials), Profile: profile}, err
}

func (s *serviceServer) Recover(ctx context.Context, in *personalv1.RecoverRequest) (*personalv1.RecoverResponse, error) {
	return &personalv1.RecoverResponse{}, s.service().Recover(ctx, recoverFromPB(in))
}

func (s *serviceServer) RecoverConfirm(ctx context.Context, in *personalv1.RecoverConfirmRequest) (*personalv1.RecoverConfirmResponse, error) {
	return &personalv1.RecoverConfirmResponse{}, s.service().RecoverConfirm(ctx, recoverConfirmFromPB(in))
}

func (s *serviceServer) Profile(ctx context.Context, in *personalv1.ProfileRequest) (*personalv1.ProfileResponse, error) {
	profile, err := profileOrError(s.service().Profile(ctx, credentialsFromPB(in.GetCredentials())))
	return &personalv1.ProfileResponse{Profile: profile}, err
}

func (s *serviceServer) UpdateProfile(ctx context.Context, in *personalv1.UpdateProfileRequest) (*personalv1.UpdateProfileResponse, error) {
	profile, err := profileOrError(s.service().UpdateProfile(ctx, updateProfileFromPB(in)))
	return &personalv1.UpdateProfileResponse{Profile: profile}, err
}

func (s *serviceServer) ChangePassword(ctx context.Context, in *personalv1.ChangePasswordRequest) (*personalv1.ChangePasswordResponse, error) {
	credentials, err := s.service().ChangePassword(ctx, changePasswordFromPB(in))
	return &personalv1.ChangePasswordResponse{Credentials: credentialsToPB(credentials)}, err
}

func (s *serviceServer) ChangeEmail(ctx context.Context, in *personalv1.ChangeEmailRequest) (*personalv1.ChangeEmailResponse, error) {
	return &personalv1.ChangeEmailResponse{}, s.service().ChangeEmail(ctx, changeEmailFromPB(in))
}

func (s *serviceServer) ConfirmEmail(ctx context.Context, in *personalv1.ConfirmEmailRequest) (*personalv1.ConfirmEmailResponse, error) {
	return &personalv1.ConfirmEmailResponse{}, s.service().ConfirmEmail(ctx, confirmEmailFromPB(in))
}

func (s *serviceServer) Logout(ctx context.Context, in *personalv1.LogoutRequest) (*personalv1.LogoutResponse, error) {
	return &personalv1.LogoutResponse{}, s.service().Logout(ctx, logoutFromPB(in))
}

func (s *serviceServer) Sessions(ctx context.Context, in *personalv1.SessionsRequest) (*personalv1.SessionsResponse, error) {
	sessions, err := s.service().Sessions(ctx, credentialsFromPB(in.GetCredentials()))
	return &personalv1.SessionsResponse{Sessions: convertAll(sessions, sessionToPB)}, err
}

func (s *serviceServer) RevokeSession(ctx context.Context, in *personalv1.RevokeSessionRequest) (*personalv1.RevokeSessionResponse, error) {
	return &personalv1.RevokeSessionResponse{}, s.service().RevokeSession(ctx, revokeSessionFromPB(in))
}

func (s *serviceServer) Fields(ctx context.Context, _ *personalv1.FieldsRequest) (*personalv1.FieldsResponse, error) {
	fields, err := s.service().Fields(ctx)
	return &personalv1.FieldsResponse{Fields: convertAll(fields, fieldToPB)}, err
}

// profileOrError converts the profile that an operation returned, unless it failed.
func profileOrError(p personal.Profile, err error) (*personalv1.UserProfile, error) {
	if err != nil {
		return nil, err
	}
	return profileToPB(p)
}
