package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// callbackTimeout bounds a callback whose context has no deadline.
const callbackTimeout = 10 * time.Second

// contractConn is a connection to the other process. Its calls send the personal.Call
// and the span of their context as metadata and return errors of the contract. They have
// a span if that of their context is recorded.
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
	ctx, span := startCall(ctx, method)
	err := contractError(ctx, c.conn.Invoke(outgoing(ctx, c.revision(ctx)), method, args, reply, opts...))
	endCall(span, method, err)
	return err
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

// failure returns the error of a call whose response says nothing.
func failure[PB any](_ PB, err error) error { return err }

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
	case personal.Export:
		return r.UserID > 0 && isComplete(r.Profile)
	case recoveryCodes:
		return len(r) > 0
	case personal.ConfirmedTwoFactor:
		return isComplete(r.Credentials) && len(r.RecoveryCodes) > 0
	case personal.PasskeyCeremony:
		return r.Attempt != "" && r.Options != ""
	case personal.Passkey:
		return r.ID != ""
	case aUser:
		return r > 0
	case personal.Explanation:
		return len(r.Verdicts) > 0
	case personal.Features:
		return r.EmailVerification != ""
	case personal.Proof:
		return r.Proof != "" && !r.Until.IsZero()
	case personal.TwoFactorSecret:
		return r.Secret != "" && r.URI != ""
	}
	return true
}

// Client is the module in another process: its [personal.Service] and its
// [personal.Administration]. It is made by [NewClient] and safe for concurrent use.
//
// A host uses one client for everything, because the client remembers what
// [Client.Profile] has found and notices the changes that its own calls make.
type Client struct {
	service        personalv1.PersonalServiceClient
	administration personalv1.AdministrationServiceClient
	host           personal.Host
	switches       func() int
	remembered     *remembered
	observers      *observers
}

var (
	_ personal.Service        = (*Client)(nil)
	_ personal.Administration = (*Client)(nil)
)

// NewClient returns a client of the module at the other end of conn, which is that of
// a [Connection] or forwards to one. A conn that forwards to one process after another
// has the method Switches() int, which returns how often it has changed the process.
// Every call sends the personal.Call and the OpenTelemetry span of its context and the
// revision of host's schema. It has its own span if that of its context is recorded.
//
// All errors are of the contract: personal.CodeMalformedRequest for a request with a
// text that is not valid UTF-8, which is not sent; personal.CodeNotFound for an operation
// that the plugin does not offer; personal.CodeUnavailable if the plugin is not running
// or the time ran out; personal.CodeInternal for any other failure and for a
// response that lacks a required value.
func NewClient(conn grpc.ClientConnInterface, host personal.Host) *Client {
	c := &Client{host: host, switches: func() int { return 0 }, remembered: newRemembered(), observers: &observers{}}
	if of, ok := conn.(interface{ Switches() int }); ok {
		c.switches = of.Switches
	}
	watched := watchedConn{toPlugin(conn, host), operationsByMethod(), c.remembered, c.observers}
	c.service = personalv1.NewPersonalServiceClient(watched)
	c.administration = personalv1.NewAdministrationServiceClient(watched)
	return c
}

// CallObserver is told of a call of an operation that has ended, see [Client.Observe]. The code is
// empty after a success.
type CallObserver func(operation personal.OperationName, code personal.Code, took time.Duration)

// Observe has an observer called after every later call of an operation, concurrently. It must not
// block. Requests that are not sent, and profiles that the client remembers, are no calls.
func (c *Client) Observe(o CallObserver) { c.observers.add(o) }

// observers are those of a client.
type observers struct {
	mu  sync.RWMutex
	all []CallObserver
}

func (o *observers) add(another CallObserver) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, another)
}

func (o *observers) call(operation personal.OperationName, err error, took time.Duration) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, observe := range o.all {
		observe(operation, personal.CodeOf(err), took)
	}
}

// Authorize signs a user in.
func (c *Client) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	return result(ctx, convert.authorizedFromPB)(c.service.Authorize(ctx, convert.authorizeToPB(r)))
}

// Refresh rotates the session's hash.
func (c *Client) Refresh(ctx context.Context, pair personal.Credentials) (personal.Credentials, error) {
	return result(ctx, credentialsOf)(c.service.Refresh(ctx, &personalv1.RefreshRequest{Credentials: convert.credentialsToPB(pair)}))
}

// Register creates an account.
func (c *Client) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	response, err := c.service.Register(ctx, convert.registerToPB(r))
	if err == nil && response.GetUnverified() {
		return personal.SignedIn{}, nil
	}
	return result(ctx, convert.registeredFromPB)(response, err)
}

// Recover requests a mail with a recovery token.
func (c *Client) Recover(ctx context.Context, r personal.RecoverRequest) error {
	return failure(c.service.Recover(ctx, convert.recoverToPB(r)))
}

// RecoverConfirm sets a new password by a mailed token.
func (c *Client) RecoverConfirm(ctx context.Context, r personal.RecoverConfirmRequest) (personal.Recovered, error) {
	return result(ctx, convert.recoveredFromPB)(c.service.RecoverConfirm(ctx, convert.recoverConfirmToPB(r)))
}

// askProfile asks the plugin for the profile, see [Client.Profile].
func (c *Client) askProfile(ctx context.Context, pair personal.Credentials) (personal.Profile, error) {
	return result(ctx, profileOf)(c.service.Profile(ctx, &personalv1.ProfileRequest{Credentials: convert.credentialsToPB(pair)}))
}

// UpdateProfile changes the fields that were sent.
func (c *Client) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	return result(ctx, profileOf)(c.service.UpdateProfile(ctx, convert.updateProfileToPB(r)))
}

// Prove shows that the session's user is there, and returns a proof of that.
func (c *Client) Prove(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
	return result(ctx, convert.provedFromPB)(c.service.Prove(ctx, convert.proveToPB(r)))
}

// ChangePassword replaces the password.
func (c *Client) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	return result(ctx, credentialsOf)(c.service.ChangePassword(ctx, convert.changePasswordToPB(r)))
}

// ChangeEmail mails a token to the new address.
func (c *Client) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	return failure(c.service.ChangeEmail(ctx, convert.changeEmailToPB(r)))
}

// ConfirmEmail sets the address that the token was mailed to.
func (c *Client) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) (int64, error) {
	response, err := c.service.ConfirmEmail(ctx, convert.confirmEmailToPB(r))
	return response.GetUserId(), err
}

// Logout ends one session or all.
func (c *Client) Logout(ctx context.Context, r personal.LogoutRequest) error {
	return failure(c.service.Logout(ctx, convert.logoutToPB(r)))
}

// Sessions lists the account's sessions.
func (c *Client) Sessions(ctx context.Context, pair personal.Credentials) ([]personal.Session, error) {
	return result(ctx, sessionsOf)(c.service.Sessions(ctx, &personalv1.SessionsRequest{Credentials: convert.credentialsToPB(pair)}))
}

// RevokeSession ends one session.
func (c *Client) RevokeSession(ctx context.Context, r personal.RevokeSessionRequest) error {
	return failure(c.service.RevokeSession(ctx, convert.revokeSessionToPB(r)))
}

// RevokeOtherSessions ends every session but the caller's.
func (c *Client) RevokeOtherSessions(ctx context.Context, pair personal.Credentials) error {
	return failure(c.service.RevokeOtherSessions(ctx, &personalv1.RevokeOtherSessionsRequest{Credentials: convert.credentialsToPB(pair)}))
}

// Fields returns the user fields that are not hidden.
func (c *Client) Fields(ctx context.Context) ([]personal.Field, error) {
	return result(ctx, fieldsOf)(c.service.Fields(ctx, &personalv1.FieldsRequest{}))
}

// Features returns what a page must know before it draws a form.
func (c *Client) Features(ctx context.Context) (personal.Features, error) {
	return result(ctx, convert.featuresFromPB)(c.service.Features(ctx, &personalv1.FeaturesRequest{}))
}

// ResendVerification requests another mail that proves an e-mail.
func (c *Client) ResendVerification(ctx context.Context, r personal.ResendVerificationRequest) error {
	return failure(c.service.ResendVerification(ctx, convert.resendVerificationToPB(r)))
}

// Export returns what is kept about the user.
func (c *Client) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	return result(ctx, convert.exportedFromPB)(c.service.Export(ctx, convert.exportToPB(r)))
}

// Delete disables the account, which is erased later.
func (c *Client) Delete(ctx context.Context, r personal.DeleteRequest) (time.Time, error) {
	response, err := c.service.Delete(ctx, convert.deleteToPB(r))
	return timeFromPB(response.GetEraseAt()), err
}

// UndoDelete undoes a deletion by a mailed token.
func (c *Client) UndoDelete(ctx context.Context, r personal.UndoDeleteRequest) (int64, error) {
	response, err := c.service.UndoDelete(ctx, convert.undoDeleteToPB(r))
	return response.GetUserId(), err
}

// BeginTwoFactor makes a secret for a second factor.
func (c *Client) BeginTwoFactor(ctx context.Context, r personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
	return result(ctx, convert.startedTwoFactorFromPB)(c.service.BeginTwoFactor(ctx, convert.beginTwoFactorToPB(r)))
}

// ConfirmTwoFactor switches the second factor on.
func (c *Client) ConfirmTwoFactor(ctx context.Context, r personal.ConfirmTwoFactorRequest) (personal.ConfirmedTwoFactor, error) {
	return result(ctx, convert.confirmedTwoFactorFromPB)(c.service.ConfirmTwoFactor(ctx, convert.confirmTwoFactorToPB(r)))
}

// RenewRecoveryCodes replaces all recovery codes.
func (c *Client) RenewRecoveryCodes(ctx context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
	return result(ctx, recoveryCodesOf)(c.service.RenewRecoveryCodes(ctx, convert.renewRecoveryCodesToPB(r)))
}

// RemoveOwnTwoFactor switches the second factor off.
func (c *Client) RemoveOwnTwoFactor(ctx context.Context, r personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error) {
	return result(ctx, credentialsOf)(c.service.RemoveOwnTwoFactor(ctx, convert.removeOwnTwoFactorToPB(r)))
}

// BeginPasskey begins a sign-in or a proof with a passkey.
func (c *Client) BeginPasskey(ctx context.Context, r personal.BeginPasskeyRequest) (personal.PasskeyCeremony, error) {
	return result(ctx, convert.startedPasskeyFromPB)(c.service.BeginPasskey(ctx, convert.beginPasskeyToPB(r)))
}

// AuthorizePasskey signs a user in with a passkey.
func (c *Client) AuthorizePasskey(ctx context.Context, r personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
	return result(ctx, convert.authorizedPasskeyFromPB)(c.service.AuthorizePasskey(ctx, convert.authorizePasskeyToPB(r)))
}

// AddPasskey begins the creation of a passkey.
func (c *Client) AddPasskey(ctx context.Context, r personal.AddPasskeyRequest) (personal.PasskeyCeremony, error) {
	return result(ctx, convert.addedPasskeyFromPB)(c.service.AddPasskey(ctx, convert.addPasskeyToPB(r)))
}

// ConfirmPasskey stores a passkey.
func (c *Client) ConfirmPasskey(ctx context.Context, r personal.ConfirmPasskeyRequest) (personal.Passkey, error) {
	return result(ctx, passkeyOf)(c.service.ConfirmPasskey(ctx, convert.confirmPasskeyToPB(r)))
}

// Passkeys lists the user's passkeys.
func (c *Client) Passkeys(ctx context.Context, pair personal.Credentials) ([]personal.Passkey, error) {
	return result(ctx, passkeysOf)(c.service.Passkeys(ctx, &personalv1.PasskeysRequest{Credentials: convert.credentialsToPB(pair)}))
}

// RenamePasskey renames a passkey.
func (c *Client) RenamePasskey(ctx context.Context, r personal.RenamePasskeyRequest) error {
	return failure(c.service.RenamePasskey(ctx, convert.renamePasskeyToPB(r)))
}

// RemovePasskey removes a passkey and ends the sessions that it began.
func (c *Client) RemovePasskey(ctx context.Context, r personal.RemovePasskeyRequest) error {
	return failure(c.service.RemovePasskey(ctx, convert.removePasskeyToPB(r)))
}

// FindUsers lists users.
func (c *Client) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	return result(ctx, convert.userPageFromPB)(c.administration.FindUsers(ctx, convert.findUsersToPB(r)))
}

// Users returns users by their ids.
func (c *Client) Users(ctx context.Context, ids []int64) (map[int64]personal.User, error) {
	return result(ctx, usersOf)(c.administration.Users(ctx, &personalv1.UsersRequest{Ids: ids}))
}

// User returns the record of one user.
func (c *Client) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	return result(ctx, convert.userRecordFromPB)(c.administration.User(ctx, &personalv1.UserRequest{Id: id}))
}

// UpdateUser changes the fields that were sent.
func (c *Client) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	return failure(c.administration.UpdateUser(ctx, convert.updateUserToPB(r)))
}

// SetEmail sets or removes a user's e-mail address.
func (c *Client) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	return failure(c.administration.SetEmail(ctx, convert.setEmailToPB(r)))
}

// DisableUser disables a user.
func (c *Client) DisableUser(ctx context.Context, id int64) error {
	return failure(c.administration.DisableUser(ctx, &personalv1.DisableUserRequest{Id: id}))
}

// EnableUser enables a disabled user.
func (c *Client) EnableUser(ctx context.Context, id int64) error {
	return failure(c.administration.EnableUser(ctx, &personalv1.EnableUserRequest{Id: id}))
}

// UserSessions lists a user's sessions.
func (c *Client) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	return result(ctx, sessionsOf)(c.administration.UserSessions(ctx, &personalv1.UserSessionsRequest{Id: id}))
}

// RevokeUserSession ends one session of a user.
func (c *Client) RevokeUserSession(ctx context.Context, r personal.RevokeUserSessionRequest) error {
	return failure(c.administration.RevokeUserSession(ctx, &personalv1.RevokeUserSessionRequest{UserId: r.UserID, Id: r.ID}))
}

// RevokeUserSessions ends every session of a user.
func (c *Client) RevokeUserSessions(ctx context.Context, id int64) error {
	return failure(c.administration.RevokeUserSessions(ctx, &personalv1.RevokeUserSessionsRequest{Id: id}))
}

// DeleteUser deletes a user.
func (c *Client) DeleteUser(ctx context.Context, id int64) error {
	return failure(c.administration.DeleteUser(ctx, &personalv1.DeleteUserRequest{Id: id}))
}

// AuditEntries lists entries of the audit log.
func (c *Client) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	return result(ctx, convert.auditPageFromPB)(c.administration.AuditEntries(ctx, convert.auditEntriesToPB(r)))
}

// RemoveTwoFactor switches a user's second factor off.
func (c *Client) RemoveTwoFactor(ctx context.Context, r personal.RemoveTwoFactorRequest) error {
	return failure(c.administration.RemoveTwoFactor(ctx, convert.removeTwoFactorToPB(r)))
}

// RemoveOtherWaysIn removes all passkeys and identities of a user.
func (c *Client) RemoveOtherWaysIn(ctx context.Context, id int64) error {
	return failure(c.administration.RemoveOtherWaysIn(ctx, &personalv1.RemoveOtherWaysInRequest{Id: id}))
}

// ResetAccess ends a take-over of a user's account.
func (c *Client) ResetAccess(ctx context.Context, r personal.ResetAccessRequest) error {
	return failure(c.administration.ResetAccess(ctx, convert.resetAccessToPB(r)))
}

// CreateUser creates a user without a password.
func (c *Client) CreateUser(ctx context.Context, r personal.CreateUserRequest) (int64, error) {
	id, err := result(ctx, createdUserOf)(c.administration.CreateUser(ctx, convert.createUserToPB(r)))
	return int64(id), err
}

// Explain says why a user cannot sign in, and what helps.
func (c *Client) Explain(ctx context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
	return result(ctx, convert.explanationFromPB)(c.administration.Explain(ctx, convert.explainToPB(r)))
}

// LiftLimits lifts the limits that hold for a user.
func (c *Client) LiftLimits(ctx context.Context, r personal.LiftLimitsRequest) error {
	return failure(c.administration.LiftLimits(ctx, convert.liftLimitsToPB(r)))
}

// PreviewFields counts the users whose user fields would violate the given fields.
func (c *Client) PreviewFields(ctx context.Context, fields []personal.Field) (personal.FieldsPreview, error) {
	return result(ctx, convert.fieldsPreviewFromPB)(c.administration.PreviewFields(ctx,
		&personalv1.PreviewFieldsRequest{Fields: convert.fieldsToPB(fields)}))
}

// FillFields starts to fill in the defaults of the schema of a revision.
func (c *Client) FillFields(ctx context.Context, revision string) error {
	return failure(c.administration.FillFields(ctx, &personalv1.FillFieldsRequest{Revision: revision}))
}

// FieldsFill returns the progress of the last filling.
func (c *Client) FieldsFill(ctx context.Context) (personal.FieldsFill, error) {
	return result(ctx, convert.fieldsFillFromPB)(c.administration.FieldsFill(ctx, &personalv1.FieldsFillRequest{}))
}

// SignIn opens a session for a user whom the host has authenticated.
func (c *Client) SignIn(ctx context.Context, r personal.SignInRequest) (personal.SignedIn, error) {
	return result(ctx, convert.openedFromPB)(c.administration.SignIn(ctx, convert.signInToPB(r)))
}

// LinkIdentity links an identity to an account.
func (c *Client) LinkIdentity(ctx context.Context, r personal.LinkIdentityRequest) error {
	return failure(c.administration.LinkIdentity(ctx, convert.linkIdentityToPB(r)))
}

// FindIdentity returns the id of the user who has an identity.
func (c *Client) FindIdentity(ctx context.Context, i personal.Identity) (int64, error) {
	id, err := result(ctx, foundUserOf)(c.administration.FindIdentity(ctx, &personalv1.FindIdentityRequest{Identity: convert.identityToPB(i)}))
	return int64(id), err
}

// RegisterIdentity creates an account that an identity signs in to.
func (c *Client) RegisterIdentity(ctx context.Context, r personal.RegisterIdentityRequest) (personal.SignedIn, error) {
	response, err := c.administration.RegisterIdentity(ctx, convert.registerIdentityToPB(r))
	if err == nil && response.GetUnverified() {
		return personal.SignedIn{}, nil
	}
	return result(ctx, convert.registeredIdentityFromPB)(response, err)
}

// ProveIdentity gives a session a proof by an identity of its account.
func (c *Client) ProveIdentity(ctx context.Context, r personal.ProveIdentityRequest) (personal.Proof, error) {
	return result(ctx, convert.provedIdentityFromPB)(c.administration.ProveIdentity(ctx, convert.proveIdentityToPB(r)))
}

// EndIdentitySessions ends the sessions that an identity has opened.
func (c *Client) EndIdentitySessions(ctx context.Context, r personal.EndIdentitySessionsRequest) (int64, error) {
	response, err := c.administration.EndIdentitySessions(ctx, convert.endIdentitySessionsToPB(r))
	return response.GetUserId(), err
}

// UnlinkIdentity removes an identity from its account.
func (c *Client) UnlinkIdentity(ctx context.Context, r personal.UnlinkIdentityRequest) error {
	return failure(c.administration.UnlinkIdentity(ctx, convert.unlinkIdentityToPB(r)))
}

// hostClient is the host as the plugin sees it.
type hostClient struct {
	client personalv1.HostServiceClient
}

// UserFields returns the host's current schema.
func (c *hostClient) UserFields(ctx context.Context) (personal.Schema, error) {
	return result(ctx, convert.schemaFromPB)(c.client.UserFields(ctx, &personalv1.UserFieldsRequest{}))
}

// SendMail passes a mail to the host. A permanent refusal is a
// [*personal.MailRefusedError] wrapped in a [*personal.Error].
func (c *hostClient) SendMail(ctx context.Context, m personal.Mail) error {
	return failure(c.client.SendMail(ctx, convert.mailToPB(m)))
}

// PublishEvent passes an event to the host.
func (c *hostClient) PublishEvent(ctx context.Context, e personal.Event) error {
	return failure(c.client.PublishEvent(ctx, &personalv1.PublishEventRequest{Event: convert.eventToPB(e)}))
}

// EraseUser tells the host that a user was erased.
func (c *hostClient) EraseUser(ctx context.Context, userID int64) error {
	return failure(c.client.EraseUser(ctx, &personalv1.EraseUserRequest{UserId: userID}))
}
