// Package personaltest has test helpers for the contract of package personal: fakes of
// [personal.Service], [personal.Administration] and [personal.Host], and the test
// suites that every Service and Administration must pass.
package personaltest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// Service is a fake [personal.Service] that calls its functions. An operation whose
// function is nil returns not_found, like a module that does not offer it. Set the
// functions before the first call.
type Service struct {
	AuthorizeFunc           func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error)
	RefreshFunc             func(context.Context, personal.Credentials) (personal.Credentials, error)
	RegisterFunc            func(context.Context, personal.RegisterRequest) (personal.SignedIn, error)
	RecoverFunc             func(context.Context, personal.RecoverRequest) error
	RecoverConfirmFunc      func(context.Context, personal.RecoverConfirmRequest) (personal.Recovered, error)
	ProfileFunc             func(context.Context, personal.Credentials) (personal.Profile, error)
	UpdateProfileFunc       func(context.Context, personal.UpdateProfileRequest) (personal.Profile, error)
	ProveFunc               func(context.Context, personal.ProveRequest) (personal.Proof, error)
	ChangePasswordFunc      func(context.Context, personal.ChangePasswordRequest) (personal.Credentials, error)
	ChangeEmailFunc         func(context.Context, personal.ChangeEmailRequest) error
	ConfirmEmailFunc        func(context.Context, personal.ConfirmEmailRequest) (int64, error)
	LogoutFunc              func(context.Context, personal.LogoutRequest) error
	SessionsFunc            func(context.Context, personal.Credentials) ([]personal.Session, error)
	RevokeSessionFunc       func(context.Context, personal.RevokeSessionRequest) error
	RevokeOtherSessionsFunc func(context.Context, personal.Credentials) error
	FieldsFunc              func(context.Context) ([]personal.Field, error)
	FeaturesFunc            func(context.Context) (personal.Features, error)

	ResendVerificationFunc func(context.Context, personal.ResendVerificationRequest) error
	ExportFunc             func(context.Context, personal.ExportRequest) (personal.Export, error)
	DeleteFunc             func(context.Context, personal.DeleteRequest) (time.Time, error)
	UndoDeleteFunc         func(context.Context, personal.UndoDeleteRequest) (int64, error)

	BeginTwoFactorFunc     func(context.Context, personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error)
	ConfirmTwoFactorFunc   func(context.Context, personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error)
	RenewRecoveryCodesFunc func(context.Context, personal.RenewRecoveryCodesRequest) ([]string, error)
	RemoveOwnTwoFactorFunc func(context.Context, personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error)

	BeginPasskeyFunc     func(context.Context, personal.BeginPasskeyRequest) (personal.PasskeyAttempt, error)
	AuthorizePasskeyFunc func(context.Context, personal.AuthorizePasskeyRequest) (personal.PasskeySignedIn, error)
	AddPasskeyFunc       func(context.Context, personal.AddPasskeyRequest) (personal.PasskeyAttempt, error)
	ConfirmPasskeyFunc   func(context.Context, personal.ConfirmPasskeyRequest) (personal.Passkey, error)
	PasskeysFunc         func(context.Context, personal.Credentials) ([]personal.Passkey, error)
	RenamePasskeyFunc    func(context.Context, personal.RenamePasskeyRequest) error
	RemovePasskeyFunc    func(context.Context, personal.RemovePasskeyRequest) error
}

var _ personal.Service = (*Service)(nil)

func call[In, Out any](ctx context.Context, f func(context.Context, In) (Out, error), in In) (Out, error) {
	if f == nil {
		var none Out
		return none, personal.NewError(personal.CodeNotFound, nil)
	}
	return f(ctx, in)
}

func callNoResult[In any](ctx context.Context, f func(context.Context, In) error, in In) error {
	if f == nil {
		return personal.NewError(personal.CodeNotFound, nil)
	}
	return f(ctx, in)
}

// Authorize calls AuthorizeFunc.
func (s *Service) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	return call(ctx, s.AuthorizeFunc, r)
}

// Refresh calls RefreshFunc.
func (s *Service) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	return call(ctx, s.RefreshFunc, c)
}

// Register calls RegisterFunc.
func (s *Service) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	return call(ctx, s.RegisterFunc, r)
}

// Recover calls RecoverFunc.
func (s *Service) Recover(ctx context.Context, r personal.RecoverRequest) error {
	return callNoResult(ctx, s.RecoverFunc, r)
}

// RecoverConfirm calls RecoverConfirmFunc.
func (s *Service) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) (personal.Recovered, error) {
	return call(ctx, s.RecoverConfirmFunc, r)
}

// Profile calls ProfileFunc.
func (s *Service) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	return call(ctx, s.ProfileFunc, c)
}

// UpdateProfile calls UpdateProfileFunc.
func (s *Service) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	return call(ctx, s.UpdateProfileFunc, r)
}

// Prove calls ProveFunc.
func (s *Service) Prove(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
	return call(ctx, s.ProveFunc, r)
}

// ChangePassword calls ChangePasswordFunc.
func (s *Service) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	return call(ctx, s.ChangePasswordFunc, r)
}

// ChangeEmail calls ChangeEmailFunc.
func (s *Service) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	return callNoResult(ctx, s.ChangeEmailFunc, r)
}

// ConfirmEmail calls ConfirmEmailFunc.
func (s *Service) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) (int64, error) {
	return call(ctx, s.ConfirmEmailFunc, r)
}

// Logout calls LogoutFunc.
func (s *Service) Logout(ctx context.Context, r personal.LogoutRequest) error {
	return callNoResult(ctx, s.LogoutFunc, r)
}

// Sessions calls SessionsFunc.
func (s *Service) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	return call(ctx, s.SessionsFunc, c)
}

// RevokeSession calls RevokeSessionFunc.
func (s *Service) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	return callNoResult(ctx, s.RevokeSessionFunc, r)
}

// RevokeOtherSessions calls RevokeOtherSessionsFunc.
func (s *Service) RevokeOtherSessions(ctx context.Context, c personal.Credentials) error {
	return callNoResult(ctx, s.RevokeOtherSessionsFunc, c)
}

// Fields calls FieldsFunc.
func (s *Service) Fields(ctx context.Context) ([]personal.Field, error) {
	if s.FieldsFunc == nil {
		return nil, personal.NewError(personal.CodeNotFound, nil)
	}
	return s.FieldsFunc(ctx)
}

// Features calls FeaturesFunc.
func (s *Service) Features(ctx context.Context) (personal.Features, error) {
	if s.FeaturesFunc == nil {
		return personal.Features{}, personal.NewError(personal.CodeNotFound, nil)
	}
	return s.FeaturesFunc(ctx)
}

// ResendVerification calls ResendVerificationFunc.
func (s *Service) ResendVerification(ctx context.Context, r personal.ResendVerificationRequest) error {
	return callNoResult(ctx, s.ResendVerificationFunc, r)
}

// Export calls ExportFunc.
func (s *Service) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	return call(ctx, s.ExportFunc, r)
}

// Delete calls DeleteFunc.
func (s *Service) Delete(ctx context.Context, r personal.DeleteRequest) (time.Time, error) {
	return call(ctx, s.DeleteFunc, r)
}

// UndoDelete calls UndoDeleteFunc.
func (s *Service) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (int64, error) {
	return call(ctx, s.UndoDeleteFunc, r)
}

// BeginTwoFactor calls BeginTwoFactorFunc.
func (s *Service) BeginTwoFactor(ctx context.Context, r personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
	return call(ctx, s.BeginTwoFactorFunc, r)
}

// ConfirmTwoFactor calls ConfirmTwoFactorFunc.
func (s *Service) ConfirmTwoFactor(ctx context.Context, r personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error) {
	return call(ctx, s.ConfirmTwoFactorFunc, r)
}

// RenewRecoveryCodes calls RenewRecoveryCodesFunc.
func (s *Service) RenewRecoveryCodes(ctx context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
	return call(ctx, s.RenewRecoveryCodesFunc, r)
}

// RemoveOwnTwoFactor calls RemoveOwnTwoFactorFunc.
func (s *Service) RemoveOwnTwoFactor(ctx context.Context, r personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error) {
	return call(ctx, s.RemoveOwnTwoFactorFunc, r)
}

// BeginPasskey calls BeginPasskeyFunc.
func (s *Service) BeginPasskey(ctx context.Context, r personal.BeginPasskeyRequest) (personal.PasskeyAttempt, error) {
	return call(ctx, s.BeginPasskeyFunc, r)
}

// AuthorizePasskey calls AuthorizePasskeyFunc.
func (s *Service) AuthorizePasskey(ctx context.Context, r personal.AuthorizePasskeyRequest) (personal.PasskeySignedIn, error) {
	return call(ctx, s.AuthorizePasskeyFunc, r)
}

// AddPasskey calls AddPasskeyFunc.
func (s *Service) AddPasskey(ctx context.Context, r personal.AddPasskeyRequest) (personal.PasskeyAttempt, error) {
	return call(ctx, s.AddPasskeyFunc, r)
}

// ConfirmPasskey calls ConfirmPasskeyFunc.
func (s *Service) ConfirmPasskey(ctx context.Context, r personal.ConfirmPasskeyRequest) (personal.Passkey, error) {
	return call(ctx, s.ConfirmPasskeyFunc, r)
}

// Passkeys calls PasskeysFunc.
func (s *Service) Passkeys(ctx context.Context, c personal.Credentials) ([]personal.Passkey, error) {
	return call(ctx, s.PasskeysFunc, c)
}

// RenamePasskey calls RenamePasskeyFunc.
func (s *Service) RenamePasskey(ctx context.Context, r personal.RenamePasskeyRequest) error {
	return callNoResult(ctx, s.RenamePasskeyFunc, r)
}

// RemovePasskey calls RemovePasskeyFunc.
func (s *Service) RemovePasskey(ctx context.Context, r personal.RemovePasskeyRequest) error {
	return callNoResult(ctx, s.RemovePasskeyFunc, r)
}

// Administration is a fake [personal.Administration] that calls its functions, as
// [Service] does.
type Administration struct {
	FindUsersFunc          func(context.Context, personal.FindUsersRequest) (personal.UserPage, error)
	UsersFunc              func(context.Context, []int64) (map[int64]personal.User, error)
	UserFunc               func(context.Context, int64) (personal.UserRecord, error)
	UpdateUserFunc         func(context.Context, personal.UpdateUserRequest) error
	SetEmailFunc           func(context.Context, personal.SetEmailRequest) error
	DisableUserFunc        func(context.Context, int64) error
	EnableUserFunc         func(context.Context, int64) error
	UserSessionsFunc       func(context.Context, int64) ([]personal.Session, error)
	RevokeUserSessionsFunc func(context.Context, int64) error
	RevokeUserSessionFunc  func(context.Context, personal.RevokeUserSessionRequest) error
	DeleteUserFunc         func(context.Context, int64) error
	AuditEntriesFunc       func(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error)
	RemoveTwoFactorFunc    func(context.Context, personal.RemoveTwoFactorRequest) error
	RemoveOtherWaysInFunc  func(context.Context, int64) error
	ResetAccessFunc        func(context.Context, personal.ResetAccessRequest) error
	CreateUserFunc         func(context.Context, personal.CreateUserRequest) (int64, error)
	ExplainFunc            func(context.Context, personal.ExplainRequest) (personal.Explanation, error)
	LiftLimitsFunc         func(context.Context, personal.LiftLimitsRequest) error
	RehearseFieldsFunc     func(context.Context, []personal.Field) (personal.FieldsRehearsal, error)
	FillFieldsFunc         func(context.Context, string) error
	FieldsFillFunc         func(context.Context) (personal.FieldsFill, error)

	SignInFunc         func(context.Context, personal.SignInRequest) (personal.OpenedSession, error)
	LinkIdentityFunc   func(context.Context, personal.LinkIdentityRequest) error
	FindIdentityFunc   func(context.Context, personal.Identity) (int64, error)
	UnlinkIdentityFunc func(context.Context, personal.UnlinkIdentityRequest) error
}

var _ personal.Administration = (*Administration)(nil)

// FindUsers calls FindUsersFunc.
func (a *Administration) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	return call(ctx, a.FindUsersFunc, r)
}

// Users calls UsersFunc.
func (a *Administration) Users(ctx context.Context, ids []int64) (map[int64]personal.User, error) {
	return call(ctx, a.UsersFunc, ids)
}

// User calls UserFunc.
func (a *Administration) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	return call(ctx, a.UserFunc, id)
}

// UpdateUser calls UpdateUserFunc.
func (a *Administration) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	return callNoResult(ctx, a.UpdateUserFunc, r)
}

// SetEmail calls SetEmailFunc.
func (a *Administration) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	return callNoResult(ctx, a.SetEmailFunc, r)
}

// DisableUser calls DisableUserFunc.
func (a *Administration) DisableUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, a.DisableUserFunc, id)
}

// EnableUser calls EnableUserFunc.
func (a *Administration) EnableUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, a.EnableUserFunc, id)
}

// UserSessions calls UserSessionsFunc.
func (a *Administration) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	return call(ctx, a.UserSessionsFunc, id)
}

// RevokeUserSession calls RevokeUserSessionFunc.
func (a *Administration) RevokeUserSession(ctx context.Context, r personal.RevokeUserSessionRequest) error {
	return callNoResult(ctx, a.RevokeUserSessionFunc, r)
}

// RevokeUserSessions calls RevokeUserSessionsFunc.
func (a *Administration) RevokeUserSessions(ctx context.Context, id int64) error {
	return callNoResult(ctx, a.RevokeUserSessionsFunc, id)
}

// DeleteUser calls DeleteUserFunc.
func (a *Administration) DeleteUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, a.DeleteUserFunc, id)
}

// AuditEntries calls AuditEntriesFunc.
func (a *Administration) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	return call(ctx, a.AuditEntriesFunc, r)
}

// RemoveTwoFactor calls RemoveTwoFactorFunc.
func (a *Administration) RemoveTwoFactor(ctx context.Context, r personal.RemoveTwoFactorRequest) error {
	return callNoResult(ctx, a.RemoveTwoFactorFunc, r)
}

// RemoveOtherWaysIn calls RemoveOtherWaysInFunc.
func (a *Administration) RemoveOtherWaysIn(ctx context.Context, id int64) error {
	return callNoResult(ctx, a.RemoveOtherWaysInFunc, id)
}

// ResetAccess calls ResetAccessFunc.
func (a *Administration) ResetAccess(ctx context.Context, r personal.ResetAccessRequest) error {
	return callNoResult(ctx, a.ResetAccessFunc, r)
}

// CreateUser calls CreateUserFunc.
func (a *Administration) CreateUser(ctx context.Context, r personal.CreateUserRequest) (int64, error) {
	return call(ctx, a.CreateUserFunc, r)
}

// Explain calls ExplainFunc.
func (a *Administration) Explain(ctx context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
	return call(ctx, a.ExplainFunc, r)
}

// LiftLimits calls LiftLimitsFunc.
func (a *Administration) LiftLimits(ctx context.Context, r personal.LiftLimitsRequest) error {
	return callNoResult(ctx, a.LiftLimitsFunc, r)
}

// RehearseFields calls RehearseFieldsFunc.
func (a *Administration) RehearseFields(ctx context.Context, fields []personal.Field) (personal.FieldsRehearsal, error) {
	return call(ctx, a.RehearseFieldsFunc, fields)
}

// FillFields calls FillFieldsFunc.
func (a *Administration) FillFields(ctx context.Context, revision string) error {
	return callNoResult(ctx, a.FillFieldsFunc, revision)
}

// FieldsFill calls FieldsFillFunc.
func (a *Administration) FieldsFill(ctx context.Context) (personal.FieldsFill, error) {
	if a.FieldsFillFunc == nil {
		return personal.FieldsFill{}, personal.NewError(personal.CodeNotFound, nil)
	}
	return a.FieldsFillFunc(ctx)
}

// SignIn calls SignInFunc.
func (a *Administration) SignIn(ctx context.Context, r personal.SignInRequest) (personal.OpenedSession, error) {
	return call(ctx, a.SignInFunc, r)
}

// LinkIdentity calls LinkIdentityFunc.
func (a *Administration) LinkIdentity(ctx context.Context, r personal.LinkIdentityRequest) error {
	return callNoResult(ctx, a.LinkIdentityFunc, r)
}

// FindIdentity calls FindIdentityFunc.
func (a *Administration) FindIdentity(ctx context.Context, i personal.Identity) (int64, error) {
	return call(ctx, a.FindIdentityFunc, i)
}

// UnlinkIdentity calls UnlinkIdentityFunc.
func (a *Administration) UnlinkIdentity(ctx context.Context, r personal.UnlinkIdentityRequest) error {
	return callNoResult(ctx, a.UnlinkIdentityFunc, r)
}

// Host is a fake [personal.Host] and [personal.Eraser] that records mails, events and
// erasures. The zero value has no user fields and accepts everything. A function that is
// set is called first; what it returns an error for is not recorded. Set the functions before
// the first call. All methods are safe for concurrent use.
type Host struct {
	UserFieldsFunc   func(context.Context) (personal.Schema, error)
	SendMailFunc     func(context.Context, personal.Mail) error
	PublishEventFunc func(context.Context, personal.Event) error
	EraseUserFunc    func(context.Context, int64) error

	mu      sync.Mutex
	mails   []personal.Mail
	events  []personal.Event
	erased  []int64
	changed chan struct{} // closed and reset when something is recorded; nil until a caller waits
}

var (
	_ personal.Host   = (*Host)(nil)
	_ personal.Eraser = (*Host)(nil)
)

// UserFields calls UserFieldsFunc, or returns a schema without fields if it is nil.
func (h *Host) UserFields(ctx context.Context) (personal.Schema, error) {
	if h.UserFieldsFunc == nil {
		return personal.Schema{Revision: "empty"}, nil
	}
	return h.UserFieldsFunc(ctx)
}

// SendMail records the mail, unless SendMailFunc returns an error.
func (h *Host) SendMail(ctx context.Context, m personal.Mail) error {
	if h.SendMailFunc != nil {
		if err := h.SendMailFunc(ctx, m); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mails = append(h.mails, m)
	h.wakeLocked()
	return nil
}

// PublishEvent records the event, unless PublishEventFunc returns an error.
func (h *Host) PublishEvent(ctx context.Context, e personal.Event) error {
	if h.PublishEventFunc != nil {
		if err := h.PublishEventFunc(ctx, e); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	h.wakeLocked()
	return nil
}

// EraseUser records the erasure, unless EraseUserFunc returns an error.
func (h *Host) EraseUser(ctx context.Context, userID int64) error {
	if h.EraseUserFunc != nil {
		if err := h.EraseUserFunc(ctx, userID); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.erased = append(h.erased, userID)
	h.wakeLocked()
	return nil
}

// Erased returns the ids of the users of recorded erasures, including repetitions.
func (h *Host) Erased() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.erased)
}

// AwaitErased waits until n erasures are recorded and returns the ids of all users, or
// the context's error.
func (h *Host) AwaitErased(ctx context.Context, n int) ([]int64, error) {
	return await(ctx, h, n, h.Erased)
}

// Mails returns the recorded mails, including repeated deliveries.
func (h *Host) Mails() []personal.Mail {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mails)
}

// Events returns the recorded events, including repeated deliveries.
func (h *Host) Events() []personal.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// AwaitMails waits until n mails are recorded and returns all of them, or the
// context's error.
func (h *Host) AwaitMails(ctx context.Context, n int) ([]personal.Mail, error) {
	return await(ctx, h, n, h.Mails)
}

// AwaitEvents waits until n events are recorded and returns all of them, or the
// context's error.
func (h *Host) AwaitEvents(ctx context.Context, n int) ([]personal.Event, error) {
	return await(ctx, h, n, h.Events)
}

// await waits until n things are recorded and returns all of them.
func await[T any](ctx context.Context, h *Host, n int, recorded func() []T) ([]T, error) {
	for {
		changed := h.watch()
		if all := recorded(); len(all) >= n {
			return all, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// watch returns a channel that is closed when something is recorded.
func (h *Host) watch() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// wakeLocked wakes the waiting callers.
func (h *Host) wakeLocked() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}
