package personaltest

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// Administration is a [personal.Administration] made of functions, as [Service]
// is a personal.Service.
type Administration struct {
	FindUsersFunc       func(context.Context, personal.FindUsersRequest) (personal.UserPage, error)
	UserFunc            func(context.Context, int64) (personal.UserRecord, error)
	UpdateUserFunc      func(context.Context, personal.UpdateUserRequest) error
	SetEmailFunc        func(context.Context, personal.SetEmailRequest) error
	DisableUserFunc     func(context.Context, int64) error
	EnableUserFunc      func(context.Context, int64) error
	UserSessionsFunc    func(context.Context, int64) ([]personal.Session, error)
	EndUserSessionsFunc func(context.Context, int64) error
	DeleteUserFunc      func(context.Context, int64) error
	AuditEntriesFunc    func(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error)
}

var _ personal.Administration = (*Administration)(nil)

// FindUsers calls FindUsersFunc.
func (a *Administration) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	return answer(ctx, a.FindUsersFunc, r)
}

// User calls UserFunc.
func (a *Administration) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	return answer(ctx, a.UserFunc, id)
}

// UpdateUser calls UpdateUserFunc.
func (a *Administration) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	return do(ctx, a.UpdateUserFunc, r)
}

// SetEmail calls SetEmailFunc.
func (a *Administration) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	return do(ctx, a.SetEmailFunc, r)
}

// DisableUser calls DisableUserFunc.
func (a *Administration) DisableUser(ctx context.Context, id int64) error {
	return do(ctx, a.DisableUserFunc, id)
}

// EnableUser calls EnableUserFunc.
func (a *Administration) EnableUser(ctx context.Context, id int64) error {
	return do(ctx, a.EnableUserFunc, id)
}

// UserSessions calls UserSessionsFunc.
func (a *Administration) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	return answer(ctx, a.UserSessionsFunc, id)
}

// RevokeUserSessions calls EndUserSessionsFunc.
func (a *Administration) RevokeUserSessions(ctx context.Context, id int64) error {
	return do(ctx, a.EndUserSessionsFunc, id)
}

// DeleteUser calls DeleteUserFunc.
func (a *Administration) DeleteUser(ctx context.Context, id int64) error {
	return do(ctx, a.DeleteUserFunc, id)
}

// AuditEntries calls AuditEntriesFunc.
func (a *Administration) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	return answer(ctx, a.AuditEntriesFunc, r)
}
