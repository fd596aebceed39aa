package pluginrpc

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file convert protobuf messages to the contract; those of
// convert_to_protobuf.go are their inverses. An absent message becomes a zero value.

func credentialsFromPB(c *personalv1.Credentials) personal.Credentials {
	return personal.Credentials{UserID: c.GetUserId(), UserHash: c.GetUserHash()}
}

// The responses of several operations have the same parts.
type (
	withCredentials interface {
		GetCredentials() *personalv1.Credentials
	}
	withProfile interface {
		GetProfile() *personalv1.UserProfile
	}
	withSessions interface{ GetSessions() []*personalv1.Session }
)

func issuedCredentialsFromPB(r withCredentials) personal.Credentials {
	return credentialsFromPB(r.GetCredentials())
}

func signedInFromPB(r interface {
	withCredentials
	withProfile
}) personal.SignedIn {
	return personal.SignedIn{Credentials: issuedCredentialsFromPB(r), Profile: profileFromPB(r)}
}

func profileFromPB(r withProfile) personal.Profile {
	p := r.GetProfile()
	profile := personal.Profile{
		Login: p.GetLogin(), Email: p.GetEmail(), EmailVerified: p.GetEmailVerified(), TwoFactor: p.GetTwoFactor(), Fields: convertAll(p.GetFields(), profileFieldFromPB),
		Missing: p.GetMissing(),
	}
	if p != nil {
		profile.Name, profile.FreshFor = p.Name, p.GetFreshFor().AsDuration()
	}
	return profile
}

func sessionsFromPB(r withSessions) []personal.Session {
	return convertAll(r.GetSessions(), sessionFromPB)
}

func fieldsFromPB(r *personalv1.FieldsResponse) []personal.Field {
	return convertAll(r.GetFields(), fieldFromPB)
}

func authorizeFromPB(r *personalv1.AuthorizeRequest) personal.AuthorizeRequest {
	return personal.AuthorizeRequest{
		Login:       r.GetLogin(),
		Password:    r.GetPassword(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func registerFromPB(r *personalv1.RegisterRequest) personal.RegisterRequest {
	return personal.RegisterRequest{
		Login:           r.GetLogin(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		Email:           r.GetEmail(),
		Fields:          inputsFromPB(r.GetFields()),
		FieldErrors:     convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func recoverFromPB(r *personalv1.RecoverRequest) personal.RecoverRequest {
	return personal.RecoverRequest{
		Login:       r.GetLogin(),
		Email:       r.GetEmail(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func recoverConfirmFromPB(r *personalv1.RecoverConfirmRequest) personal.RecoverConfirmRequest {
	return personal.RecoverConfirmRequest{
		Token:           r.GetToken(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		FieldErrors:     convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func updateProfileFromPB(r *personalv1.UpdateProfileRequest) personal.UpdateProfileRequest {
	return personal.UpdateProfileRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Fields:      inputsFromPB(r.GetFields()),
	}
}

func changePasswordFromPB(r *personalv1.ChangePasswordRequest) personal.ChangePasswordRequest {
	return personal.ChangePasswordRequest{
		Credentials:     credentialsFromPB(r.GetCredentials()),
		OldPassword:     r.GetOldPassword(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		Code:            r.GetCode(),
		FieldErrors:     convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func changeEmailFromPB(r *personalv1.ChangeEmailRequest) personal.ChangeEmailRequest {
	return personal.ChangeEmailRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Email:       r.GetEmail(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func confirmEmailFromPB(r *personalv1.ConfirmEmailRequest) personal.ConfirmEmailRequest {
	return personal.ConfirmEmailRequest{
		Token:       r.GetToken(),
		Login:       r.GetLogin(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func logoutFromPB(r *personalv1.LogoutRequest) personal.LogoutRequest {
	return personal.LogoutRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		All:         r.GetAll(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func revokeSessionFromPB(r *personalv1.RevokeSessionRequest) personal.RevokeSessionRequest {
	return personal.RevokeSessionRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		ID:          r.GetId(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func timeFromPB(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func valueFromPB(value *personalv1.Value) any {
	switch v := value.GetKind().(type) {
	case *personalv1.Value_Boolean:
		return v.Boolean
	case *personalv1.Value_Integer:
		return v.Integer
	case *personalv1.Value_Number:
		return v.Number
	case *personalv1.Value_Text:
		return v.Text
	case *personalv1.Value_List:
		return append([]string{}, v.List.GetItems()...) // an empty list is not null
	}
	return nil
}

func profileFieldFromPB(f *personalv1.ProfileField) personal.ProfileField {
	return personal.ProfileField{Name: f.GetName(), Value: valueFromPB(f.GetValue())}
}

func sessionFromPB(s *personalv1.Session) personal.Session {
	return personal.Session{
		ID:       s.GetId(),
		Created:  timeFromPB(s.GetCreated()),
		LastSeen: timeFromPB(s.GetLastSeen()),
		Expires:  timeFromPB(s.GetExpires()),
		Address:  s.GetAddress(),
		Agent:    s.GetAgent(),
		Current:  s.GetCurrent(),
	}
}

func findUsersFromPB(r *personalv1.FindUsersRequest) personal.FindUsersRequest {
	return personal.FindUsersRequest{
		Search: r.GetSearch(),
		State:  personal.UserState(r.GetState()),
		After:  r.GetAfter(),
		Limit:  int(r.GetLimit()),
	}
}

func userPageFromPB(p *personalv1.FindUsersResponse) personal.UserPage {
	return personal.UserPage{Users: convertAll(p.GetUsers(), userFromPB), Next: p.GetNext()}
}

func userFromPB(u *personalv1.User) personal.User {
	user := personal.User{
		ID:       u.GetId(),
		Login:    u.GetLogin(),
		Email:    u.GetEmail(),
		Disabled: u.GetDisabled(),
		Created:  timeFromPB(u.GetCreated()),
		Updated:  timeFromPB(u.GetUpdated()),
		LastSeen: timeFromPB(u.GetLastSeen()),

		EmailVerified:   u.GetEmailVerified(),
		TwoFactor:       u.GetTwoFactor(),
		UnverifiedEmail: u.GetUnverifiedEmail(),
		EraseAt:         timeFromPB(u.GetEraseAt()),
	}
	if u != nil {
		user.Name = u.Name
	}
	return user
}

func userRecordFromPB(r *personalv1.UserResponse) personal.UserRecord {
	return personal.UserRecord{User: userFromPB(r.GetUser()), Fields: convertAll(r.GetFields(), profileFieldFromPB)}
}

func updateUserFromPB(r *personalv1.UpdateUserRequest) personal.UpdateUserRequest {
	return personal.UpdateUserRequest{UserID: r.GetUserId(), Fields: inputsFromPB(r.GetFields())}
}

func setEmailFromPB(r *personalv1.SetEmailRequest) personal.SetEmailRequest {
	return personal.SetEmailRequest{UserID: r.GetUserId(), Email: r.GetEmail()}
}

func auditEntriesFromPB(r *personalv1.AuditEntriesRequest) personal.AuditEntriesRequest {
	return personal.AuditEntriesRequest{
		Type:   personal.EventType(r.GetType()),
		UserID: r.GetUserId(),
		Text:   r.GetText(),
		Since:  timeFromPB(r.GetSince()),
		Until:  timeFromPB(r.GetUntil()),
		After:  r.GetAfter(),
		Limit:  int(r.GetLimit()),
	}
}

func auditPageFromPB(p *personalv1.AuditEntriesResponse) personal.AuditPage {
	return personal.AuditPage{Entries: convertAll(p.GetEntries(), auditEntryFromPB), Next: p.GetNext()}
}

func auditEntryFromPB(e *personalv1.AuditEntry) personal.AuditEntry {
	return personal.AuditEntry{Cursor: e.GetCursor(), Event: eventFromPB(e)}
}

// eventFromPB converts a published event, or the event of an audit entry.
func eventFromPB(e interface {
	GetId() string
	GetType() string
	GetTime() *timestamppb.Timestamp
	GetUserId() int64
	GetAddress() string
	GetRequestId() string
	GetActor() string
	GetActorName() string
}) personal.Event {
	return personal.Event{
		ID:        e.GetId(),
		Type:      personal.EventType(e.GetType()),
		Time:      timeFromPB(e.GetTime()),
		UserID:    e.GetUserId(),
		Address:   e.GetAddress(),
		RequestID: e.GetRequestId(),
		Actor:     personal.Actor(e.GetActor()),
		ActorName: e.GetActorName(),
	}
}

func mailFromPB(m *personalv1.SendMailRequest) personal.Mail {
	return personal.Mail{ID: m.GetId(), To: m.GetTo(), Subject: m.GetSubject(), Text: m.GetText(), HTML: m.GetHtml()}
}

func schemaFromPB(s *personalv1.UserFieldsResponse) personal.Schema {
	return personal.Schema{Revision: s.GetRevision(), Fields: convertAll(s.GetFields(), fieldFromPB)}
}

func fieldFromPB(f *personalv1.Field) personal.Field {
	return personal.Field{
		Name:      f.GetName(),
		Type:      personal.FieldType(f.GetType()),
		Label:     f.GetLabel(),
		Required:  f.GetRequired(),
		Default:   inputFromPB(f.GetDefault()),
		MaxLength: int(f.GetMaxLength()),
		Min:       f.Min,
		Max:       f.Max,
		Pattern:   f.GetPattern(),
		Options:   convertAll(f.GetOptions(), optionFromPB),
		Hidden:    f.GetHidden(),
		ReadOnly:  f.GetReadOnly(),
		Order:     int(f.GetOrder()),
		Group:     f.GetGroup(),
	}
}

func optionFromPB(o *personalv1.Option) personal.Option {
	return personal.Option{Value: o.GetValue(), Label: o.GetLabel()}
}

// inputFromPB returns InputOther, which is valid for no field, for an unknown kind.
func inputFromPB(in *personalv1.Input) personal.Input {
	kind := personal.InputOther
	if i := slices.Index(inputKinds[:], in.GetKind()); i >= 0 {
		kind = personal.InputKind(i)
	}
	return personal.Input{Kind: kind, Text: in.GetText(), List: in.GetList()}
}

func inputsFromPB(from map[string]*personalv1.Input) map[string]personal.Input {
	if from == nil {
		return nil
	}
	to := make(map[string]personal.Input, len(from))
	for name, in := range from {
		to[name] = inputFromPB(in)
	}
	return to
}

func configurationFromPB(c *personalv1.ConfigureRequest) Configuration {
	return Configuration{
		DatabaseURL: c.GetDatabaseUrl(), Settings: c.GetSettings(), LenientSettings: c.GetLenientSettings(), Settles: c.GetSettles(),
		SecretKeys: c.GetSecretKeys(),
	}
}

func reportFromPB(r *personalv1.PreflightResponse) Report {
	return Report{
		Version:          r.GetVersion(),
		SchemaFound:      int(r.GetSchemaFound()),
		SchemaMinimum:    int(r.GetSchemaMinimum()),
		SchemaTarget:     int(r.GetSchemaTarget()),
		SchemaCompatible: int(r.GetSchemaCompatible()),
		Checks:           convertAll(r.GetChecks(), checkFromPB),
	}
}

func checkFromPB(c *personalv1.Check) Check {
	return Check{Name: c.GetName(), Passed: c.GetPassed(), Warning: c.GetWarning(), Reason: c.GetReason()}
}
