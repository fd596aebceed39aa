// Package personaltest helps to test against the contract of package personal:
// fakes of [personal.Service], [personal.Administration] and [personal.Host], all
// made of functions, and the suites of tests that the first two pass.
package personaltest

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// Service is a [personal.Service] made of functions. An operation whose
// function is nil answers not_found, as a module that does not offer it would.
// Set the functions before the first call.
type Service struct {
	AuthorizeFunc      func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error)
	RefreshFunc        func(context.Context, personal.Credentials) (personal.Credentials, error)
	RegisterFunc       func(context.Context, personal.RegisterRequest) (personal.SignedIn, error)
	RecoverFunc        func(context.Context, personal.RecoverRequest) error
	RecoverConfirmFunc func(context.Context, personal.RecoverConfirmRequest) error
	ProfileFunc        func(context.Context, personal.Credentials) (personal.Profile, error)
	UpdateProfileFunc  func(context.Context, personal.UpdateProfileRequest) (personal.Profile, error)
	ChangePasswordFunc func(context.Context, personal.ChangePasswordRequest) (personal.Credentials, error)
	ChangeEmailFunc    func(context.Context, personal.ChangeEmailRequest) error
	ConfirmEmailFunc   func(context.Context, personal.ConfirmEmailRequest) error
	LogoutFunc         func(context.Context, personal.LogoutRequest) error
	SessionsFunc       func(context.Context, personal.Credentials) ([]personal.Session, error)
	RevokeSessionFunc  func(context.Context, personal.RevokeSessionRequest) error
	FieldsFunc         func(context.Context) ([]personal.Field, error)
}

var _ personal.Service = (*Service)(nil)

func answer[In, Out any](ctx context.Context, f func(context.Context, In) (Out, error), in In) (Out, error) {
	if f == nil {
		var none Out
		return none, personal.NewError(personal.CodeNotFound, nil)
	}
	return f(ctx, in)
}

func do[In any](ctx context.Context, f func(context.Context, In) error, in In) error {
	if f == nil {
		return personal.NewError(personal.CodeNotFound, nil)
	}
	return f(ctx, in)
}

// Authorize calls AuthorizeFunc.
func (s *Service) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	return answer(ctx, s.AuthorizeFunc, r)
}

// Refresh calls RefreshFunc.
func (s *Service) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	return answer(ctx, s.RefreshFunc, c)
}

// Register calls RegisterFunc.
func (s *Service) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	return answer(ctx, s.RegisterFunc, r)
}

// Recover calls RecoverFunc.
func (s *Service) Recover(ctx context.Context, r personal.RecoverRequest) error {
	return do(ctx, s.RecoverFunc, r)
}

// RecoverConfirm calls RecoverConfirmFunc.
func (s *Service) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) error {
	return do(ctx, s.RecoverConfirmFunc, r)
}

// Profile calls ProfileFunc.
func (s *Service) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	return answer(ctx, s.ProfileFunc, c)
}

// UpdateProfile calls UpdateProfileFunc.
func (s *Service) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	return answer(ctx, s.UpdateProfileFunc, r)
}

// ChangePassword calls ChangePasswordFunc.
func (s *Service) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	return answer(ctx, s.ChangePasswordFunc, r)
}

// ChangeEmail calls ChangeEmailFunc.
func (s *Service) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	return do(ctx, s.ChangeEmailFunc, r)
}

// ConfirmEmail calls ConfirmEmailFunc.
func (s *Service) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) error {
	return do(ctx, s.ConfirmEmailFunc, r)
}

// Logout calls LogoutFunc.
func (s *Service) Logout(ctx context.Context, r personal.LogoutRequest) error {
	return do(ctx, s.LogoutFunc, r)
}

// Sessions calls SessionsFunc.
func (s *Service) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	return answer(ctx, s.SessionsFunc, c)
}

// RevokeSession calls RevokeSessionFunc.
func (s *Service) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	return do(ctx, s.RevokeSessionFunc, r)
}

// Fields calls FieldsFunc.
func (s *Service) Fields(ctx context.Context) ([]personal.Field, error) {
	if s.FieldsFunc == nil {
		return nil, personal.NewError(personal.CodeNotFound, nil)
	}
	return s.FieldsFunc(ctx)
}
