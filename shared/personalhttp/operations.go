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
		{Endpoint{personal.OpAuthorize, "auth", post}, call(personal.Service.Authorize, newSignedInData)},
		{Endpoint{personal.OpRefresh, "auth_refresh", slices.Concat(get, post)}, call(personal.Service.Refresh, newCredentialsData)},
		{Endpoint{personal.OpRegister, "register", post}, call(personal.Service.Register, newRegisteredData)},
		{Endpoint{personal.OpRecover, "recover", post}, do(personal.Service.Recover)},
		{Endpoint{personal.OpRecoverConfirm, "recover_confirm", post}, call(personal.Service.RecoverConfirm, noData)},
		{Endpoint{personal.OpProfile, "profile", get}, call(personal.Service.Profile, newProfileData)},
		{Endpoint{personal.OpUpdateProfile, "profile", post}, call(personal.Service.UpdateProfile, newProfileData)},
		{Endpoint{personal.OpProve, "prove", post}, call(personal.Service.Prove, newProofData)},
		{Endpoint{personal.OpChangePassword, "password", post}, call(personal.Service.ChangePassword, newCredentialsData)},
		{Endpoint{personal.OpChangeEmail, "email", post}, do(personal.Service.ChangeEmail)},
		{Endpoint{personal.OpConfirmEmail, "email_confirm", post}, call(personal.Service.ConfirmEmail, noData)},
		{Endpoint{personal.OpLogout, "logout", post}, do(personal.Service.Logout)},
		{Endpoint{personal.OpSessions, "sessions", get}, call(personal.Service.Sessions, newSessionsData)},
		{Endpoint{personal.OpRevokeSession, "sessions_revoke", post}, do(personal.Service.RevokeSession)},
		{Endpoint{personal.OpRevokeOtherSessions, "sessions_revoke_others", post}, do(personal.Service.RevokeOtherSessions)},
		{Endpoint{personal.OpFields, "fields", get}, fields},
		{Endpoint{personal.OpFeatures, "features", get}, features},
		{Endpoint{personal.OpResendVerification, "email_resend", post}, do(personal.Service.ResendVerification)},
		{Endpoint{personal.OpExport, "export", post}, call(personal.Service.Export, newExportData)},
		{Endpoint{personal.OpDelete, "delete", post}, call(personal.Service.Delete, newDeletedData)},
		{Endpoint{personal.OpUndoDelete, "delete_undo", post}, call(personal.Service.UndoDelete, noData)},
		{Endpoint{personal.OpBeginTwoFactor, "two_factor", post}, call(personal.Service.BeginTwoFactor, newTwoFactorData)},
		{Endpoint{personal.OpConfirmTwoFactor, "two_factor_confirm", post}, call(personal.Service.ConfirmTwoFactor, newConfirmedTwoFactorData)},
		{Endpoint{personal.OpRenewRecoveryCodes, "two_factor_codes", post}, call(personal.Service.RenewRecoveryCodes, newRecoveryCodesData)},
		{Endpoint{personal.OpRemoveOwnTwoFactor, "two_factor_remove", post}, call(personal.Service.RemoveOwnTwoFactor, newCredentialsData)},
		{Endpoint{personal.OpBeginPasskey, "passkey_begin", post}, call(personal.Service.BeginPasskey, newPasskeyAttemptData)},
		{Endpoint{personal.OpAuthorizePasskey, "passkey_auth", post}, call(personal.Service.AuthorizePasskey, newSignedInData)},
		{Endpoint{personal.OpAddPasskey, "passkeys_add", post}, call(personal.Service.AddPasskey, newPasskeyAttemptData)},
		{Endpoint{personal.OpConfirmPasskey, "passkeys_add_confirm", post}, call(personal.Service.ConfirmPasskey, newConfirmedPasskeyData)},
		{Endpoint{personal.OpPasskeys, "passkeys", get}, call(personal.Service.Passkeys, newPasskeysData)},
		{Endpoint{personal.OpRenamePasskey, "passkeys_rename", post}, do(personal.Service.RenamePasskey)},
		{Endpoint{personal.OpRemovePasskey, "passkeys_remove", post}, do(personal.Service.RemovePasskey)},
		{Endpoint{personal.OpBeginMailedCode, "code_begin", post}, call(personal.Service.BeginMailedCode, newMailedCodeAttemptData)},
		{Endpoint{personal.OpAuthorizeMailedCode, "code_auth", post}, call(personal.Service.AuthorizeMailedCode, newSignedInData)},
	}
}

// call returns the operation that calls a method of the service with a request of the parameters,
// and responds with what show makes of the result.
func call[R, T, D any](method func(personal.Service, context.Context, R) (T, error), show func(T) D) operation {
	read := newReader[R]()
	return func(ctx context.Context, s personal.Service, in *input) (any, error) {
		r := read(in)
		if in.malformed != nil {
			return nil, in.malformed
		}
		result, err := method(s, ctx, r)
		return show(result), err
	}
}

// do is call for a method without a result.
func do[R any](method func(personal.Service, context.Context, R) error) operation {
	return call(func(s personal.Service, ctx context.Context, r R) (struct{}, error) {
		return struct{}{}, method(s, ctx, r)
	}, noData)
}

// noData is for operations whose result, if there is one, only pages of the host need.
func noData[T any](T) any { return nil }

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
