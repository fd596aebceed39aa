package rpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// callbackTimeout bounds a callback whose context has no deadline.
const callbackTimeout = 10 * time.Second

// contractConn is a connection to the other process. Its calls send the personal.Call
// and the span of their context as metadata and return errors of the contract. They have
// a span if that of their context is recorded.
type contractConn struct {
	grpc.ClientConnInterface
	host    personal.Host // whose schema revision is sent with the calls; nil for none
	timeout time.Duration // for a call whose context has no deadline; 0 for none
}

// Invoke makes one call.
func (c contractConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok && c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	ctx, span := startCall(ctx, method)
	err := contractError(ctx, c.ClientConnInterface.Invoke(outgoing(ctx, c.revision(ctx)), method, args, reply, opts...))
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

	mu        sync.RWMutex
	observers []CallObserver
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
	c := &Client{host: host, switches: func() int { return 0 }, remembered: newRemembered()}
	if of, ok := conn.(interface{ Switches() int }); ok {
		c.switches = of.Switches
	}
	watched := watchedConn{contractConn{ClientConnInterface: conn, host: host}, operationsByMethod(), c}
	c.service = personalv1.NewPersonalServiceClient(watched)
	c.administration = personalv1.NewAdministrationServiceClient(watched)
	return c
}

// CallObserver is told of a call of an operation that has ended, see [Client.Observe]. The code is
// empty after a success.
type CallObserver func(operation personal.OperationName, code personal.Code, took time.Duration)

// Observe has an observer called after every later call of an operation, concurrently. It must not
// block. Requests that are not sent, and profiles that the client remembers, are no calls.
func (c *Client) Observe(o CallObserver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(c.observers, o)
}

func (c *Client) observed(operation personal.OperationName, err error, took time.Duration) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, observe := range c.observers {
		observe(operation, personal.CodeOf(err), took)
	}
}

// make generate writes the methods that are not handwritten to client_generated.go and server_generated.go.

// RegisterIdentity implements [personal.Administration].
func (c *Client) RegisterIdentity(ctx context.Context, r personal.RegisterIdentityRequest) (personal.SignedIn, error) {
	response, err := c.administration.RegisterIdentity(ctx, convert.registerIdentityToPB(r))
	if err == nil && response.GetUnverified() {
		return personal.SignedIn{}, nil
	}
	return result(ctx, convert.registeredIdentityFromPB)(response, err)
}

// Register creates an account.
func (c *Client) Register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	response, err := c.service.Register(ctx, convert.registerToPB(r))
	if err == nil && response.GetUnverified() {
		return personal.SignedIn{}, nil
	}
	return result(ctx, convert.registeredFromPB)(response, err)
}

// askProfile asks the plugin for the profile, see [Client.Profile].
func (c *Client) askProfile(ctx context.Context, pair personal.Credentials) (personal.Profile, error) {
	return result(ctx, profileOf)(c.service.Profile(ctx, &personalv1.ProfileRequest{Credentials: convert.credentialsToPB(pair)}))
}

// RenewRecoveryCodes replaces all recovery codes.
func (c *Client) RenewRecoveryCodes(ctx context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
	return result(ctx, recoveryCodesOf)(c.service.RenewRecoveryCodes(ctx, convert.renewRecoveryCodesToPB(r)))
}

// CreateUser creates a user without a password.
func (c *Client) CreateUser(ctx context.Context, r personal.CreateUserRequest) (int64, error) {
	id, err := result(ctx, createdUserOf)(c.administration.CreateUser(ctx, convert.createUserToPB(r)))
	return int64(id), err
}

// FindIdentity returns the id of the user who has an identity.
func (c *Client) FindIdentity(ctx context.Context, i personal.Identity) (int64, error) {
	id, err := result(ctx, foundUserOf)(c.administration.FindIdentity(ctx, &personalv1.FindIdentityRequest{Identity: convert.identityToPB(i)}))
	return int64(id), err
}

// hostClient is the host as the plugin sees it.
type hostClient struct {
	client personalv1.HostServiceClient
}

// EraseUser tells the host that a user was erased.
func (c *hostClient) EraseUser(ctx context.Context, userID int64) error {
	return failure(c.client.EraseUser(ctx, &personalv1.EraseUserRequest{UserId: userID}))
}
