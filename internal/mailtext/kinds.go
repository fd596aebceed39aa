package mailtext

import (
	"net/netip"
	"slices"
	"strings"
	"time"
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
)

// Description says when a kind is sent, and what its templates may use.
type Description struct {
	Kind   Kind
	Sent   string  // when, and to whom
	Fields []Field // in the order in which they are listed
}

// Has reports whether templates of the kind may use a field.
func (d Description) Has(f Field) bool { return slices.Contains(d.Fields, f) }

// Field is the name of a value that a template may use.
type Field string

// The fields.
const (
	Token   Field = "Token"
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

// Meaning says what the field contains.
func (f Field) Meaning() string {
	switch f {
	case Token:
		return "the code of 43 characters that the link contains, for readers whose link does not open"
	case Link:
		return "the link that contains the code; empty if neither the settings nor the host name a page for it"
	case Minutes:
		return "how long the code is valid, in whole minutes; 0 if that is less than one"
	case Hours:
		return "how long the code is valid, in whole hours; 0 if that is less than one"
	case Days:
		return "how long the code is valid, in whole days; 0 if that is less than one"
	case Time:
		return "when it happened, like 2026-03-31 14:05 UTC"
	case Address:
		return "the IP address from which it was done; empty if it is unknown"
	case EraseAt:
		return "when the account is erased, like 2026-03-31 14:05 UTC"
	case Site:
		return "the name of the site; empty if the settings have none"
	case Passkeys:
		return "how many passkeys the account has now"
	case Identities:
		return "how many identities at providers, such as Google, the account has now"
	case Providers:
		return "the hosts of these providers, like accounts.google.com, op.example (2)"
	case RemovedPasskeys:
		return "how many passkeys were removed"
	case RemovedIdentities:
		return "how many identities at providers were removed"
	case Reset:
		return "true if an administrator has reset the access to the account, so that it has no password now"
	}
	return ""
}

// Descriptions returns all kinds.
func Descriptions() []Description {
	return []Description{
		{Recovery, "to the user who asked to set a new password, or whose access an administrator has reset",
			[]Field{Token, Link, Minutes, Hours, Days, Reset, Passkeys, Identities, Providers, Site}},
		{Invitation, "to a user whom an administrator has created, to choose a password", []Field{Token, Link, Minutes, Hours, Days, Site}},
		{EmailChange, "to the new address that a user entered for their account", []Field{Token, Link, Minutes, Hours, Site}},
		{Verification, "to the address of an account, to prove that it is the user's", []Field{Token, Link, Minutes, Hours, Time, Address, Site}},
		{RegistrationAttempt, "to the owner of an address with which someone tried to register again", []Field{Time, Address, Site}},
		{PasswordChanged, "after the password was changed",
			[]Field{RemovedPasskeys, RemovedIdentities, Passkeys, Identities, Time, Address, Site}},
		{Recovered, "after a new password was set by recovery", []Field{RemovedPasskeys, RemovedIdentities, Time, Address, Site}},
		{EmailChanged, "to the old address, after the e-mail of the account was changed", []Field{Time, Address, Site}},
		{NewAddress, "after a sign-in from an IP address where none was completed since password, e-mail or second factor last changed", []Field{Time, Address, Site}},
		{SessionTheft, "after a session was ended because its hash was used twice", []Field{Time, Address, Site}},
		{Deletion, "after a user asked to delete their account", []Field{Token, Link, EraseAt, Time, Address, Site}},
		{TwoFactorOn, "after a second factor was switched on", []Field{Time, Address, Site}},
		{TwoFactorOff, "after the second factor was removed, by the user or an administrator",
			[]Field{RemovedPasskeys, RemovedIdentities, Passkeys, Identities, Time, Address, Site}},
		{RecoveryCodes, "after the recovery codes were replaced by new ones", []Field{Time, Address, Site}},
		{RecoveryCodeUsed, "after a recovery code was used in place of a code of the app", []Field{Time, Address, Site}},
		{CodeRefused, "after wrong codes were entered with the correct password, at most once a day", []Field{Time, Address, Site}},
		{PasskeyAdded, "after a passkey was added", []Field{Time, Address, Site}},
		{PasskeyRemoved, "after passkeys were removed, by the user or an administrator", []Field{Time, Address, Site}},
		{PasskeyCloned, "after the counter of a passkey went back: there may be a copy of it", []Field{Time, Address, Site}},
		{IdentityLinked, "after the account was linked with one of another service, which signs the user in from then on", []Field{Time, Address, Site}},
		{IdentityUnlinked, "after such links were removed, by the user or an administrator", []Field{Time, Address, Site}},
		{AccessReset, "to the old address, after an administrator has reset the access to the account", []Field{Time, Address, Site}},
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

// Letter is what one mail says. None of it was typed by a user. A kind uses only its
// fields.
type Letter struct {
	Site     string // its name; "" for none
	Token    string
	Link     string        // "" for none
	Lifetime time.Duration // of the token
	Time     time.Time
	Address  netip.Addr // the zero value if unknown
	EraseAt  time.Time
	Reset    bool // see the field

	Passkeys, Identities               int      // of the account
	Providers                          []string // of the identities
	RemovedPasskeys, RemovedIdentities int
}

// values are the fields as templates see them.
type values struct {
	Site, Token, Link, Time, Address, EraseAt, Providers     string
	Minutes, Hours, Days                                     int
	Passkeys, Identities, RemovedPasskeys, RemovedIdentities int
	Reset                                                    bool
}

func (l Letter) values() values {
	v := values{
		Site: l.Site, Token: l.Token, Link: l.Link, Time: minute(l.Time), EraseAt: minute(l.EraseAt),
		Passkeys: l.Passkeys, Identities: l.Identities, Providers: strings.Join(l.Providers, ", "),
		RemovedPasskeys: l.RemovedPasskeys, RemovedIdentities: l.RemovedIdentities, Reset: l.Reset,
		Minutes: int(l.Lifetime / time.Minute), Hours: int(l.Lifetime / time.Hour), Days: int(l.Lifetime / (24 * time.Hour)),
	}
	if l.Address.IsValid() {
		v.Address = l.Address.String()
	}
	return v
}

// minute writes a time in a way that all languages understand.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// sampleToken is recognisable in what a template writes.
const sampleToken = "SAMPLE-TOKEN-u7VvQ2bXn0cYw4Lk9sEa"

// Sample returns a letter to preview a mail with.
func Sample() Letter {
	happened := time.Date(2026, time.March, 31, 14, 5, 0, 0, time.UTC)
	return Letter{
		Site: "Example", Token: sampleToken, Link: "https://site.example/account#token=" + sampleToken, Lifetime: 24 * time.Hour,
		Time: happened, Address: netip.MustParseAddr("203.0.113.7"), EraseAt: happened.AddDate(0, 0, 7),
		Passkeys: 2, Identities: 1, Providers: []string{"accounts.google.com"}, RemovedPasskeys: 2, RemovedIdentities: 1,
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
	bare.Site, bare.Link, bare.Address, bare.Lifetime = "", "", netip.Addr{}, 30*time.Minute
	bare.Passkeys, bare.Identities, bare.Providers, bare.RemovedPasskeys, bare.RemovedIdentities = 0, 0, nil, 0, 0
	long, short, unlinked, nowhere, nameless := full, full, full, full, full
	long.Lifetime, long.Reset, long.Passkeys, long.RemovedPasskeys = 7*24*time.Hour, true, 0, 0
	short.Lifetime, short.Passkeys, short.Identities, short.Providers, short.RemovedIdentities = time.Second, 1, 0, nil, 0
	unlinked.Link = ""
	nowhere.Address = netip.Addr{}
	nameless.Site = ""
	return []Letter{full, bare, long, short, unlinked, nowhere, nameless}
}
