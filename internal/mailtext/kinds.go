package mailtext

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// Kind is a mail that the module sends.
type Kind string

// The kinds. The names are those of template files and must not change.
const (
	Recovery            Kind = "recovery"
	EmailChange         Kind = "email_change"
	Verification        Kind = "verification"
	RegistrationAttempt Kind = "registration_attempt"
	PasswordChanged     Kind = "password_changed"
	Recovered           Kind = "recovered"
	EmailChanged        Kind = "email_changed"
	NewAddress          Kind = "new_address"
	SessionTheft        Kind = "session_theft"
	Deletion            Kind = "deletion"
	TwoFactorOn         Kind = "two_factor_on"
	TwoFactorOff        Kind = "two_factor_off"
	RecoveryCodes       Kind = "recovery_codes"
	RecoveryCodeUsed    Kind = "recovery_code_used"
	CodeRefused         Kind = "code_refused"
	PasskeyAdded        Kind = "passkey_added"
	PasskeyRemoved      Kind = "passkey_removed"
	PasskeyCloned       Kind = "passkey_cloned"
	IdentityLinked      Kind = "identity_linked"
	IdentityUnlinked    Kind = "identity_unlinked"
	AccessReset         Kind = "access_reset"
	Invitation          Kind = "invitation"
	SignInCode          Kind = "sign_in_code"
)

// Description is the row of a kind.
type Description struct {
	Kind     Kind
	Cause    personal.OperationName // an operation that causes it
	Sent     string                 // when, and to whom if that is not the account's e-mail
	Confirms personal.OperationName // the operation that takes the token; "" if the mail has none
	Fields   []Field                // that its templates may use, in the order in which they are listed
}

// Field is the name of a value that a template may use.
type Field string

// The fields.
const (
	Token   Field = "Token"
	Code    Field = "Code"
	Proves  Field = "Proves"
	Link    Field = "Link"
	Minutes Field = "Minutes"
	Hours   Field = "Hours"
	Days    Field = "Days"
	Time    Field = "Time"
	Address Field = "Address"
	EraseAt Field = "EraseAt"
	Site    Field = "Site"

	Reset Field = "Reset"

	Passkeys          Field = "Passkeys"
	Identities        Field = "Identities"
	Providers         Field = "Providers"
	RemovedPasskeys   Field = "RemovedPasskeys"
	RemovedIdentities Field = "RemovedIdentities"
)

// meanings says what the fields contain.
var meanings = map[Field]string{
	Token:             "the code of 43 characters that the link contains, for readers whose link does not open",
	Code:              "the short code to type in, like 7K3M-Q9XA; it must be neither in the subject nor in a link",
	Proves:            "true if the code confirms who a signed-in user is; else it signs in",
	Link:              "the link that contains the code; empty if neither the settings nor the host name a page for it",
	Minutes:           "how long the code is valid, in whole minutes; 0 if that is less than one",
	Hours:             "how long the code is valid, in whole hours; 0 if that is less than one",
	Days:              "how long the code is valid, in whole days; 0 if that is less than one",
	Time:              "when it happened, like 2026-03-31 14:05 UTC",
	Address:           "the IP address from which it was done; empty if it is unknown",
	EraseAt:           "when the account is erased, like 2026-03-31 14:05 UTC",
	Site:              "the name of the site; empty if the settings have none",
	Passkeys:          "how many passkeys the account has now",
	Identities:        "how many identities at providers, such as Google, the account has now",
	Providers:         "the hosts of these providers, like accounts.google.com, op.example (2)",
	RemovedPasskeys:   "how many passkeys were removed",
	RemovedIdentities: "how many identities at providers were removed",
	Reset:             "true if an administrator has reset the access to the account, so that it has no password now",
}

// Meaning says what the field contains.
func (f Field) Meaning() string { return meanings[f] }

// Descriptions returns all kinds: those with a token, one to anyone, and the notices.
func Descriptions() []Description {
	notice := []Field{Time, Address, Site}
	return []Description{
		{Recovery, personal.OpRecover, "to a user who asks to set a new password, or whose recovery or reset an administrator has started",
			personal.OpRecoverConfirm, []Field{Token, Link, Minutes, Hours, Days, Reset, Passkeys, Identities, Providers, Site}},
		{Invitation, personal.OpCreateUser, "to a user whom an administrator has created",
			personal.OpRecoverConfirm, []Field{Token, Link, Minutes, Hours, Days, Site}},
		{EmailChange, personal.OpChangeEmail, "to the new address that a user has entered",
			personal.OpConfirmEmail, []Field{Token, Link, Minutes, Hours, Site}},
		{Verification, personal.OpRegister, "to the address to be verified, after a registration, a request, or a change by an administrator",
			personal.OpConfirmEmail, []Field{Token, Link, Minutes, Hours, Time, Address, Site}},
		{Deletion, personal.OpDelete, "after a user has deleted their account",
			personal.OpUndoDelete, []Field{Token, Link, EraseAt, Time, Address, Site}},
		{RegistrationAttempt, personal.OpRegister, "to the owner of a taken address with which someone has registered, if e-mails must be verified", "", notice},
		{PasswordChanged, personal.OpChangePassword, "after the password was changed; with the numbers of other ways in",
			"", []Field{RemovedPasskeys, RemovedIdentities, Passkeys, Identities, Time, Address, Site}},
		{Recovered, personal.OpRecoverConfirm, "after a recovery, if the account had a password or other ways in; with the numbers of those removed",
			"", []Field{RemovedPasskeys, RemovedIdentities, Time, Address, Site}},
		{EmailChanged, personal.OpConfirmEmail, "to the old address, after the e-mail was changed", "", notice},
		{NewAddress, personal.OpAuthorize, "after a sign-in from an IP address (of IPv6: a /64) that is not fully known, if the account has a known one", "", notice},
		{SessionTheft, personal.OpRefresh, "after the theft of a session hash was detected", "", notice},
		{TwoFactorOn, personal.OpConfirmTwoFactor, "after a second factor was switched on", "", notice},
		{TwoFactorOff, personal.OpRemoveOwnTwoFactor, "after the second factor was removed; with the numbers of other ways in",
			"", []Field{RemovedPasskeys, RemovedIdentities, Passkeys, Identities, Time, Address, Site}},
		{RecoveryCodes, personal.OpRenewRecoveryCodes, "after the recovery codes were replaced", "", notice},
		{RecoveryCodeUsed, personal.OpAuthorize, "after a recovery code was used", "", notice},
		{CodeRefused, personal.OpAuthorize, "after the third wrong code within 30 days, and later ones, with the correct password away from fully known addresses; once a day", "", notice},
		{PasskeyAdded, personal.OpConfirmPasskey, "after a passkey was added", "", notice},
		{PasskeyRemoved, personal.OpRemovePasskey, "after passkeys were removed, but not together with a password or the second factor", "", notice},
		{PasskeyCloned, personal.OpAuthorizePasskey, "after the counter of a passkey went back: there may be a copy of it", "", notice},
		{IdentityLinked, personal.OpLinkIdentity, "after an identity at another service was linked, also for a new account", "", notice},
		{IdentityUnlinked, personal.OpUnlinkIdentity, "after identities were unlinked", "", notice},
		{SignInCode, personal.OpBeginMailedCode, "after someone has asked for a mailed code, for a sign-in or a proof",
			"", []Field{Code, Proves, Minutes, Time, Address, Site}},
		{AccessReset, personal.OpResetAccess, "to the old address, after an administrator has reset the access", "", notice},
	}
}

func describe(k Kind) (Description, bool) {
	all := Descriptions()
	i := slices.IndexFunc(all, func(d Description) bool { return d.Kind == k })
	if i < 0 {
		return Description{}, false
	}
	return all[i], true
}

// Letter is what one mail says, as templates see it: a [Field] is an exported field or a method of that
// name. None of it was typed by a user. A kind uses only its fields.
type Letter struct {
	Site     string // its name; "" for none
	Token    string
	Code     string
	Proves   bool
	Link     string        // "" for none
	Lifetime time.Duration // of the token or the code
	At       time.Time
	From     netip.Addr // the zero value if unknown
	Erasure  time.Time
	Reset    bool // see the field

	Passkeys, Identities               int      // of the account
	Hosts                              []string // of the providers of the identities
	RemovedPasskeys, RemovedIdentities int
}

func (l Letter) Minutes() int      { return int(l.Lifetime / time.Minute) }
func (l Letter) Hours() int        { return int(l.Lifetime / time.Hour) }
func (l Letter) Days() int         { return int(l.Lifetime / (24 * time.Hour)) }
func (l Letter) Time() string      { return minute(l.At) }
func (l Letter) EraseAt() string   { return minute(l.Erasure) }
func (l Letter) Providers() string { return strings.Join(l.Hosts, ", ") }

func (l Letter) Address() string {
	if !l.From.IsValid() {
		return ""
	}
	return l.From.String()
}

// minute writes a time in a way that all languages understand.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// sampleToken is recognisable in what a template writes.
const (
	sampleToken = "SAMPLE-TOKEN-u7VvQ2bXn0cYw4Lk9sEa"
	sampleCode  = "SAMP-0000"
)

// Sample returns a letter to preview a mail with.
func Sample() Letter {
	happened := time.Date(2026, time.March, 31, 14, 5, 0, 0, time.UTC)
	return Letter{
		Site: "Example", Token: sampleToken, Code: sampleCode, Link: "https://site.example/account#token=" + sampleToken, Lifetime: 24 * time.Hour,
		At: happened, From: netip.MustParseAddr("203.0.113.7"), Erasure: happened.AddDate(0, 0, 7),
		Passkeys: 2, Identities: 1, Hosts: []string{"accounts.google.com"}, RemovedPasskeys: 2, RemovedIdentities: 1,
	}
}

// MaxSite is the maximum length of the name of a site, in characters.
const MaxSite = 64

// samples returns letters that lead through the branches of a template: with a link, an
// address, a name of the site and other ways in, and without, with lifetimes of days, hours, minutes and
// seconds, and after a reset.
func samples() []Letter {
	full := Sample()
	full.Site = strings.Repeat("m", MaxSite)
	bare := full
	bare.Site, bare.Link, bare.From, bare.Lifetime = "", "", netip.Addr{}, 30*time.Minute
	bare.Passkeys, bare.Identities, bare.Hosts, bare.RemovedPasskeys, bare.RemovedIdentities = 0, 0, nil, 0, 0
	long, short, unlinked, nowhere, nameless := full, full, full, full, full
	long.Lifetime, long.Reset, long.Passkeys, long.RemovedPasskeys = 7*24*time.Hour, true, 0, 0
	short.Lifetime, short.Passkeys, short.Identities, short.Hosts, short.RemovedIdentities = time.Second, 1, 0, nil, 0
	unlinked.Link, unlinked.Proves = "", true
	nowhere.From = netip.Addr{}
	nameless.Site = ""
	return []Letter{full, bare, long, short, unlinked, nowhere, nameless}
}
