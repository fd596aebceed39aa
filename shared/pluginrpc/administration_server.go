package pluginrpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// administrationServer lets the host call the administration of a process. It is
// not called before there is a module that has one, see process.administering.
type administrationServer struct {
	personalv1.UnimplementedAdministrationServiceServer
	process *process
}

func (s *administrationServer) administration() personal.Administration {
	return s.process.parts.Load().administration
}

func (s *administrationServer) FindUsers(ctx context.Context, in *personalv1.FindUsersRequest) (*personalv1.FindUsersResponse, error) {
	page, err := s.administration().FindUsers(ctx, findUsersFromPB(in))
	return userPageToPB(page), err
}

func (s *administrationServer) User(ctx context.Context, in *personalv1.UserRequest) (*personalv1.UserResponse, error) {
	record, err := s.administration().User(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	return userRecordToPB(record)
}

func (s *administrationServer) UpdateUser(ctx context.Context, in *personalv1.UpdateUserRequest) (*personalv1.UpdateUserResponse, error) {
	return &personalv1.UpdateUserResponse{}, s.administration().UpdateUser(ctx, updateUserFromPB(in))
}

func (s *administrationServer) SetEmail(ctx context.Context, in *personalv1.SetEmailRequest) (*personalv1.SetEmailResponse, error) {
	return &personalv1.SetEmailResponse{}, s.administration().SetEmail(ctx, setEmailFromPB(in))
}

func (s *administrationServer) DisableUser(ctx context.Context, in *personalv1.DisableUserRequest) (*personalv1.DisableUserResponse, error) {
	return &personalv1.DisableUserResponse{}, s.administration().DisableUser(ctx, in.GetId())
}

func (s *administrationServer) EnableUser(ctx context.Context, in *personalv1.EnableUserRequest) (*personalv1.EnableUserResponse, error) {
	return &personalv1.EnableUserResponse{}, s.administration().EnableUser(ctx, in.GetId())
}

func (s *administrationServer) UserSessions(ctx context.Context, in *personalv1.UserSessionsRequest) (*personalv1.UserSessionsResponse, error) {
	sessions, err := s.administration().UserSessions(ctx, in.GetId())
	return &personalv1.UserSessionsResponse{Sessions: convertAll(sessions, sessionToPB)}, err
}

func (s *administrationServer) EndUserSessions(ctx context.Context, in *personalv1.EndUserSessionsRequest) (*personalv1.EndUserSessionsResponse, error) {
	return &personalv1.EndUserSessionsResponse{}, s.administration().RevokeUserSessions(ctx, in.GetId())
}

func (s *administrationServer) DeleteUser(ctx context.Context, in *personalv1.DeleteUserRequest) (*personalv1.DeleteUserResponse, error) {
	return &personalv1.DeleteUserResponse{}, s.administration().DeleteUser(ctx, in.GetId())
}

func (s *administrationServer) AuditEntries(ctx context.Context, in *personalv1.AuditEntriesRequest) (*personalv1.AuditEntriesResponse, error) {
	page, err := s.administration().AuditEntries(ctx, auditEntriesFromPB(in))
	if err != nil {
		return nil, err
	}
	return auditPageToPB(page), nil
}
