package personal

// MailedCodePurpose says what a mailed code is for.
type MailedCodePurpose string

// The purposes of [Service.BeginMailedCode].
const (
	MailedCodeSignIn MailedCodePurpose = "sign_in"
	MailedCodeProve  MailedCodePurpose = "prove"
)

// BeginMailedCodeRequest has the parameters of [Service.BeginMailedCode]. For a sign-in at least one of
// Login and Email must be set; both then belong to one account.
type BeginMailedCodeRequest struct {
	Credentials Credentials       // ignored for a sign-in
	Purpose     MailedCodePurpose // "": MailedCodeSignIn
	Login       string            // ignored for a proof
	Email       string            // likewise
	FieldErrors FieldErrors
}

// MailedCodeAttempt is an attempt whose code may be on its way.
type MailedCodeAttempt struct {
	Attempt string // a secret: the mailed code is good only with it
}

// AuthorizeMailedCodeRequest has the parameters of [Service.AuthorizeMailedCode].
type AuthorizeMailedCodeRequest struct {
	Attempt     string
	MailedCode  string
	Code        string // of the second factor; "" if none was sent
	FieldErrors FieldErrors
}
