package pluginrpc

import (
	"context"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// administrationClient is an administration in another process.
type administrationClient struct {
	client personalv1.AdministrationServiceClient
}

// NewAdministration returns the administration at the other end of conn. Its
// calls carry what those of [NewService] do, and fail in the same way; a plugin
// of a version without an administration answers personal.CodeNotFound.
func NewAdministration(conn grpc.ClientConnInterface, host personal.Host) personal.Administration {
	return &administrationClient{client: personalv1.NewAdministrationServiceClient(withSchema(conn, host))}
}

// FindUsers lists users.
func (a *administrationClient) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	answer, err := a.client.FindUsers(ctx, findUsersToPB(r))
	if err != nil {
		return personal.UserPage{}, err
	}
	return userPageFromPB(answer), nil
}

// User returns all that is known of one user.
func (a *administrationClient) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	answer, err := a.client.User(ctx, &personalv1.UserRequest{Id: id})
	if err != nil {
		return personal.UserRecord{}, err
	}
	return userRecordOf(ctx, answer)
}

// UpdateUser changes the fields that were sent.
func (a *administrationClient) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	_, err := a.client.UpdateUser(ctx, updateUserToPB(r))
	return err
}

// SetEmail gives a user an e-mail.
func (a *administrationClient) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	_, err := a.client.SetEmail(ctx, setEmailToPB(r))
	return err
}

// DisableUser keeps a user out.
func (a *administrationClient) DisableUser(ctx context.Context, id int64) error {
	_, err := a.client.DisableUser(ctx, &personalv1.DisableUserRequest{Id: id})
	return err
}

// EnableUser lets a user sign in again.
func (a *administrationClient) EnableUser(ctx context.Context, id int64) error {
	_, err := a.client.EnableUser(ctx, &personalv1.EnableUserRequest{Id: id})
	return err
}

// UserSessions lists a user's sessions.
func (a *administrationClient) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	answer, err := a.client.UserSessions(ctx, &personalv1.UserSessionsRequest{Id: id})
	if err != nil {
		return nil, err
	}
	return convertAll(answer.GetSessions(), sessionFromPB), nil
}

// RevokeUserSessions ends every session of a user.
func (a *administrationClient) RevokeUserSessions(ctx context.Context, id int64) error {
	_, err := a.client.EndUserSessions(ctx, &personalv1.EndUserSessionsRequest{Id: id})
	return err
}

// DeleteUser removes a user.
func (a *administrationClient) DeleteUser(ctx context.Context, id int64) error {
	_, err := a.client.DeleteUser(ctx, &personalv1.DeleteUserRequest{Id: id})
	return err
}

// AuditEntries lists entries of the audit log.
func (a *administrationClient) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	answer, err := a.client.AuditEntries(ctx, auditEntriesToPB(r))
	if err != nil {
		return personal.AuditPage{}, err
	}
	return auditPageFromPB(answer), nil
}
