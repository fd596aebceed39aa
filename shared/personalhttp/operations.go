package personalhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// operation calls the service for one row of the HTTP contract, section 3, and
// returns the data of the response, or nil if it has none. A [json.RawMessage] is the
// whole response, without an envelope.
type operation func(context.Context, personal.Service, *input) (data any, err error)

// Endpoint is where an operation of [personal.Service] is mounted.
type Endpoint struct {
	Operation personal.OperationName
	Path      string // under the prefix, without slashes
	Methods   []string
}

// Endpoints returns the endpoints of all operations.
func Endpoints() []Endpoint {
	var list []Endpoint
	for _, e := range endpoints() {
		list = append(list, e.Endpoint)
	}
	return list
}

// endpoint is an Endpoint and what it does.
type endpoint struct {
	Endpoint
	call operation
}

// endpoints returns the operations of the HTTP contract, section 3. openapi.yaml describes
// them, and messages/*.json have their success messages.
func endpoints() []endpoint {
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	return []endpoint{
		{Endpoint{personal.OpAuthorize, "auth", post}, withData(authorize, personal.Service.Authorize, newSignedInData)},
		{Endpoint{personal.OpRefresh, "auth_refresh", slices.Concat(get, post)}, withData(caller, personal.Service.Refresh, newCredentialsData)},
		{Endpoint{personal.OpRegister, "register", post}, withData(register, personal.Service.Register, newRegisteredData)},
		{Endpoint{personal.OpRecover, "recover", post}, withoutData(recoverPassword, personal.Service.Recover)},
		{Endpoint{personal.OpRecoverConfirm, "recover_confirm", post}, withData(confirmRecovery, personal.Service.RecoverConfirm, hideID)},
		{Endpoint{personal.OpProfile, "profile", get}, withData(caller, personal.Service.Profile, newProfileData)},
		{Endpoint{personal.OpUpdateProfile, "profile", post}, withData(updateProfile, personal.Service.UpdateProfile, newProfileData)},
		{Endpoint{personal.OpProve, "prove", post}, withData(prove, personal.Service.Prove, newProofData)},
		{Endpoint{personal.OpChangePassword, "password", post}, withData(changePassword, personal.Service.ChangePassword, newCredentialsData)},
		{Endpoint{personal.OpChangeEmail, "email", post}, withoutData(changeEmail, personal.Service.ChangeEmail)},
		{Endpoint{personal.OpConfirmEmail, "email_confirm", post}, withData(confirmEmail, personal.Service.ConfirmEmail, hideID)},
		{Endpoint{personal.OpLogout, "logout", post}, withoutData(logout, personal.Service.Logout)},
		{Endpoint{personal.OpSessions, "sessions", get}, withData(caller, personal.Service.Sessions, newSessionsData)},
		{Endpoint{personal.OpRevokeSession, "sessions_revoke", post}, withoutData(revokeSession, personal.Service.RevokeSession)},
		{Endpoint{personal.OpRevokeOtherSessions, "sessions_revoke_others", post}, withoutData(caller, personal.Service.RevokeOtherSessions)},
		{Endpoint{personal.OpFields, "fields", get}, fields},
		{Endpoint{personal.OpFeatures, "features", get}, features},
		{Endpoint{personal.OpResendVerification, "email_resend", post}, withoutData(resendVerification, personal.Service.ResendVerification)},
		{Endpoint{personal.OpExport, "export", post}, withData(export, personal.Service.Export, newExportData)},
		{Endpoint{personal.OpDelete, "delete", post}, withData(deleteAccount, personal.Service.Delete, newDeletedData)},
		{Endpoint{personal.OpUndoDelete, "delete_undo", post}, withData(undoDelete, personal.Service.UndoDelete, hideID)},
		{Endpoint{personal.OpBeginTwoFactor, "two_factor", post}, withData(beginTwoFactor, personal.Service.BeginTwoFactor, newTwoFactorData)},
		{Endpoint{personal.OpConfirmTwoFactor, "two_factor_confirm", post},
			withData(confirmTwoFactor, personal.Service.ConfirmTwoFactor, newConfirmedTwoFactorData)},
		{Endpoint{personal.OpRenewRecoveryCodes, "two_factor_codes", post},
			withData(renewRecoveryCodes, personal.Service.RenewRecoveryCodes, newRecoveryCodesData)},
		{Endpoint{personal.OpRemoveOwnTwoFactor, "two_factor_remove", post},
			withData(removeOwnTwoFactor, personal.Service.RemoveOwnTwoFactor, newCredentialsData)},
		{Endpoint{personal.OpBeginPasskey, "passkey_begin", post}, withData(beginPasskey, personal.Service.BeginPasskey, newPasskeyAttemptData)},
		{Endpoint{personal.OpAuthorizePasskey, "passkey_auth", post},
			withData(authorizePasskey, personal.Service.AuthorizePasskey, newPasskeySignedInData)},
		{Endpoint{personal.OpAddPasskey, "passkeys_add", post}, withData(addPasskey, personal.Service.AddPasskey, newPasskeyAttemptData)},
		{Endpoint{personal.OpConfirmPasskey, "passkeys_add_confirm", post},
			withData(confirmPasskey, personal.Service.ConfirmPasskey, newConfirmedPasskeyData)},
		{Endpoint{personal.OpPasskeys, "passkeys", get}, withData(caller, personal.Service.Passkeys, newPasskeysData)},
		{Endpoint{personal.OpRenamePasskey, "passkeys_rename", post}, withoutData(renamePasskey, personal.Service.RenamePasskey)},
		{Endpoint{personal.OpRemovePasskey, "passkeys_remove", post}, withoutData(removePasskey, personal.Service.RemovePasskey)},
	}
}

// withData returns the operation that makes its request with read, calls a method of the service,
// and responds with what show makes of the result.
func withData[R, T, D any](read func(*input) R, call func(personal.Service, context.Context, R) (T, error), show func(T) D) operation {
	return func(ctx context.Context, s personal.Service, in *input) (any, error) {
		r := read(in)
		if in.malformed != nil {
			return nil, in.malformed
		}
		result, err := call(s, ctx, r)
		return show(result), err
	}
}

// withoutData is withData for a method without a result.
func withoutData[R any](read func(*input) R, call func(personal.Service, context.Context, R) error) operation {
	return func(ctx context.Context, s personal.Service, in *input) (any, error) {
		r := read(in)
		if in.malformed != nil {
			return nil, in.malformed
		}
		return nil, call(s, ctx, r)
	}
}

// hideID is for operations whose user's id only pages of the host need.
func hideID[T any](T) any { return nil }

// route is one path with the operations of its methods.
type route struct {
	name       string // the path under the prefix, without slashes
	operations map[string]operation
	judged     bool   // by a [personal.Admission]: it takes the transient parameters
	allow      string // the methods, for the headers Allow and Access-Control-Allow-Methods
}

// newRoutes returns the routes by name.
func newRoutes() map[string]*route {
	judged := map[personal.OperationName]bool{}
	for _, o := range personal.Operations() {
		judged[o.Name] = o.Judged()
	}
	routes := map[string]*route{}
	describing := endpoint{Endpoint{Path: "openapi.json", Methods: []string{http.MethodGet}}, describe}
	for _, e := range append(endpoints(), describing) {
		r := routes[e.Path]
		if r == nil {
			r = &route{name: e.Path, operations: map[string]operation{}}
			routes[e.Path] = r
		}
		for _, method := range e.Methods {
			r.operations[method] = e.call
		}
		r.judged = r.judged || judged[e.Operation]
		r.allow = strings.Join(slices.Sorted(maps.Keys(r.operations)), ", ")
	}
	return routes
}

// path returns the route's canonical path under the prefix. A file has no final slash.
func (r *route) path() string {
	if strings.Contains(r.name, ".") {
		return "/" + r.name
	}
	return "/" + r.name + "/"
}

// input is a decoded request. Its methods read the parameters that the contract
// defines and collect field errors. The service reports these together with its own,
// after checks such as those for 429 and 401. A repeated scalar makes the whole
// request malformed.
type input struct {
	credentials personal.Credentials // zero unless the headers have a well-formed pair
	params      params
	body        []byte // of a request in JSON
	labels      *labels
	document    func() (*document, error)

	fieldErrors personal.FieldErrors
	malformed   error
}

// text returns a text parameter, or "" if it is unset or invalid.
func (in *input) text(name string) string {
	switch p := in.params[name]; p.Kind {
	case personal.InputUnset:
	case personal.InputText:
		return p.Text
	default:
		in.reject(name, p.Kind)
	}
	return ""
}

// object returns a JSON object that is sent as a text or, in a JSON body, as it is; "" if it is
// unset. Any other JSON value is returned as it is, too, for the service to judge.
func (in *input) object(name string) string {
	kind := in.params[name].Kind
	var members map[string]json.RawMessage
	var compact bytes.Buffer
	if kind == personal.InputUnset || kind == personal.InputText ||
		json.Unmarshal(in.body, &members) != nil || json.Compact(&compact, members[name]) != nil {
		return in.text(name)
	}
	return compact.String()
}

// boolean returns a boolean parameter in any form of the HTTP contract, section 1, or
// false if it is unset or invalid.
func (in *input) boolean(name string) bool {
	p := in.params[name]
	switch p.Kind {
	case personal.InputUnset:
		return false
	case personal.InputText, personal.InputBoolean:
		switch p.Text {
		case "true", "1", "on":
			return true
		case "false", "0", "off":
			return false
		}
	}
	in.reject(name, p.Kind)
	return false
}

func (in *input) reject(name string, kind personal.InputKind) {
	if kind == personal.InputRepeated {
		in.malformed = malformed(errors.New("a parameter that is not a list was repeated"))
		return
	}
	in.fieldErrors.Add(name, personal.FieldErrorInvalidType)
}

// invalid returns the field errors so far. It stands last in a request: Go calls the methods of an
// expression from left to right.
func (in *input) invalid() personal.FieldErrors { return in.fieldErrors }

// The following functions make the requests of operations.

func caller(in *input) personal.Credentials { return in.credentials }

func authorize(in *input) personal.AuthorizeRequest {
	return personal.AuthorizeRequest{Login: in.text("login"), Password: in.text("password"), Code: in.text("code"), FieldErrors: in.invalid()}
}

func register(in *input) personal.RegisterRequest {
	return personal.RegisterRequest{
		Login:           in.text("login"),
		Password:        in.text("password"),
		ConfirmPassword: in.text("confirm_password"),
		Email:           in.text("email"),
		Fields:          in.params.without("login", "password", "confirm_password", "email"),
		FieldErrors:     in.invalid(),
	}
}

func recoverPassword(in *input) personal.RecoverRequest {
	return personal.RecoverRequest{Login: in.text("login"), Email: in.text("email"), FieldErrors: in.invalid()}
}

func confirmRecovery(in *input) personal.RecoverConfirmRequest {
	return personal.RecoverConfirmRequest{
		Token:           in.text("token"),
		Password:        in.text("password"),
		ConfirmPassword: in.text("confirm_password"),
		FieldErrors:     in.invalid(),
	}
}

func updateProfile(in *input) personal.UpdateProfileRequest {
	return personal.UpdateProfileRequest{Credentials: in.credentials, Fields: in.params.without()}
}

func prove(in *input) personal.ProveRequest {
	return personal.ProveRequest{
		Credentials: in.credentials,
		Password:    in.text("password"),
		Code:        in.text("code"),
		Attempt:     in.text("attempt"),
		Credential:  in.object("credential"),
		FieldErrors: in.invalid(),
	}
}

func changePassword(in *input) personal.ChangePasswordRequest {
	return personal.ChangePasswordRequest{
		Credentials:       in.credentials,
		OldPassword:       in.text("old_password"),
		Password:          in.text("password"),
		ConfirmPassword:   in.text("confirm_password"),
		Code:              in.text("code"),
		Proof:             in.text("proof"),
		RemoveOtherWaysIn: in.boolean("remove_other_ways_in"),
		FieldErrors:       in.invalid(),
	}
}

func changeEmail(in *input) personal.ChangeEmailRequest {
	return personal.ChangeEmailRequest{
		Credentials: in.credentials,
		Password:    in.text("password"),
		Email:       in.text("email"),
		Code:        in.text("code"),
		Proof:       in.text("proof"),
		FieldErrors: in.invalid(),
	}
}

func confirmEmail(in *input) personal.ConfirmEmailRequest {
	return personal.ConfirmEmailRequest{Token: in.text("token"), Login: in.text("login"), FieldErrors: in.invalid()}
}

func logout(in *input) personal.LogoutRequest {
	return personal.LogoutRequest{Credentials: in.credentials, All: in.boolean("all"), FieldErrors: in.invalid()}
}

func revokeSession(in *input) personal.RevokeSessionRequest {
	return personal.RevokeSessionRequest{Credentials: in.credentials, ID: in.text("id"), FieldErrors: in.invalid()}
}

func resendVerification(in *input) personal.ResendVerificationRequest {
	return personal.ResendVerificationRequest{Login: in.text("login"), Email: in.text("email"), FieldErrors: in.invalid()}
}

func export(in *input) personal.ExportRequest {
	return personal.ExportRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func deleteAccount(in *input) personal.DeleteRequest {
	return personal.DeleteRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func undoDelete(in *input) personal.UndoDeleteRequest {
	return personal.UndoDeleteRequest{Token: in.text("token"), FieldErrors: in.invalid()}
}

func beginTwoFactor(in *input) personal.BeginTwoFactorRequest {
	return personal.BeginTwoFactorRequest{
		Credentials: in.credentials, Password: in.text("password"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func confirmTwoFactor(in *input) personal.ConfirmTwoFactorRequest {
	return personal.ConfirmTwoFactorRequest{Credentials: in.credentials, Code: in.text("code"), FieldErrors: in.invalid()}
}

func renewRecoveryCodes(in *input) personal.RenewRecoveryCodesRequest {
	return personal.RenewRecoveryCodesRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func removeOwnTwoFactor(in *input) personal.RemoveOwnTwoFactorRequest {
	return personal.RemoveOwnTwoFactorRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func beginPasskey(in *input) personal.BeginPasskeyRequest {
	return personal.BeginPasskeyRequest{
		Credentials: in.credentials, Purpose: personal.PasskeyPurpose(in.text("purpose")), FieldErrors: in.invalid(),
	}
}

func authorizePasskey(in *input) personal.AuthorizePasskeyRequest {
	return personal.AuthorizePasskeyRequest{
		Attempt: in.text("attempt"), Credential: in.object("credential"), Code: in.text("code"), FieldErrors: in.invalid(),
	}
}

func addPasskey(in *input) personal.AddPasskeyRequest {
	return personal.AddPasskeyRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"), FieldErrors: in.invalid(),
	}
}

func confirmPasskey(in *input) personal.ConfirmPasskeyRequest {
	return personal.ConfirmPasskeyRequest{
		Credentials: in.credentials, Attempt: in.text("attempt"), Credential: in.object("credential"), Name: in.text("name"),
		FieldErrors: in.invalid(),
	}
}

func renamePasskey(in *input) personal.RenamePasskeyRequest {
	return personal.RenamePasskeyRequest{Credentials: in.credentials, ID: in.text("id"), Name: in.text("name"), FieldErrors: in.invalid()}
}

func removePasskey(in *input) personal.RemovePasskeyRequest {
	return personal.RemovePasskeyRequest{
		Credentials: in.credentials, ID: in.text("id"), Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"),
		FieldErrors: in.invalid(),
	}
}

// The operations without a request.

func fields(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	return newFieldsData(list, in.labels), err
}

func features(ctx context.Context, s personal.Service, _ *input) (any, error) {
	f, err := s.Features(ctx)
	return newFeaturesData(f), err
}

func describe(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	if err != nil {
		return nil, err
	}
	d, err := in.document()
	if err != nil {
		return nil, err
	}
	return d.with(list, in.labels)
}
