package personal

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The methods by which the module itself opens sessions, as in [Session] and [Event].
const (
	MethodPassword     = "password"
	MethodPasskey      = "passkey"
	MethodRegistration = "registration"
	MethodMailedCode   = "mailed_code"
)

// ModuleMethods returns the methods of the sessions that the module itself opens. All other sessions
// were opened by [Administration.SignIn] or [Administration.RegisterIdentity].
func ModuleMethods() []string {
	return []string{MethodPassword, MethodPasskey, MethodRegistration, MethodMailedCode}
}

// SignInRequest has the parameters of [Administration.SignIn]. In FIELDS they are called
// method, issuer and subject.
type SignInRequest struct {
	// Identity is that with which the user came from a provider: their account is found in the
	// transaction that opens the session, so that an identity that was removed since opens
	// none. Zero: UserID counts, for methods without identities.
	Identity Identity
	UserID   int64 // 0 with an Identity

	// Method names how the host has authenticated the user, such as "oidc": up to MaxMethod
	// characters of a to z, 0 to 9 and _, and none of the module's own methods. Session and
	// Event have it.
	Method string

	Code             string // of the second factor; "" if none was sent
	SecondFactorDone bool   // the host vouches for a second factor: no code is needed

	// AuthenticatedAt is when the user was authenticated, such as the auth_time of an ID token;
	// zero if the host does not know. The session has a proof until the lifetime of proofs, five
	// minutes at most, has passed since then.
	AuthenticatedAt time.Time

	// ProviderSession is the session at the provider, such as the sid of an ID token, for
	// [Administration.EndIdentitySessions]: MaxProviderSession bytes at most; "" for none.
	ProviderSession string
}

// MaxProviderSession is the maximum length of a session at a provider, in bytes.
const MaxProviderSession = 256

// RegisterIdentityRequest has the parameters of [Administration.RegisterIdentity]. In FIELDS they are called
// identity, login, email, name, method and provider_session, besides the user fields.
type RegisterIdentityRequest struct {
	Identity Identity
	Login    string
	Email    string
	Name     string           // "" for none
	Fields   map[string]Input // user fields

	Method          string    // as in SignInRequest
	AuthenticatedAt time.Time // as in SignInRequest
	ProviderSession string    // as in SignInRequest

	// EmailVerified says that the e-mail is the user's, without a mail to it. Set it only if Email is the
	// provider's claim unchanged and the provider is the authority of its domain: others give away
	// accounts.
	EmailVerified bool
}

// ProveIdentityRequest has the parameters of [Administration.ProveIdentity].
type ProveIdentityRequest struct {
	Credentials     Credentials
	Identity        Identity
	AuthenticatedAt time.Time // by the provider, for this proof: the auth_time of the ID token
	Code            string    // of the second factor; "" if none was sent
}

// EndIdentitySessionsRequest has the parameters of [Administration.EndIdentitySessions].
type EndIdentitySessionsRequest struct {
	Identity        Identity
	ProviderSession string // "": all that the identity has opened
}

// Identity is a user as an OpenID provider names them. Both parts are 1 to
// MaxIdentityPart bytes of UTF-8 and compared byte by byte. An e-mail is no subject: the
// provider may give it to another user. In FIELDS the parts are called issuer and subject.
type Identity struct {
	Issuer  string `json:"issuer"`  // the iss of the provider's ID tokens, a URL
	Subject string `json:"subject"` // the sub of the ID token
}

// LinkedIdentity is an identity of an account.
type LinkedIdentity struct {
	Identity
	Linked   time.Time `json:"linked"`             // UTC
	LastUsed time.Time `json:"last_used,omitzero"` // UTC; zero: it was not used since it was linked
}

// Provider is the name by which people know the issuer: the host of its URL. An issuer that is no
// URL is its own name, without control characters.
func (i Identity) Provider() string {
	if u, err := url.Parse(i.Issuer); err == nil && u.Host != "" {
		return u.Hostname()
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, i.Issuer)
}

// Providers returns the names of the providers of identities, sorted; one with several identities
// is followed by their number, such as "op.example (2)".
func Providers(identities []LinkedIdentity) []string {
	count := map[string]int{}
	for _, i := range identities {
		count[i.Provider()]++
	}
	names := slices.Sorted(maps.Keys(count))
	for i, name := range names {
		if n := count[name]; n > 1 {
			names[i] = fmt.Sprintf("%s (%d)", name, n)
		}
	}
	return names
}

// LinkIdentityRequest has the parameters of [Administration.LinkIdentity].
type LinkIdentityRequest struct {
	Identity    Identity
	Credentials Credentials // of the user's session; zero: UserID counts
	Proof       string      // of that session, see [Service.Prove]
	UserID      int64       // of a new account; ignored if Credentials are set
}

// UnlinkIdentityRequest has the parameters of [Administration.UnlinkIdentity].
type UnlinkIdentityRequest struct {
	Identity    Identity
	Credentials Credentials // of the user's session; zero: an administrator unlinks it from UserID
	Proof       string      // of that session, see [Service.Prove]
	UserID      int64       // ignored if Credentials are set
}
