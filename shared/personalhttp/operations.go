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
		{Endpoint{personal.OpAuthorize, "auth", post}, authorize},
		{Endpoint{personal.OpRefresh, "auth_refresh", slices.Concat(get, post)}, refresh},
		{Endpoint{personal.OpRegister, "register", post}, register},
		{Endpoint{personal.OpRecover, "recover", post}, recoverPassword},
		{Endpoint{personal.OpRecoverConfirm, "recover_confirm", post}, confirmRecovery},
		{Endpoint{personal.OpProfile, "profile", get}, profile},
		{Endpoint{personal.OpUpdateProfile, "profile", post}, updateProfile},
		{Endpoint{personal.OpProve, "prove", post}, prove},
		{Endpoint{personal.OpChangePassword, "password", post}, changePassword},
		{Endpoint{personal.OpChangeEmail, "email", post}, changeEmail},
		{Endpoint{personal.OpConfirmEmail, "email_confirm", post}, confirmEmail},
		{Endpoint{personal.OpLogout, "logout", post}, logout},
		{Endpoint{personal.OpSessions, "sessions", get}, sessions},
		{Endpoint{personal.OpRevokeSession, "sessions_revoke", post}, revokeSession},
		{Endpoint{personal.OpRevokeOtherSessions, "sessions_revoke_others", post}, revokeOtherSessions},
		{Endpoint{personal.OpFields, "fields", get}, fields},
		{Endpoint{personal.OpFeatures, "features", get}, features},
		{Endpoint{personal.OpResendVerification, "email_resend", post}, resendVerification},
		{Endpoint{personal.OpExport, "export", post}, export},
		{Endpoint{personal.OpDelete, "delete", post}, deleteAccount},
		{Endpoint{personal.OpUndoDelete, "delete_undo", post}, undoDelete},
		{Endpoint{personal.OpBeginTwoFactor, "two_factor", post}, beginTwoFactor},
		{Endpoint{personal.OpConfirmTwoFactor, "two_factor_confirm", post}, confirmTwoFactor},
		{Endpoint{personal.OpRenewRecoveryCodes, "two_factor_codes", post}, renewRecoveryCodes},
		{Endpoint{personal.OpRemoveOwnTwoFactor, "two_factor_remove", post}, removeOwnTwoFactor},
		{Endpoint{personal.OpBeginPasskey, "passkey_begin", post}, beginPasskey},
		{Endpoint{personal.OpAuthorizePasskey, "passkey_auth", post}, authorizePasskey},
		{Endpoint{personal.OpAddPasskey, "passkeys_add", post}, addPasskey},
		{Endpoint{personal.OpConfirmPasskey, "passkeys_add_confirm", post}, confirmPasskey},
		{Endpoint{personal.OpPasskeys, "passkeys", get}, passkeys},
		{Endpoint{personal.OpRenamePasskey, "passkeys_rename", post}, renamePasskey},
		{Endpoint{personal.OpRemovePasskey, "passkeys_remove", post}, removePasskey},
	}
}

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
		judged[o.Name] = o.Judged
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

// done stores the field errors in a request, or returns the error of a malformed
// request. Call it after all parameters are read.
func (in *input) done(fieldErrors *personal.FieldErrors) error {
	*fieldErrors = in.fieldErrors
	return in.malformed
}

func authorize(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.AuthorizeRequest{Login: in.text("login"), Password: in.text("password"), Code: in.text("code")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	signedIn, err := s.Authorize(ctx, r)
	return newSignedInData(signedIn), err
}

func refresh(ctx context.Context, s personal.Service, in *input) (any, error) {
	c, err := s.Refresh(ctx, in.credentials)
	return newCredentialsData(c), err
}

func register(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RegisterRequest{
		Login:           in.text("login"),
		Password:        in.text("password"),
		ConfirmPassword: in.text("confirm_password"),
		Email:           in.text("email"),
		Fields:          in.params.without("login", "password", "confirm_password", "email"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	signedIn, err := s.Register(ctx, r)
	if err == nil && signedIn.Credentials.UserID == 0 {
		return unverified{}, nil
	}
	return newSignedInData(signedIn), err
}

func recoverPassword(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RecoverRequest{Login: in.text("login"), Email: in.text("email")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.Recover(ctx, r)
}

func confirmRecovery(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RecoverConfirmRequest{
		Token:           in.text("token"),
		Password:        in.text("password"),
		ConfirmPassword: in.text("confirm_password"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	_, err := s.RecoverConfirm(ctx, r)
	return nil, err
}

func profile(ctx context.Context, s personal.Service, in *input) (any, error) {
	p, err := s.Profile(ctx, in.credentials)
	return newProfileData(p), err
}

func updateProfile(ctx context.Context, s personal.Service, in *input) (any, error) {
	p, err := s.UpdateProfile(ctx, personal.UpdateProfileRequest{
		Credentials: in.credentials,
		Fields:      in.params.without(),
	})
	return newProfileData(p), err
}

func prove(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ProveRequest{
		Credentials: in.credentials,
		Password:    in.text("password"),
		Code:        in.text("code"),
		Attempt:     in.text("attempt"),
		Credential:  in.object("credential"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	p, err := s.Prove(ctx, r)
	return newProofData(p), err
}

func changePassword(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ChangePasswordRequest{
		Credentials:     in.credentials,
		OldPassword:     in.text("old_password"),
		Password:        in.text("password"),
		ConfirmPassword: in.text("confirm_password"),
		Code:            in.text("code"),
		Proof:           in.text("proof"),
		RemovePasskeys:  in.boolean("remove_passkeys"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	c, err := s.ChangePassword(ctx, r)
	return newCredentialsData(c), err
}

func changeEmail(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ChangeEmailRequest{
		Credentials: in.credentials,
		Password:    in.text("password"),
		Email:       in.text("email"),
		Code:        in.text("code"),
		Proof:       in.text("proof"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.ChangeEmail(ctx, r)
}

func confirmEmail(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ConfirmEmailRequest{Token: in.text("token"), Login: in.text("login")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	_, err := s.ConfirmEmail(ctx, r)
	return nil, err
}

func logout(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.LogoutRequest{Credentials: in.credentials, All: in.boolean("all")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.Logout(ctx, r)
}

func sessions(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Sessions(ctx, in.credentials)
	return newSessionsData(list), err
}

func revokeSession(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RevokeSessionRequest{Credentials: in.credentials, ID: in.text("id")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.RevokeSession(ctx, r)
}

func revokeOtherSessions(ctx context.Context, s personal.Service, in *input) (any, error) {
	return nil, s.RevokeOtherSessions(ctx, in.credentials)
}

func fields(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	return newFieldsData(list, in.labels), err
}

func features(ctx context.Context, s personal.Service, _ *input) (any, error) {
	f, err := s.Features(ctx)
	return newFeaturesData(f), err
}

func resendVerification(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ResendVerificationRequest{Login: in.text("login"), Email: in.text("email")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.ResendVerification(ctx, r)
}

func export(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ExportRequest{Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	e, err := s.Export(ctx, r)
	return newExportData(e), err
}

func deleteAccount(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.DeleteRequest{Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	eraseAt, err := s.Delete(ctx, r)
	return deletedData{EraseAt: formatTime(eraseAt)}, err
}

func undoDelete(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.UndoDeleteRequest{Token: in.text("token")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	_, err := s.UndoDelete(ctx, r)
	return nil, err
}

func beginTwoFactor(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.BeginTwoFactorRequest{Credentials: in.credentials, Password: in.text("password"), Proof: in.text("proof")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	secret, err := s.BeginTwoFactor(ctx, r)
	return twoFactorData(secret), err
}

func confirmTwoFactor(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ConfirmTwoFactorRequest{Credentials: in.credentials, Code: in.text("code")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	confirmed, err := s.ConfirmTwoFactor(ctx, r)
	return confirmedTwoFactorData{newCredentialsData(confirmed.Credentials), recoveryCodesData{confirmed.RecoveryCodes}}, err
}

func renewRecoveryCodes(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RenewRecoveryCodesRequest{
		Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	codes, err := s.RenewRecoveryCodes(ctx, r)
	return recoveryCodesData{codes}, err
}

func removeOwnTwoFactor(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RemoveOwnTwoFactorRequest{Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"),
		Proof: in.text("proof")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	c, err := s.RemoveOwnTwoFactor(ctx, r)
	return newCredentialsData(c), err
}

func beginPasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.BeginPasskeyRequest{Credentials: in.credentials, Purpose: personal.PasskeyPurpose(in.text("purpose"))}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	attempt, err := s.BeginPasskey(ctx, r)
	return newPasskeyAttemptData(attempt), err
}

func authorizePasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.AuthorizePasskeyRequest{Attempt: in.text("attempt"), Credential: in.object("credential"), Code: in.text("code")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	signedIn, err := s.AuthorizePasskey(ctx, r)
	return passkeySignedInData{newSignedInData(signedIn.SignedIn), newProofData(signedIn.Proof)}, err
}

func addPasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.AddPasskeyRequest{Credentials: in.credentials, Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	attempt, err := s.AddPasskey(ctx, r)
	return newPasskeyAttemptData(attempt), err
}

func confirmPasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.ConfirmPasskeyRequest{
		Credentials: in.credentials, Attempt: in.text("attempt"), Credential: in.object("credential"), Name: in.text("name"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	p, err := s.ConfirmPasskey(ctx, r)
	return confirmedPasskeyData{newPasskeyData(p)}, err
}

func passkeys(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Passkeys(ctx, in.credentials)
	return newPasskeysData(list), err
}

func renamePasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RenamePasskeyRequest{Credentials: in.credentials, ID: in.text("id"), Name: in.text("name")}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.RenamePasskey(ctx, r)
}

func removePasskey(ctx context.Context, s personal.Service, in *input) (any, error) {
	r := personal.RemovePasskeyRequest{
		Credentials: in.credentials, ID: in.text("id"), Password: in.text("password"), Code: in.text("code"), Proof: in.text("proof"),
	}
	if err := in.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.RemovePasskey(ctx, r)
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
