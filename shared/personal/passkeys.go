package personal

import "time"

// PasskeyPurpose says what a ceremony with a passkey is for.
type PasskeyPurpose string

// The purposes of [Service.BeginPasskey].
const (
	PasskeySignIn PasskeyPurpose = "sign_in"
	PasskeyProve  PasskeyPurpose = "prove"
)

// BeginPasskeyRequest has the parameters of [Service.BeginPasskey].
type BeginPasskeyRequest struct {
	Credentials Credentials // ignored for a sign-in
	Purpose     PasskeyPurpose
	FieldErrors FieldErrors
}

// PasskeyCeremony is a ceremony with a passkey that has started. It lasts five minutes.
type PasskeyCeremony struct {
	Attempt string // a secret: who has it can end the ceremony
	// Options are JSON for navigator.credentials, WebAuthn level 3: of AddPasskey
	// PublicKeyCredentialCreationOptionsJSON, else PublicKeyCredentialRequestOptionsJSON.
	Options string
}

// AuthorizePasskeyRequest has the parameters of [Service.AuthorizePasskey].
type AuthorizePasskeyRequest struct {
	Attempt     string
	Credential  string // the JSON of the PublicKeyCredential that the browser returned
	Code        string // of the second factor; "" if none was sent
	FieldErrors FieldErrors
}

// AddPasskeyRequest has the parameters of [Service.AddPasskey].
type AddPasskeyRequest struct {
	Credentials Credentials
	Password    string
	Code        string // of the second factor
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}

// ConfirmPasskeyRequest has the parameters of [Service.ConfirmPasskey].
type ConfirmPasskeyRequest struct {
	Credentials Credentials
	Attempt     string
	Credential  string // the JSON of the PublicKeyCredential that the browser returned
	Name        string // 1 to MaxPasskeyName characters without control characters
	FieldErrors FieldErrors
}

// Passkey is a passkey of an account.
type Passkey struct {
	ID       string    `json:"id,omitempty"` // not the credential id
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`            // UTC
	LastUsed time.Time `json:"last_used,omitzero"` // UTC; zero: it was not used yet
	BackedUp bool      `json:"backed_up"`          // the authenticator says that it is synchronised between devices
}

// RenamePasskeyRequest has the parameters of [Service.RenamePasskey].
type RenamePasskeyRequest struct {
	Credentials Credentials
	ID          string // a Passkey.ID
	Name        string // as in ConfirmPasskeyRequest
	FieldErrors FieldErrors
}

// RemovePasskeyRequest has the parameters of [Service.RemovePasskey].
type RemovePasskeyRequest struct {
	Credentials Credentials
	ID          string // a Passkey.ID
	Password    string
	Code        string // of the second factor
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}
