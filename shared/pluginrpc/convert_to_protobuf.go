package pluginrpc

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file convert the contract to protobuf messages; those of
// convert_from_protobuf.go are their inverses.

// convertTexts changes the type of a map's texts.
func convertTexts[To, From ~string](from map[string]From) map[string]To {
	if from == nil {
		return nil
	}
	to := make(map[string]To, len(from))
	for name, text := range from {
		to[name] = To(text)
	}
	return to
}

// convertAll converts the items of a list; nil stays nil.
func convertAll[From, To any](from []From, convert func(From) To) []To {
	if from == nil {
		return nil
	}
	to := make([]To, len(from))
	for i, item := range from {
		to[i] = convert(item)
	}
	return to
}

func authorizeToPB(r personal.AuthorizeRequest) *personalv1.AuthorizeRequest {
	return &personalv1.AuthorizeRequest{
		Login:    r.Login,
		Password: r.Password,
		Code:     r.Code,
		Faults:   convertTexts[string](r.FieldErrors),
	}
}

func registerToPB(r personal.RegisterRequest) *personalv1.RegisterRequest {
	return &personalv1.RegisterRequest{
		Login:           r.Login,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Email:           r.Email,
		Fields:          inputsToPB(r.Fields),
		Faults:          convertTexts[string](r.FieldErrors),
	}
}

func recoverToPB(r personal.RecoverRequest) *personalv1.RecoverRequest {
	return &personalv1.RecoverRequest{
		Login:  r.Login,
		Email:  r.Email,
		Faults: convertTexts[string](r.FieldErrors),
	}
}

func recoverConfirmToPB(r personal.RecoverConfirmRequest) *personalv1.RecoverConfirmRequest {
	return &personalv1.RecoverConfirmRequest{
		Token:           r.Token,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Faults:          convertTexts[string](r.FieldErrors),
	}
}

func updateProfileToPB(r personal.UpdateProfileRequest) *personalv1.UpdateProfileRequest {
	return &personalv1.UpdateProfileRequest{
		Credentials: credentialsToPB(r.Credentials),
		Fields:      inputsToPB(r.Fields),
	}
}

func changePasswordToPB(r personal.ChangePasswordRequest) *personalv1.ChangePasswordRequest {
	return &personalv1.ChangePasswordRequest{
		Credentials:     credentialsToPB(r.Credentials),
		OldPassword:     r.OldPassword,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Code:            r.Code,
		Faults:          convertTexts[string](r.FieldErrors),
	}
}

func changeEmailToPB(r personal.ChangeEmailRequest) *personalv1.ChangeEmailRequest {
	return &personalv1.ChangeEmailRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Email:       r.Email,
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func confirmEmailToPB(r personal.ConfirmEmailRequest) *personalv1.ConfirmEmailRequest {
	return &personalv1.ConfirmEmailRequest{
		Token:  r.Token,
		Login:  r.Login,
		Faults: convertTexts[string](r.FieldErrors),
	}
}

func logoutToPB(r personal.LogoutRequest) *personalv1.LogoutRequest {
	return &personalv1.LogoutRequest{
		Credentials: credentialsToPB(r.Credentials),
		All:         r.All,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func revokeSessionToPB(r personal.RevokeSessionRequest) *personalv1.RevokeSessionRequest {
	return &personalv1.RevokeSessionRequest{
		Credentials: credentialsToPB(r.Credentials),
		Id:          r.ID,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

// timeToPB returns nil for the zero time.
func timeToPB(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func credentialsToPB(c personal.Credentials) *personalv1.Credentials {
	return &personalv1.Credentials{UserId: c.UserID, UserHash: c.UserHash}
}

// valueToPB returns an error for a type that no user field has.
func valueToPB(value any) (*personalv1.Value, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case bool:
		return &personalv1.Value{Kind: &personalv1.Value_Boolean{Boolean: v}}, nil
	case int64:
		return &personalv1.Value{Kind: &personalv1.Value_Integer{Integer: v}}, nil
	case float64:
		return &personalv1.Value{Kind: &personalv1.Value_Number{Number: v}}, nil
	case string:
		return &personalv1.Value{Kind: &personalv1.Value_Text{Text: v}}, nil
	case []string:
		list := &personalv1.TextList{Items: v}
		return &personalv1.Value{Kind: &personalv1.Value_List{List: list}}, nil
	}
	return nil, fmt.Errorf("no user field has values of type %T", value)
}

func profileToPB(p personal.Profile) (*personalv1.UserProfile, error) {
	fields, err := profileFieldsToPB(p.Fields)
	if err != nil {
		return nil, err
	}
	profile := &personalv1.UserProfile{
		Login: p.Login, Name: p.Name, Email: p.Email, EmailVerified: p.EmailVerified, TwoFactor: p.TwoFactor, Fields: fields, Missing: p.Missing,
	}
	if p.FreshFor > 0 {
		profile.FreshFor = durationpb.New(p.FreshFor)
	}
	return profile, nil
}

func profileFieldsToPB(from []personal.ProfileField) ([]*personalv1.ProfileField, error) {
	fields := make([]*personalv1.ProfileField, len(from))
	for i, f := range from {
		value, err := valueToPB(f.Value)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		fields[i] = &personalv1.ProfileField{Name: f.Name, Value: value}
	}
	return fields, nil
}

func sessionToPB(s personal.Session) *personalv1.Session {
	return &personalv1.Session{
		Id:       s.ID,
		Created:  timeToPB(s.Created),
		LastSeen: timeToPB(s.LastSeen),
		Expires:  timeToPB(s.Expires),
		Address:  s.Address,
		Agent:    s.Agent,
		Current:  s.Current,
	}
}

func findUsersToPB(r personal.FindUsersRequest) *personalv1.FindUsersRequest {
	return &personalv1.FindUsersRequest{Search: r.Search, State: string(r.State), After: r.After, Limit: int64(r.Limit)}
}

func userPageToPB(p personal.UserPage) *personalv1.FindUsersResponse {
	return &personalv1.FindUsersResponse{Users: convertAll(p.Users, userToPB), Next: p.Next}
}

func userToPB(u personal.User) *personalv1.User {
	return &personalv1.User{
		Id:       u.ID,
		Login:    u.Login,
		Name:     u.Name,
		Email:    u.Email,
		Disabled: u.Disabled,
		Created:  timeToPB(u.Created),
		Updated:  timeToPB(u.Updated),
		LastSeen: timeToPB(u.LastSeen),

		EmailVerified:   u.EmailVerified,
		TwoFactor:       u.TwoFactor,
		UnverifiedEmail: u.UnverifiedEmail,
		EraseAt:         timeToPB(u.EraseAt),
	}
}

func userRecordToPB(r personal.UserRecord) (*personalv1.UserResponse, error) {
	fields, err := profileFieldsToPB(r.Fields)
	if err != nil {
		return nil, err
	}
	return &personalv1.UserResponse{User: userToPB(r.User), Fields: fields}, nil
}

func updateUserToPB(r personal.UpdateUserRequest) *personalv1.UpdateUserRequest {
	return &personalv1.UpdateUserRequest{UserId: r.UserID, Fields: inputsToPB(r.Fields)}
}

func setEmailToPB(r personal.SetEmailRequest) *personalv1.SetEmailRequest {
	return &personalv1.SetEmailRequest{UserId: r.UserID, Email: r.Email}
}

func auditEntriesToPB(r personal.AuditEntriesRequest) *personalv1.AuditEntriesRequest {
	return &personalv1.AuditEntriesRequest{
		Type:   string(r.Type),
		UserId: r.UserID,
		Text:   r.Text,
		Since:  timeToPB(r.Since),
		Until:  timeToPB(r.Until),
		After:  r.After,
		Limit:  int64(r.Limit),
	}
}

func auditPageToPB(p personal.AuditPage) *personalv1.AuditEntriesResponse {
	return &personalv1.AuditEntriesResponse{Entries: convertAll(p.Entries, auditEntryToPB), Next: p.Next}
}

func auditEntryToPB(e personal.AuditEntry) *personalv1.AuditEntry {
	return &personalv1.AuditEntry{
		Cursor:    e.Cursor,
		Id:        e.ID,
		Type:      string(e.Type),
		Time:      timeToPB(e.Time),
		UserId:    e.UserID,
		Address:   e.Address,
		RequestId: e.RequestID,
		Actor:     string(e.Actor),
		ActorName: e.ActorName,
	}
}

func mailToPB(m personal.Mail) *personalv1.SendMailRequest {
	return &personalv1.SendMailRequest{Id: m.ID, To: m.To, Subject: m.Subject, Text: m.Text, Html: m.HTML}
}

func eventToPB(e personal.Event) *personalv1.PublishEventRequest {
	return &personalv1.PublishEventRequest{
		Id:        e.ID,
		Type:      string(e.Type),
		Time:      timeToPB(e.Time),
		UserId:    e.UserID,
		Address:   e.Address,
		RequestId: e.RequestID,
		Actor:     string(e.Actor),
		ActorName: e.ActorName,
	}
}

func schemaToPB(s personal.Schema) *personalv1.UserFieldsResponse {
	return &personalv1.UserFieldsResponse{Revision: s.Revision, Fields: convertAll(s.Fields, fieldToPB)}
}

func fieldToPB(f personal.Field) *personalv1.Field {
	field := &personalv1.Field{
		Name:      f.Name,
		Type:      string(f.Type),
		Label:     f.Label,
		Required:  f.Required,
		MaxLength: int64(f.MaxLength),
		Min:       f.Min,
		Max:       f.Max,
		Pattern:   f.Pattern,
		Options:   convertAll(f.Options, optionToPB),
		Hidden:    f.Hidden,
		ReadOnly:  f.ReadOnly,
		Order:     int64(f.Order),
		Group:     f.Group,
	}
	if !f.Default.IsZero() {
		field.Default = inputToPB(f.Default)
	}
	return field
}

func optionToPB(o personal.Option) *personalv1.Option {
	return &personalv1.Option{Value: o.Value, Label: o.Label}
}

// inputKinds are the protobuf values of personal.InputKind.
var inputKinds = [...]personalv1.InputKind{
	personal.InputUnset:    personalv1.InputKind_INPUT_KIND_UNSPECIFIED,
	personal.InputText:     personalv1.InputKind_INPUT_KIND_TEXT,
	personal.InputNumber:   personalv1.InputKind_INPUT_KIND_NUMBER,
	personal.InputBoolean:  personalv1.InputKind_INPUT_KIND_BOOLEAN,
	personal.InputList:     personalv1.InputKind_INPUT_KIND_LIST,
	personal.InputRepeated: personalv1.InputKind_INPUT_KIND_REPEATED,
	personal.InputOther:    personalv1.InputKind_INPUT_KIND_OTHER,
}

// inputToPB returns a message even for an unset input: as a parameter it clears the
// field.
func inputToPB(in personal.Input) *personalv1.Input {
	kind := personalv1.InputKind_INPUT_KIND_OTHER
	if 0 <= in.Kind && int(in.Kind) < len(inputKinds) {
		kind = inputKinds[in.Kind]
	}
	return &personalv1.Input{Kind: kind, Text: in.Text, List: in.List}
}

func inputsToPB(from map[string]personal.Input) map[string]*personalv1.Input {
	to := make(map[string]*personalv1.Input, len(from))
	for name, in := range from {
		to[name] = inputToPB(in)
	}
	return to
}

func configureToPB(c Configuration, hostID uint32) *personalv1.ConfigureRequest {
	return &personalv1.ConfigureRequest{
		DatabaseUrl: c.DatabaseURL, Settings: c.Settings, HostBrokerId: hostID, LenientSettings: c.LenientSettings, Settles: c.Settles,
		SecretKeys: c.SecretKeys,
	}
}

func reportToPB(r Report) *personalv1.PreflightResponse {
	return &personalv1.PreflightResponse{
		Version:          r.Version,
		SchemaFound:      int64(r.SchemaFound),
		SchemaMinimum:    int64(r.SchemaMinimum),
		SchemaTarget:     int64(r.SchemaTarget),
		SchemaCompatible: int64(r.SchemaCompatible),
		Checks:           convertAll(r.Checks, checkToPB),
	}
}

func checkToPB(c Check) *personalv1.Check {
	return &personalv1.Check{Name: c.Name, Passed: c.Passed, Warning: c.Warning, Reason: c.Reason}
}
