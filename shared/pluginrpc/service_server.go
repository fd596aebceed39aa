package pluginrpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// serviceServer lets the host call the service of a process. It is not called
// before there is one, see process.serving.
type serviceServer struct {
	personalv1.UnimplementedPersonalServiceServer
	process *process
}

func (s *serviceServer) service() personal.Service { return s.process.parts.Load().service }

func (s *serviceServer) Authorize(ctx context.Context, in *personalv1.AuthorizeRequest) (*personalv1.AuthorizeResponse, error) {
	signedIn, err := s.service().Authorize(ctx, authorizeFromPB(in))
	if err != nil {
		return nil, err
	}
	profile, err := profileToPB(signedIn.Profile)
	if err != nil {
		return nil, err
	}
	return &personalv1.AuthorizeResponse{Credentials: credentialsToPB(signedIn.Credentials), Profile: profile}, nil
}

func (s *serviceServer) Refresh(ctx context.Context, in *personalv1.RefreshRequest) (*personalv1.RefreshResponse, error) {
	credentials, err := s.service().Refresh(ctx, credentialsFromPB(in.GetCredentials()))
	if err != nil {
		return nil, err
	}
	return &personalv1.RefreshResponse{Credentials: credentialsToPB(credentials)}, nil
}

func (s *serviceServer) Register(ctx context.Context, in *personalv1.RegisterRequest) (*personalv1.RegisterResponse, error) {
	signedIn, err := s.service().Register(ctx, registerFromPB(in))
	if err != nil {
		return nil, err
	}
	profile, err := profileToPB(signedIn.Profile)
	if err != nil {
		return nil, err
	}
	return &personalv1.RegisterResponse{Credentials: credentialsToPB(signedIn.Credentials), Profile: profile}, nil
}

func (s *serviceServer) Recover(ctx context.Context, in *personalv1.RecoverRequest) (*personalv1.RecoverResponse, error) {
	if err := s.service().Recover(ctx, recoverFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.RecoverResponse{}, nil
}

func (s *serviceServer) RecoverConfirm(ctx context.Context, in *personalv1.RecoverConfirmRequest) (*personalv1.RecoverConfirmResponse, error) {
	if err := s.service().RecoverConfirm(ctx, recoverConfirmFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.RecoverConfirmResponse{}, nil
}

func (s *serviceServer) Profile(ctx context.Context, in *personalv1.ProfileRequest) (*personalv1.ProfileResponse, error) {
	profile, err := s.service().Profile(ctx, credentialsFromPB(in.GetCredentials()))
	if err != nil {
		return nil, err
	}
	out, err := profileToPB(profile)
	if err != nil {
		return nil, err
	}
	return &personalv1.ProfileResponse{Profile: out}, nil
}

func (s *serviceServer) UpdateProfile(ctx context.Context, in *personalv1.UpdateProfileRequest) (*personalv1.UpdateProfileResponse, error) {
	profile, err := s.service().UpdateProfile(ctx, updateProfileFromPB(in))
	if err != nil {
		return nil, err
	}
	out, err := profileToPB(profile)
	if err != nil {
		return nil, err
	}
	return &personalv1.UpdateProfileResponse{Profile: out}, nil
}

func (s *serviceServer) ChangePassword(ctx context.Context, in *personalv1.ChangePasswordRequest) (*personalv1.ChangePasswordResponse, error) {
	credentials, err := s.service().ChangePassword(ctx, changePasswordFromPB(in))
	if err != nil {
		return nil, err
	}
	return &personalv1.ChangePasswordResponse{Credentials: credentialsToPB(credentials)}, nil
}

func (s *serviceServer) ChangeEmail(ctx context.Context, in *personalv1.ChangeEmailRequest) (*personalv1.ChangeEmailResponse, error) {
	if err := s.service().ChangeEmail(ctx, changeEmailFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.ChangeEmailResponse{}, nil
}

func (s *serviceServer) ConfirmEmail(ctx context.Context, in *personalv1.ConfirmEmailRequest) (*personalv1.ConfirmEmailResponse, error) {
	if err := s.service().ConfirmEmail(ctx, confirmEmailFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.ConfirmEmailResponse{}, nil
}

func (s *serviceServer) Logout(ctx context.Context, in *personalv1.LogoutRequest) (*personalv1.LogoutResponse, error) {
	if err := s.service().Logout(ctx, logoutFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.LogoutResponse{}, nil
}

func (s *serviceServer) Sessions(ctx context.Context, in *personalv1.SessionsRequest) (*personalv1.SessionsResponse, error) {
	sessions, err := s.service().Sessions(ctx, credentialsFromPB(in.GetCredentials()))
	if err != nil {
		return nil, err
	}
	return &personalv1.SessionsResponse{Sessions: convertAll(sessions, sessionToPB)}, nil
}

func (s *serviceServer) RevokeSession(ctx context.Context, in *personalv1.RevokeSessionRequest) (*personalv1.RevokeSessionResponse, error) {
	if err := s.service().RevokeSession(ctx, revokeSessionFromPB(in)); err != nil {
		return nil, err
	}
	return &personalv1.RevokeSessionResponse{}, nil
}

func (s *serviceServer) Fields(ctx context.Context, _ *personalv1.FieldsRequest) (*personalv1.FieldsResponse, error) {
	fields, err := s.service().Fields(ctx)
	if err != nil {
		return nil, err
	}
	return &personalv1.FieldsResponse{Fields: convertAll(fields, fieldToPB)}, nil
}
