//go:build goverter

package rpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// convert stands for the generated value while goverter reads this package.
var convert converter

// converter lists the conversions between the contract and protobuf messages. From it,
// make generate writes convert_generated.go, and fails if a field of a result has no
// counterpart. An absent message becomes a zero value. convert_special.go has the
// conversions that goverter cannot derive.
//
// goverter:converter
// goverter:name converters
// goverter:output:file ./convert_generated.go
// goverter:output:raw var convert converters
// goverter:struct:comment converters is the implementation of converter in convert.go.
// goverter:matchIgnoreCase
// goverter:ignoreUnexported
// goverter:skipCopySameType
// goverter:useZeroValueOnPointerInconsistency
// goverter:extend .*(To|From)PB
type converter interface {
	fieldErrorsToPB(personal.FieldErrors) map[string]string
	fieldErrorsFromPB(map[string]string) personal.FieldErrors
	inputToPB(personal.Input) *personalv1.Input
	inputsToPB(map[string]personal.Input) map[string]*personalv1.Input
	inputsFromPB(map[string]*personalv1.Input) map[string]personal.Input
	credentialsToPB(personal.Credentials) *personalv1.Credentials
	credentialsFromPB(*personalv1.Credentials) personal.Credentials
	profileToPB(personal.Profile) (*personalv1.Profile, error)
	profileFromPB(*personalv1.Profile) personal.Profile
	sessionsToPB([]personal.Session) []*personalv1.Session
	sessionsFromPB([]*personalv1.Session) []personal.Session
	fieldsToPB([]personal.Field) []*personalv1.Field
	fieldsFromPB([]*personalv1.Field) []personal.Field

	// goverter:map Default | defaultInput
	fieldToPB(personal.Field) *personalv1.Field

	// The service.

	authorizeToPB(personal.AuthorizeRequest) *personalv1.AuthorizeRequest
	authorizeFromPB(*personalv1.AuthorizeRequest) personal.AuthorizeRequest
	authorizedToPB(personal.SignedIn) (*personalv1.AuthorizeResponse, error)
	authorizedFromPB(*personalv1.AuthorizeResponse) personal.SignedIn

	registerToPB(personal.RegisterRequest) *personalv1.RegisterRequest
	registerFromPB(*personalv1.RegisterRequest) personal.RegisterRequest
	// goverter:ignore Unverified
	registeredToPB(personal.SignedIn) (*personalv1.RegisterResponse, error)
	registeredFromPB(*personalv1.RegisterResponse) personal.SignedIn

	recoverToPB(personal.RecoverRequest) *personalv1.RecoverRequest
	recoverFromPB(*personalv1.RecoverRequest) personal.RecoverRequest

	recoverConfirmToPB(personal.RecoverConfirmRequest) *personalv1.RecoverConfirmRequest
	recoverConfirmFromPB(*personalv1.RecoverConfirmRequest) personal.RecoverConfirmRequest
	recoveredToPB(personal.Recovered) *personalv1.RecoverConfirmResponse
	recoveredFromPB(*personalv1.RecoverConfirmResponse) personal.Recovered

	updateProfileToPB(personal.UpdateProfileRequest) *personalv1.UpdateProfileRequest
	updateProfileFromPB(*personalv1.UpdateProfileRequest) personal.UpdateProfileRequest

	proveToPB(personal.ProveRequest) *personalv1.ProveRequest
	proveFromPB(*personalv1.ProveRequest) personal.ProveRequest
	provedToPB(personal.Proof) *personalv1.ProveResponse
	provedFromPB(*personalv1.ProveResponse) personal.Proof

	changePasswordToPB(personal.ChangePasswordRequest) *personalv1.ChangePasswordRequest
	changePasswordFromPB(*personalv1.ChangePasswordRequest) personal.ChangePasswordRequest

	changeEmailToPB(personal.ChangeEmailRequest) *personalv1.ChangeEmailRequest
	changeEmailFromPB(*personalv1.ChangeEmailRequest) personal.ChangeEmailRequest

	confirmEmailToPB(personal.ConfirmEmailRequest) *personalv1.ConfirmEmailRequest
	confirmEmailFromPB(*personalv1.ConfirmEmailRequest) personal.ConfirmEmailRequest

	logoutToPB(personal.LogoutRequest) *personalv1.LogoutRequest
	logoutFromPB(*personalv1.LogoutRequest) personal.LogoutRequest

	revokeSessionToPB(personal.RevokeSessionRequest) *personalv1.RevokeSessionRequest
	revokeSessionFromPB(*personalv1.RevokeSessionRequest) personal.RevokeSessionRequest

	resendVerificationToPB(personal.ResendVerificationRequest) *personalv1.ResendVerificationRequest
	resendVerificationFromPB(*personalv1.ResendVerificationRequest) personal.ResendVerificationRequest

	featuresToPB(personal.Features) *personalv1.FeaturesResponse
	featuresFromPB(*personalv1.FeaturesResponse) personal.Features

	exportToPB(personal.ExportRequest) *personalv1.ExportRequest
	exportFromPB(*personalv1.ExportRequest) personal.ExportRequest
	exportedToPB(personal.Export) (*personalv1.ExportResponse, error)
	exportedFromPB(*personalv1.ExportResponse) personal.Export

	deleteToPB(personal.DeleteRequest) *personalv1.DeleteRequest
	deleteFromPB(*personalv1.DeleteRequest) personal.DeleteRequest

	undoDeleteToPB(personal.UndoDeleteRequest) *personalv1.UndoDeleteRequest
	undoDeleteFromPB(*personalv1.UndoDeleteRequest) personal.UndoDeleteRequest

	beginTwoFactorToPB(personal.BeginTwoFactorRequest) *personalv1.BeginTwoFactorRequest
	beginTwoFactorFromPB(*personalv1.BeginTwoFactorRequest) personal.BeginTwoFactorRequest
	startedTwoFactorToPB(personal.TwoFactorSecret) *personalv1.BeginTwoFactorResponse
	startedTwoFactorFromPB(*personalv1.BeginTwoFactorResponse) personal.TwoFactorSecret

	confirmTwoFactorToPB(personal.ConfirmTwoFactorRequest) *personalv1.ConfirmTwoFactorRequest
	confirmTwoFactorFromPB(*personalv1.ConfirmTwoFactorRequest) personal.ConfirmTwoFactorRequest
	confirmedTwoFactorToPB(personal.ConfirmedTwoFactor) *personalv1.ConfirmTwoFactorResponse
	confirmedTwoFactorFromPB(*personalv1.ConfirmTwoFactorResponse) personal.ConfirmedTwoFactor

	renewRecoveryCodesToPB(personal.RenewRecoveryCodesRequest) *personalv1.RenewRecoveryCodesRequest
	renewRecoveryCodesFromPB(*personalv1.RenewRecoveryCodesRequest) personal.RenewRecoveryCodesRequest

	removeOwnTwoFactorToPB(personal.RemoveOwnTwoFactorRequest) *personalv1.RemoveOwnTwoFactorRequest
	removeOwnTwoFactorFromPB(*personalv1.RemoveOwnTwoFactorRequest) personal.RemoveOwnTwoFactorRequest

	beginPasskeyToPB(personal.BeginPasskeyRequest) *personalv1.BeginPasskeyRequest
	beginPasskeyFromPB(*personalv1.BeginPasskeyRequest) personal.BeginPasskeyRequest
	startedPasskeyToPB(personal.PasskeyCeremony) *personalv1.BeginPasskeyResponse
	startedPasskeyFromPB(*personalv1.BeginPasskeyResponse) personal.PasskeyCeremony

	authorizePasskeyToPB(personal.AuthorizePasskeyRequest) *personalv1.AuthorizePasskeyRequest
	authorizePasskeyFromPB(*personalv1.AuthorizePasskeyRequest) personal.AuthorizePasskeyRequest
	authorizedPasskeyToPB(personal.SignedIn) (*personalv1.AuthorizePasskeyResponse, error)
	authorizedPasskeyFromPB(*personalv1.AuthorizePasskeyResponse) personal.SignedIn

	beginMailedCodeToPB(personal.BeginMailedCodeRequest) *personalv1.BeginMailedCodeRequest
	beginMailedCodeFromPB(*personalv1.BeginMailedCodeRequest) personal.BeginMailedCodeRequest
	startedMailedCodeToPB(personal.MailedCodeAttempt) *personalv1.BeginMailedCodeResponse
	startedMailedCodeFromPB(*personalv1.BeginMailedCodeResponse) personal.MailedCodeAttempt

	authorizeMailedCodeToPB(personal.AuthorizeMailedCodeRequest) *personalv1.AuthorizeMailedCodeRequest
	authorizeMailedCodeFromPB(*personalv1.AuthorizeMailedCodeRequest) personal.AuthorizeMailedCodeRequest
	authorizedMailedCodeToPB(personal.SignedIn) (*personalv1.AuthorizeMailedCodeResponse, error)
	authorizedMailedCodeFromPB(*personalv1.AuthorizeMailedCodeResponse) personal.SignedIn

	addPasskeyToPB(personal.AddPasskeyRequest) *personalv1.AddPasskeyRequest
	addPasskeyFromPB(*personalv1.AddPasskeyRequest) personal.AddPasskeyRequest
	addedPasskeyToPB(personal.PasskeyCeremony) *personalv1.AddPasskeyResponse
	addedPasskeyFromPB(*personalv1.AddPasskeyResponse) personal.PasskeyCeremony

	confirmPasskeyToPB(personal.ConfirmPasskeyRequest) *personalv1.ConfirmPasskeyRequest
	confirmPasskeyFromPB(*personalv1.ConfirmPasskeyRequest) personal.ConfirmPasskeyRequest
	passkeyToPB(personal.Passkey) *personalv1.Passkey
	passkeyFromPB(*personalv1.Passkey) personal.Passkey
	passkeysToPB([]personal.Passkey) []*personalv1.Passkey
	passkeysFromPB([]*personalv1.Passkey) []personal.Passkey

	renamePasskeyToPB(personal.RenamePasskeyRequest) *personalv1.RenamePasskeyRequest
	renamePasskeyFromPB(*personalv1.RenamePasskeyRequest) personal.RenamePasskeyRequest

	removePasskeyToPB(personal.RemovePasskeyRequest) *personalv1.RemovePasskeyRequest
	removePasskeyFromPB(*personalv1.RemovePasskeyRequest) personal.RemovePasskeyRequest

	// The administration.

	findUsersToPB(personal.FindUsersRequest) *personalv1.FindUsersRequest
	findUsersFromPB(*personalv1.FindUsersRequest) personal.FindUsersRequest
	userPageToPB(personal.UserPage) (*personalv1.FindUsersResponse, error)
	userPageFromPB(*personalv1.FindUsersResponse) personal.UserPage

	usersToPB(map[int64]personal.User) (map[int64]*personalv1.User, error)
	usersFromPB(map[int64]*personalv1.User) map[int64]personal.User

	userRecordToPB(personal.UserRecord) (*personalv1.UserResponse, error)
	userRecordFromPB(*personalv1.UserResponse) personal.UserRecord

	updateUserToPB(personal.UpdateUserRequest) *personalv1.UpdateUserRequest
	updateUserFromPB(*personalv1.UpdateUserRequest) personal.UpdateUserRequest

	setEmailToPB(personal.SetEmailRequest) *personalv1.SetEmailRequest
	setEmailFromPB(*personalv1.SetEmailRequest) personal.SetEmailRequest

	revokeUserSessionToPB(personal.RevokeUserSessionRequest) *personalv1.RevokeUserSessionRequest
	revokeUserSessionFromPB(*personalv1.RevokeUserSessionRequest) personal.RevokeUserSessionRequest

	auditEntriesToPB(personal.AuditEntriesRequest) *personalv1.AuditEntriesRequest
	auditEntriesFromPB(*personalv1.AuditEntriesRequest) personal.AuditEntriesRequest
	auditPageToPB(personal.AuditPage) *personalv1.AuditEntriesResponse
	auditPageFromPB(*personalv1.AuditEntriesResponse) personal.AuditPage

	removeTwoFactorToPB(personal.RemoveTwoFactorRequest) *personalv1.RemoveTwoFactorRequest
	removeTwoFactorFromPB(*personalv1.RemoveTwoFactorRequest) personal.RemoveTwoFactorRequest

	resetAccessToPB(personal.ResetAccessRequest) *personalv1.ResetAccessRequest
	resetAccessFromPB(*personalv1.ResetAccessRequest) personal.ResetAccessRequest

	createUserToPB(personal.CreateUserRequest) *personalv1.CreateUserRequest
	createUserFromPB(*personalv1.CreateUserRequest) personal.CreateUserRequest

	explainToPB(personal.ExplainRequest) *personalv1.ExplainRequest
	explainFromPB(*personalv1.ExplainRequest) personal.ExplainRequest
	explanationToPB(personal.Explanation) (*personalv1.ExplainResponse, error)
	explanationFromPB(*personalv1.ExplainResponse) personal.Explanation

	liftLimitsToPB(personal.LiftLimitsRequest) *personalv1.LiftLimitsRequest
	liftLimitsFromPB(*personalv1.LiftLimitsRequest) personal.LiftLimitsRequest

	fieldsPreviewToPB(personal.FieldsPreview) *personalv1.PreviewFieldsResponse
	fieldsPreviewFromPB(*personalv1.PreviewFieldsResponse) personal.FieldsPreview

	fieldsFillToPB(personal.FieldsFill) *personalv1.FieldsFillResponse
	fieldsFillFromPB(*personalv1.FieldsFillResponse) personal.FieldsFill

	signInToPB(personal.SignInRequest) *personalv1.SignInRequest
	signInFromPB(*personalv1.SignInRequest) personal.SignInRequest
	openedToPB(personal.SignedIn) (*personalv1.SignInResponse, error)
	openedFromPB(*personalv1.SignInResponse) personal.SignedIn

	identityToPB(personal.Identity) *personalv1.Identity
	identityFromPB(*personalv1.Identity) personal.Identity
	linkIdentityToPB(personal.LinkIdentityRequest) *personalv1.LinkIdentityRequest
	linkIdentityFromPB(*personalv1.LinkIdentityRequest) personal.LinkIdentityRequest
	unlinkIdentityToPB(personal.UnlinkIdentityRequest) *personalv1.UnlinkIdentityRequest
	unlinkIdentityFromPB(*personalv1.UnlinkIdentityRequest) personal.UnlinkIdentityRequest
	registerIdentityToPB(personal.RegisterIdentityRequest) *personalv1.RegisterIdentityRequest
	registerIdentityFromPB(*personalv1.RegisterIdentityRequest) personal.RegisterIdentityRequest
	// goverter:ignore Unverified
	registeredIdentityToPB(personal.SignedIn) (*personalv1.RegisterIdentityResponse, error)
	registeredIdentityFromPB(*personalv1.RegisterIdentityResponse) personal.SignedIn
	proveIdentityToPB(personal.ProveIdentityRequest) *personalv1.ProveIdentityRequest
	proveIdentityFromPB(*personalv1.ProveIdentityRequest) personal.ProveIdentityRequest
	provedIdentityToPB(personal.Proof) *personalv1.ProveIdentityResponse
	provedIdentityFromPB(*personalv1.ProveIdentityResponse) personal.Proof
	endIdentitySessionsToPB(personal.EndIdentitySessionsRequest) *personalv1.EndIdentitySessionsRequest
	endIdentitySessionsFromPB(*personalv1.EndIdentitySessionsRequest) personal.EndIdentitySessionsRequest

	// The host.

	schemaToPB(personal.Schema) *personalv1.UserFieldsResponse
	schemaFromPB(*personalv1.UserFieldsResponse) personal.Schema
	mailToPB(personal.Mail) *personalv1.SendMailRequest
	mailFromPB(*personalv1.SendMailRequest) personal.Mail
	eventToPB(personal.Event) *personalv1.Event
	eventFromPB(*personalv1.Event) personal.Event

	// The life cycle.

	// goverter:ignore HostBrokerId
	configurationToPB(Configuration) *personalv1.ConfigureRequest
	configurationFromPB(*personalv1.ConfigureRequest) Configuration
	preflightToPB(PreflightResult) *personalv1.PreflightResponse
	preflightFromPB(*personalv1.PreflightResponse) PreflightResult
	turnToPB(Turn) *personalv1.TurnResponse
	turnFromPB(*personalv1.TurnResponse) Turn
}
