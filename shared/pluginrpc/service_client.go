package pluginrpc

import (
	"context"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// serviceClient is a service in another process.
type serviceClient struct {
	client personalv1.PersonalServiceClient
}

// NewService returns the service at the other end of conn, which is that of a
// [Connection] or forwards to one. Every call carries the personal.Call of its
// context and the revision of host's schema.
//
// All errors are of the contract: personal.CodeNotFound for an operation that
// the plugin does not offer; personal.CodeUnavailable where the plugin, or the
// time, was missing; personal.CodeInternal for anything that is not clear, an
// answer that lacks a part included.
func NewService(conn grpc.ClientConnInterface, host personal.Host) personal.Service {
	return &serviceClient{client: personalv1.NewPersonalServiceClient(withSchema(conn, host))}
}

// Authorize signs a user in.
func (s *serviceClient) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	answer, err := s.client.Authorize(ctx, authorizeToPB(r))
	if err != nil {
		return personal.SignedIn{}, err
	}
	return signedInOf(ctx, answer.GetCredentials(), answer.GetProfile())
}

// Refresh rotates the session's hash.
func (s *serviceClient) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	answer, err := s.client.Refresh(ctx, &personalv1.RefreshRequest{Credentials: credentialsToPB(c)})
	if err != nil {
		return personal.Credentials{}, err
	}
	return credentialsOf(ctx, answer.GetCredentials())
}

// Register creates an account.
func (s *serviceClient) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	answer, err := s.client.Register(ctx, registerToPB(r))
	if err != nil {
		return personal.SignedIn{}, err
	}
	return signedInOf(ctx, answer.GetCredentials(), answer.GetProfile())
}

// Recover asks for a mail with a recovery token.
func (s *serviceClient) Recover(ctx context.Context, r personal.RecoverRequest) error {
	_, err := s.client.Recover(ctx, recoverToPB(r))
	return err
}

// RecoverConfirm sets a new password by a mailed token.
func (s *serviceClient) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) error {
	_, err := s.client.RecoverConfirm(ctx, recoverConfirmToPB(r))
	return err
}

// Profile tells who the credentials belong to.
func (s *serviceClient) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	answer, err := s.client.Profile(ctx, &personalv1.ProfileRequest{Credentials: credentialsToPB(c)})
	if err != nil {
		return personal.Profile{}, err
	}
	return profileOf(ctx, answer.GetProfile())
}

// UpdateProfile changes the fields that were sent.
func (s *serviceClient) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	answer, err := s.client.UpdateProfile(ctx, updateProfileToPB(r))
	if err != nil {
		return personal.Profile{}, err
	}
	return profileOf(ctx, answer.GetProfile())
}

// ChangePassword replaces the password.
func (s *serviceClient) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	answer, err := s.client.ChangePassword(ctx, changePasswordToPB(r))
	if err != nil {
		return personal.Credentials{}, err
	}
	return credentialsOf(ctx, answer.GetCredentials())
}

// ChangeEmail mails a token to the new address.
func (s *serviceClient) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	_, err := s.client.ChangeEmail(ctx, changeEmailToPB(r))
	return err
}

// ConfirmEmail makes a new address the account's.
func (s *serviceClient) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) error {
	_, err := s.client.ConfirmEmail(ctx, confirmEmailToPB(r))
	return err
}

// Logout ends sessions.
func (s *serviceClient) Logout(ctx context.Context, r personal.LogoutRequest) error {
	_, err := s.client.Logout(ctx, logoutToPB(r))
	return err
}

// Sessions lists the account's sessions.
func (s *serviceClient) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	answer, err := s.client.Sessions(ctx, &personalv1.SessionsRequest{Credentials: credentialsToPB(c)})
	if err != nil {
		return nil, err
	}
	return convertAll(answer.GetSessions(), sessionFromPB), nil
}

// RevokeSession ends one session.
func (s *serviceClient) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	_, err := s.client.RevokeSession(ctx, revokeSessionToPB(r))
	return err
}

// Fields returns the fields of a form.
func (s *serviceClient) Fields(ctx context.Context) ([]personal.Field, error) {
	answer, err := s.client.Fields(ctx, &personalv1.FieldsRequest{})
	if err != nil {
		return nil, err
	}
	return convertAll(answer.GetFields(), fieldFromPB), nil
}
