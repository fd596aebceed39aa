package pluginrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// callbackTimeout bounds a callback whose context has no deadline.
const callbackTimeout = 10 * time.Second

// contractConn is a connection to the other process. Its calls send the
// personal.Call of their context as metadata and return errors of the contract.
type contractConn struct {
	conn    grpc.ClientConnInterface
	host    personal.Host // whose schema revision is sent with the calls; nil for none
	timeout time.Duration // for a call whose context has no deadline; 0 for none
}

// toPlugin returns a connection whose calls send the revision of the host's schema.
func toPlugin(conn grpc.ClientConnInterface, host personal.Host) contractConn {
	return contractConn{conn: conn, host: host}
}

// toHost returns a connection for callbacks, which send no revision.
func toHost(conn grpc.ClientConnInterface) contractConn {
	return contractConn{conn: conn, timeout: callbackTimeout}
}

// Invoke makes one call.
func (c contractConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok && c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	return contractError(ctx, c.conn.Invoke(outgoing(ctx, c.revision(ctx)), method, args, reply, opts...))
}

// revision returns the revision to send, or "" if the host cannot tell: a plugin that
// needs the schema then asks the host itself.
func (c contractConn) revision(ctx context.Context) string {
	if c.host == nil {
		return ""
	}
	schema, err := c.host.UserFields(ctx)
	if err != nil {
		return ""
	}
	return schema.Revision
}

// NewStream fails: the contract has no streams.
func (c contractConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the contract has no streams")
}

var errIncomplete = errors.New("the plugin's response lacks a required value")

// result returns a function that takes the two results of a call and converts a
// successful response. An incomplete one is an internal error.
func result[PB, T any](ctx context.Context, convert func(PB) T) func(PB, error) (T, error) {
	return func(response PB, err error) (T, error) {
		var none T
		if err != nil {
			return none, err
		}
		converted := convert(response)
		if !isComplete(converted) {
			return none, &personal.Error{Code: personal.CodeInternal, RequestID: requestID(ctx), Cause: errIncomplete}
		}
		return converted, nil
	}
}

// isComplete reports whether a result has the values without which it must not count
// as a success: an empty message must not sign anyone in.
func isComplete(result any) bool {
	switch r := result.(type) {
	case personal.SignedIn:
		return isComplete(r.Credentials) && isComplete(r.Profile)
	case personal.Credentials:
		return r.UserID > 0 && r.UserHash != ""
	case personal.Profile:
		return r.Login != ""
	case personal.UserRecord:
		return r.ID > 0
	}
	return true
}

// serviceClient is a service in another process.
type serviceClient struct {
	client personalv1.PersonalServiceClient
}

// NewService returns the service at the other end of conn, which is that of a
// [Connection] or forwards to one. Every call sends the personal.Call of its
// context and the revision of host's schema.
//
// All errors are of the contract: personal.CodeNotFound for an operation that
// the plugin does not offer; personal.CodeUnavailable if the plugin is not running
// or the time ran out; personal.CodeInternal for any other failure and for a
// response that lacks a required value.
func NewService(conn grpc.ClientConnInterface, host personal.Host) personal.Service {
	return &serviceClient{client: personalv1.NewPersonalServiceClient(toPlugin(conn, host))}
}

// Authorize signs a user in.
func (s *serviceClient) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	return result(ctx, signedInFromPB)(s.client.Authorize(ctx, authorizeToPB(r)))
}

// Refresh rotates the session's hash.
func (s *serviceClient) Refresh(ctx context.Context, c personal.Credentials) (personal.Credentials, error) {
	return result(ctx, issuedCredentialsFromPB)(s.client.Refresh(ctx, &personalv1.RefreshRequest{Credentials: credentialsToPB(c)}))
}

// Register creates an account.
func (s *serviceClient) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	return result(ctx, signedInFromPB)(s.client.Register(ctx, registerToPB(r)))
}

// Recover requests a mail with a recovery token.
func (s *serviceClient) Recover(ctx context.Context, r personal.RecoverRequest) error {
	_, err := s.client.Recover(ctx, recoverToPB(r))
	return err
}

// RecoverConfirm sets a new password by a mailed token.
func (s *serviceClient) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) error {
	_, err := s.client.RecoverConfirm(ctx, recoverConfirmToPB(r))
	return err
}

// Profile returns the profile of the account that the credentials identify.
func (s *serviceClient) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	return result(ctx, profileFromPB)(s.client.Profile(ctx, &personalv1.ProfileRequest{Credentials: credentialsToPB(c)}))
}

// UpdateProfile changes the fields that were sent.
func (s *serviceClient) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	return result(ctx, profileFromPB)(s.client.UpdateProfile(ctx, updateProfileToPB(r)))
}

// ChangePassword replaces the password.
func (s *serviceClient) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	return result(ctx, issuedCredentialsFromPB)(s.client.ChangePassword(ctx, changePasswordToPB(r)))
}

// ChangeEmail mails a token to the new address.
func (s *serviceClient) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	_, err := s.client.ChangeEmail(ctx, changeEmailToPB(r))
	return err
}

// ConfirmEmail sets the address that the token was mailed to.
func (s *serviceClient) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) error {
	_, err := s.client.ConfirmEmail(ctx, confirmEmailToPB(r))
	return err
}

// Logout ends one session or all.
func (s *serviceClient) Logout(ctx context.Context, r personal.LogoutRequest) error {
	_, err := s.client.Logout(ctx, logoutToPB(r))
	return err
}

// Sessions lists the account's sessions.
func (s *serviceClient) Sessions(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
	return result(ctx, sessionsFromPB)(s.client.Sessions(ctx, &personalv1.SessionsRequest{Credentials: credentialsToPB(c)}))
}

// RevokeSession ends one session.
func (s *serviceClient) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	_, err := s.client.RevokeSession(ctx, revokeSessionToPB(r))
	return err
}

// Fields returns the user fields that are not hidden.
func (s *serviceClient) Fields(ctx context.Context) ([]personal.Field, error) {
	return result(ctx, fieldsFromPB)(s.client.Fields(ctx, &personalv1.FieldsRequest{}))
}

// administrationClient is an administration in another process.
type administrationClient struct {
	client personalv1.AdministrationServiceClient
}

// NewAdministration returns the administration at the other end of conn. Calls and
// errors are as for [NewService]; a plugin without an administration returns
// personal.CodeNotFound.
func NewAdministration(conn grpc.ClientConnInterface, host personal.Host) personal.Administration {
	return &administrationClient{client: personalv1.NewAdministrationServiceClient(toPlugin(conn, host))}
}

// FindUsers lists users.
func (a *administrationClient) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	return result(ctx, userPageFromPB)(a.client.FindUsers(ctx, findUsersToPB(r)))
}

// User returns the record of one user.
func (a *administrationClient) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	return result(ctx, userRecordFromPB)(a.client.User(ctx, &personalv1.UserRequest{Id: id}))
}

// UpdateUser changes the fields that were sent.
func (a *administrationClient) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	_, err := a.client.UpdateUser(ctx, updateUserToPB(r))
	return err
}

// SetEmail sets or removes a user's e-mail address.
func (a *administrationClient) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	_, err := a.client.SetEmail(ctx, setEmailToPB(r))
	return err
}

// DisableUser disables a user.
func (a *administrationClient) DisableUser(ctx context.Context, id int64) error {
	_, err := a.client.DisableUser(ctx, &personalv1.DisableUserRequest{Id: id})
	return err
}

// EnableUser enables a disabled user.
func (a *administrationClient) EnableUser(ctx context.Context, id int64) error {
	_, err := a.client.EnableUser(ctx, &personalv1.EnableUserRequest{Id: id})
	return err
}

// UserSessions lists a user's sessions.
func (a *administrationClient) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	return result(ctx, sessionsFromPB)(a.client.UserSessions(ctx, &personalv1.UserSessionsRequest{Id: id}))
}

// RevokeUserSessions ends every session of a user.
func (a *administrationClient) RevokeUserSessions(ctx context.Context, id int64) error {
	_, err := a.client.EndUserSessions(ctx, &personalv1.EndUserSessionsRequest{Id: id})
	return err
}

// DeleteUser deletes a user.
func (a *administrationClient) DeleteUser(ctx context.Context, id int64) error {
	_, err := a.client.DeleteUser(ctx, &personalv1.DeleteUserRequest{Id: id})
	return err
}

// AuditEntries lists entries of the audit log.
func (a *administrationClient) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	return result(ctx, auditPageFromPB)(a.client.AuditEntries(ctx, auditEntriesToPB(r)))
}

// hostClient is the host as the plugin sees it.
type hostClient struct {
	client personalv1.HostServiceClient
}

// UserFields returns the host's current schema.
func (c *hostClient) UserFields(ctx context.Context) (personal.Schema, error) {
	return result(ctx, schemaFromPB)(c.client.UserFields(ctx, &personalv1.UserFieldsRequest{}))
}

// SendMail passes a mail to the host. A permanent refusal is a
// [*personal.MailRefusedError] wrapped in a [*personal.Error].
func (c *hostClient) SendMail(ctx context.Context, m personal.Mail) error {
	_, err := c.client.SendMail(ctx, mailToPB(m))
	return err
}

// PublishEvent passes an event to the host.
func (c *hostClient) PublishEvent(ctx context.Context, e personal.Event) error {
	_, err := c.client.PublishEvent(ctx, eventToPB(e))
	return err
}
