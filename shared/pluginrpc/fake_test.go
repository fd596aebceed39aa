package pluginrpc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// contract is everything that a module may offer.
type contract interface {
	personal.Service
	personal.Administration
}

func newClient(conn grpc.ClientConnInterface, host personal.Host) *pluginrpc.Client {
	return pluginrpc.NewClient(conn, host)
}

// stub is a module whose operations all call handle. They return its result if it has
// the operation's result type.
type stub struct {
	handle func(ctx context.Context, operation string, request any) (any, error)
}

func call[T any](ctx context.Context, s stub, operation string, request any) (T, error) {
	result, err := s.handle(ctx, operation, request)
	typed, _ := result.(T)
	return typed, err
}

func callNoResult(ctx context.Context, s stub, operation string, request any) error {
	_, err := s.handle(ctx, operation, request)
	return err
}

func (s stub) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	return call[personal.SignedIn](ctx, s, "Authorize", r)
}

func (s stub) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	return call[personal.Credentials](ctx, s, "Refresh", c)
}

func (s stub) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	return call[personal.SignedIn](ctx, s, "Register", r)
}

func (s stub) Recover(ctx context.Context, r personal.RecoverRequest) error {
	return callNoResult(ctx, s, "Recover", r)
}

func (s stub) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) (int64, error) {
	return call[int64](ctx, s, "RecoverConfirm", r)
}

func (s stub) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	return call[personal.Profile](ctx, s, "Profile", c)
}

func (s stub) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	return call[personal.Profile](ctx, s, "UpdateProfile", r)
}

func (s stub) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	return call[personal.Credentials](ctx, s, "ChangePassword", r)
}

func (s stub) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	return callNoResult(ctx, s, "ChangeEmail", r)
}

func (s stub) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) (int64, error) {
	return call[int64](ctx, s, "ConfirmEmail", r)
}

func (s stub) Logout(ctx context.Context, r personal.LogoutRequest) error {
	return callNoResult(ctx, s, "Logout", r)
}

func (s stub) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	return call[[]personal.Session](ctx, s, "Sessions", c)
}

func (s stub) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	return callNoResult(ctx, s, "RevokeSession", r)
}

func (s stub) Fields(ctx context.Context) ([]personal.Field, error) {
	return call[[]personal.Field](ctx, s, "Fields", nil)
}

func (s stub) ResendVerification(ctx context.Context, r personal.ResendVerificationRequest) error {
	return callNoResult(ctx, s, "ResendVerification", r)
}

func (s stub) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	return call[personal.Export](ctx, s, "Export", r)
}

func (s stub) Delete(ctx context.Context, r personal.DeleteRequest) (time.Time, error) {
	return call[time.Time](ctx, s, "Delete", r)
}

func (s stub) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (int64, error) {
	return call[int64](ctx, s, "UndoDelete", r)
}

func (s stub) BeginTwoFactor(ctx context.Context, r personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
	return call[personal.TwoFactorSecret](ctx, s, "BeginTwoFactor", r)
}

func (s stub) ConfirmTwoFactor(ctx context.Context, r personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error) {
	return call[personal.ConfirmedTwoFactor](ctx, s, "ConfirmTwoFactor", r)
}

func (s stub) RenewRecoveryCodes(ctx context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
	return call[[]string](ctx, s, "RenewRecoveryCodes", r)
}

func (s stub) EndTwoFactor(ctx context.Context, r personal.EndTwoFactorRequest) (personal.Credentials, error) {
	return call[personal.Credentials](ctx, s, "EndTwoFactor", r)
}

func (s stub) RemoveTwoFactor(ctx context.Context, id int64) error {
	return callNoResult(ctx, s, "RemoveTwoFactor", id)
}

func (s stub) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	return call[personal.UserPage](ctx, s, "FindUsers", r)
}

func (s stub) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	return call[personal.UserRecord](ctx, s, "User", id)
}

func (s stub) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	return callNoResult(ctx, s, "UpdateUser", r)
}

func (s stub) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	return callNoResult(ctx, s, "SetEmail", r)
}

func (s stub) DisableUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, s, "DisableUser", id)
}

func (s stub) EnableUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, s, "EnableUser", id)
}

func (s stub) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	return call[[]personal.Session](ctx, s, "UserSessions", id)
}

func (s stub) RevokeUserSessions(ctx context.Context, id int64) error {
	return callNoResult(ctx, s, "RevokeUserSessions", id)
}

func (s stub) DeleteUser(ctx context.Context, id int64) error {
	return callNoResult(ctx, s, "DeleteUser", id)
}

func (s stub) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	return call[personal.AuditPage](ctx, s, "AuditEntries", r)
}

func (s stub) CreateUser(ctx context.Context, r personal.CreateUserRequest) (int64, error) {
	return call[int64](ctx, s, "CreateUser", r)
}

func (s stub) Explain(ctx context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
	return call[personal.Explanation](ctx, s, "Explain", r)
}

func (s stub) LiftLimits(ctx context.Context, r personal.LiftLimitsRequest) error {
	return callNoResult(ctx, s, "LiftLimits", r)
}

func (s stub) RehearseFields(ctx context.Context, fields []personal.Field) (personal.FieldsRehearsal, error) {
	return call[personal.FieldsRehearsal](ctx, s, "RehearseFields", fields)
}

func (s stub) FillFields(ctx context.Context, revision string) error {
	return callNoResult(ctx, s, "FillFields", revision)
}

func (s stub) FieldsFill(ctx context.Context) (personal.FieldsFill, error) {
	return call[personal.FieldsFill](ctx, s, "FieldsFill", nil)
}

// fakeHost returns a schema that a test can change, and counts the calls for it.
type fakeHost struct {
	schema atomic.Pointer[personal.Schema]
	calls  atomic.Int64
	onMail func(ctx context.Context, m personal.Mail) error
	events chan personal.Event
}

func newFakeHost(revision string) *fakeHost {
	h := &fakeHost{events: make(chan personal.Event, 8)}
	h.use(revision)
	return h
}

func (h *fakeHost) use(revision string) {
	h.schema.Store(&personal.Schema{Revision: revision, Fields: []personal.Field{{Name: "field_" + revision, Type: personal.TypeText}}})
}

func (h *fakeHost) UserFields(context.Context) (personal.Schema, error) {
	h.calls.Add(1)
	return *h.schema.Load(), nil
}

func (h *fakeHost) SendMail(ctx context.Context, m personal.Mail) error {
	if h.onMail == nil {
		return errors.New("unexpected mail")
	}
	return h.onMail(ctx, m)
}

func (h *fakeHost) PublishEvent(_ context.Context, e personal.Event) error {
	h.events <- e
	return nil
}

// module is a module whose steps a test can replace.
type module struct {
	service   personal.Service
	preflight func(context.Context) (pluginrpc.Report, error)
	step      func(ctx context.Context, name string) error
}

func (m *module) Service() personal.Service { return m.service }

func (m *module) Administration() personal.Administration {
	a, _ := m.service.(personal.Administration)
	return a
}

func (m *module) Preflight(ctx context.Context) (pluginrpc.Report, error) {
	if m.preflight == nil {
		return pluginrpc.Report{}, nil
	}
	return m.preflight(ctx)
}

func (m *module) run(ctx context.Context, name string) error {
	if m.step == nil {
		return nil
	}
	return m.step(ctx, name)
}

func (m *module) Migrate(ctx context.Context) error  { return m.run(ctx, "Migrate") }
func (m *module) Activate(ctx context.Context) error { return m.run(ctx, "Activate") }
func (m *module) Quiesce(ctx context.Context) error  { return m.run(ctx, "Quiesce") }
func (m *module) Health(ctx context.Context) error   { return m.run(ctx, "Health") }
func (m *module) Settle(ctx context.Context) error   { return m.run(ctx, "Settle") }
func (m *module) Close() error                       { return m.run(context.Background(), "Close") }

// logBuffer is a log that goroutines may write and a test may read concurrently.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) logger() *slog.Logger { return pluginrpc.NewLogger(b, slog.LevelDebug) }
