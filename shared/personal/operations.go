package personal

import "slices"

// OperationName names an operation: the method of [Service] or [Administration] of that name.
type OperationName string

// The operations of [Service].
const (
	OpAuthorize           OperationName = "Authorize"
	OpRefresh             OperationName = "Refresh"
	OpRegister            OperationName = "Register"
	OpRecover             OperationName = "Recover"
	OpRecoverConfirm      OperationName = "RecoverConfirm"
	OpProfile             OperationName = "Profile"
	OpUpdateProfile       OperationName = "UpdateProfile"
	OpProve               OperationName = "Prove"
	OpChangePassword      OperationName = "ChangePassword"
	OpChangeEmail         OperationName = "ChangeEmail"
	OpConfirmEmail        OperationName = "ConfirmEmail"
	OpLogout              OperationName = "Logout"
	OpSessions            OperationName = "Sessions"
	OpRevokeSession       OperationName = "RevokeSession"
	OpRevokeOtherSessions OperationName = "RevokeOtherSessions"
	OpFields              OperationName = "Fields"
	OpFeatures            OperationName = "Features"
	OpResendVerification  OperationName = "ResendVerification"
	OpExport              OperationName = "Export"
	OpDelete              OperationName = "Delete"
	OpUndoDelete          OperationName = "UndoDelete"
	OpBeginTwoFactor      OperationName = "BeginTwoFactor"
	OpConfirmTwoFactor    OperationName = "ConfirmTwoFactor"
	OpRenewRecoveryCodes  OperationName = "RenewRecoveryCodes"
	OpRemoveOwnTwoFactor  OperationName = "RemoveOwnTwoFactor"
	OpBeginPasskey        OperationName = "BeginPasskey"
	OpAuthorizePasskey    OperationName = "AuthorizePasskey"
	OpAddPasskey          OperationName = "AddPasskey"
	OpConfirmPasskey      OperationName = "ConfirmPasskey"
	OpPasskeys            OperationName = "Passkeys"
	OpRenamePasskey       OperationName = "RenamePasskey"
	OpRemovePasskey       OperationName = "RemovePasskey"

	OpBeginMailedCode     OperationName = "BeginMailedCode"
	OpAuthorizeMailedCode OperationName = "AuthorizeMailedCode"
)

// The operations of [Administration].
const (
	OpFindUsers          OperationName = "FindUsers"
	OpUsers              OperationName = "Users"
	OpUser               OperationName = "User"
	OpUpdateUser         OperationName = "UpdateUser"
	OpSetEmail           OperationName = "SetEmail"
	OpDisableUser        OperationName = "DisableUser"
	OpEnableUser         OperationName = "EnableUser"
	OpUserSessions       OperationName = "UserSessions"
	OpRevokeUserSessions OperationName = "RevokeUserSessions"
	OpRevokeUserSession  OperationName = "RevokeUserSession"
	OpDeleteUser         OperationName = "DeleteUser"
	OpAuditEntries       OperationName = "AuditEntries"
	OpRemoveTwoFactor    OperationName = "RemoveTwoFactor"
	OpRemoveOtherWaysIn  OperationName = "RemoveOtherWaysIn"
	OpResetAccess        OperationName = "ResetAccess"
	OpCreateUser         OperationName = "CreateUser"
	OpExplain            OperationName = "Explain"
	OpLiftLimits         OperationName = "LiftLimits"
	OpPreviewFields      OperationName = "PreviewFields"
	OpFillFields         OperationName = "FillFields"
	OpFieldsFill         OperationName = "FieldsFill"
	OpSignIn             OperationName = "SignIn"
	OpLinkIdentity       OperationName = "LinkIdentity"
	OpFindIdentity       OperationName = "FindIdentity"
	OpUnlinkIdentity     OperationName = "UnlinkIdentity"

	OpRegisterIdentity    OperationName = "RegisterIdentity"
	OpProveIdentity       OperationName = "ProveIdentity"
	OpEndIdentitySessions OperationName = "EndIdentitySessions"
)

// Change is whom an operation may change, as far as a profile and the validity of a session
// show it. A host that remembers what [Service.Profile] has returned drops it accordingly.
type Change int

// The zero Change is that of an operation that is not in the list.
const (
	ChangesAll       Change = iota // any user; the result may say which
	ChangesNothing                 // nothing that a profile shows at once
	ChangesCaller                  // the user of the request's credentials
	ChangesNamedUser               // the user whom the request names, or else the result
)

// Operation is a row of the list of operations.
type Operation struct {
	Name           OperationName
	Administration bool   // it is one of [Administration], else of [Service]
	Credentials    bool   // it needs the credentials of a session
	Opens          bool   // it opens a session
	Mails          bool   // it mails for its caller to a mailbox that need not be the caller's; notices do not count
	Repeatable     bool   // a caller that got no response may repeat it: that does no more than the first call
	Changes        Change // if it succeeds, or its outcome is unknown
}

// Judged reports whether an [Admission] judges the operation: it opens a session, or sends a mail
// for a visitor.
func (o Operation) Judged() bool { return o.Opens || o.Mails }

// Operations returns the list of all operations of [Service] and [Administration]. Everything
// that goes over all operations reads it.
func Operations() []Operation { return slices.Clone(operations) }

var operations = []Operation{
	// It may remove the user's session that was unused for longest.
	{Name: OpAuthorize, Opens: true, Changes: ChangesNamedUser},
	// The superseded hash stays valid for the grace period, which no Profile.FreshFor exceeds.
	{Name: OpRefresh, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRegister, Opens: true, Mails: true, Changes: ChangesNothing},
	{Name: OpRecover, Mails: true, Changes: ChangesNothing},
	{Name: OpRecoverConfirm, Changes: ChangesAll},
	{Name: OpProfile, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpUpdateProfile, Credentials: true, Repeatable: true, Changes: ChangesCaller},
	{Name: OpProve, Credentials: true, Changes: ChangesNothing},
	{Name: OpChangePassword, Credentials: true, Changes: ChangesCaller},
	{Name: OpChangeEmail, Credentials: true, Mails: true, Changes: ChangesNothing},
	{Name: OpConfirmEmail, Changes: ChangesAll},
	{Name: OpLogout, Credentials: true, Changes: ChangesCaller},
	{Name: OpSessions, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRevokeSession, Credentials: true, Repeatable: true, Changes: ChangesCaller},
	{Name: OpRevokeOtherSessions, Credentials: true, Repeatable: true, Changes: ChangesCaller},
	{Name: OpFields, Repeatable: true, Changes: ChangesNothing},
	{Name: OpFeatures, Repeatable: true, Changes: ChangesNothing},
	{Name: OpResendVerification, Mails: true, Changes: ChangesNothing},
	{Name: OpExport, Credentials: true, Changes: ChangesNothing},
	{Name: OpDelete, Credentials: true, Changes: ChangesCaller},
	{Name: OpUndoDelete, Changes: ChangesAll},
	{Name: OpBeginTwoFactor, Credentials: true, Changes: ChangesNothing},
	{Name: OpConfirmTwoFactor, Credentials: true, Changes: ChangesCaller},
	{Name: OpRenewRecoveryCodes, Credentials: true, Changes: ChangesNothing},
	{Name: OpRemoveOwnTwoFactor, Credentials: true, Changes: ChangesCaller},
	{Name: OpBeginPasskey, Repeatable: true, Changes: ChangesNothing}, // credentials for a proof only
	{Name: OpAuthorizePasskey, Opens: true, Changes: ChangesNamedUser},
	{Name: OpAddPasskey, Credentials: true, Changes: ChangesNothing},
	{Name: OpConfirmPasskey, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpPasskeys, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRenamePasskey, Credentials: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRemovePasskey, Credentials: true, Changes: ChangesCaller},
	{Name: OpBeginMailedCode, Mails: true, Changes: ChangesNothing}, // credentials for a proof only
	{Name: OpAuthorizeMailedCode, Opens: true, Changes: ChangesNamedUser},

	{Name: OpFindUsers, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpUsers, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpUser, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpUpdateUser, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpSetEmail, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpDisableUser, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpEnableUser, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpUserSessions, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRevokeUserSessions, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpRevokeUserSession, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpDeleteUser, Administration: true, Changes: ChangesNamedUser},
	{Name: OpAuditEntries, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpRemoveTwoFactor, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpRemoveOtherWaysIn, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpResetAccess, Administration: true, Changes: ChangesNamedUser},
	{Name: OpCreateUser, Administration: true, Changes: ChangesNothing},
	{Name: OpExplain, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpLiftLimits, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpPreviewFields, Administration: true, Repeatable: true, Changes: ChangesNothing},
	// A job changes the users later.
	{Name: OpFillFields, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpFieldsFill, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpSignIn, Administration: true, Opens: true, Changes: ChangesNamedUser}, // as OpAuthorize
	{Name: OpLinkIdentity, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpFindIdentity, Administration: true, Repeatable: true, Changes: ChangesNothing},
	{Name: OpUnlinkIdentity, Administration: true, Repeatable: true, Changes: ChangesNamedUser},
	{Name: OpRegisterIdentity, Administration: true, Opens: true, Mails: true, Changes: ChangesNothing}, // as OpRegister
	{Name: OpProveIdentity, Administration: true, Changes: ChangesNothing},
	{Name: OpEndIdentitySessions, Administration: true, Repeatable: true, Changes: ChangesAll},
}
