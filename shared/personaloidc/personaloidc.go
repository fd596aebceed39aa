// Package personaloidc lets users sign in, register and prove who they are with providers: Google,
// Microsoft, GitLab, Keycloak, GitHub, Apple, and every OpenID provider by discovery. One call adds them to the
// account pages, which then have all pages and buttons:
//
//	account, err := personalpages.New(module, personalpages.Config{Layout: layout})
//	…
//	err = personaloidc.New(module, account, personaloidc.Config{Providers: []personaloidc.Provider{
//		{Name: "google", Issuer: personaloidc.Google, ClientID: "…", SecretFile: "google.secret"},
//		{Name: "github", Issuer: personaloidc.GitHub, ClientID: "…", SecretFile: "github.secret"},
//	}})
//
// Register URL/providers/NAME/callback at the provider as redirect URI, where URL is that of the account pages.
// docs/single-sign-on.md links to a page for the console of each provider.
//
// It is a Go module of its own, so that a site without it has none of its dependencies.
package personaloidc

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personalpages"
)

// The issuers that the package knows by name. Those of Microsoft, and of a GitLab or Keycloak of your own, have parts
// of their own, see [Provider].Issuer.
const (
	Google    = "https://accounts.google.com"
	GitHub    = "https://github.com" // OAuth 2.0 without ID tokens
	GitLab    = "https://gitlab.com"
	Apple     = "https://appleid.apple.com"
	microsoft = "https://login.microsoftonline.com/"
)

// Config has the providers of a site, in the order of their buttons.
type Config struct {
	Providers []Provider
}

// Provider is a provider, and the registration of the site there. Name, Issuer and ClientID are required.
type Provider struct {
	// Name is in the redirect URI and in the list of a user's sessions, such as google: a to z, 0 to 9 and _. It stays the same.
	Name string

	// Issuer is the provider: a constant of this package, https://login.microsoftonline.com/TENANT-ID/v2.0 for
	// Microsoft, https://HOST/realms/REALM for Keycloak, and else the iss of its ID tokens. It is https; http is accepted on a loopback address only.
	Issuer string

	ClientID   string
	SecretFile string // a file with the client's secret, which only its owner should read; "" for a public client

	Label string        // for people; the name of a known provider or the host of the issuer if empty
	Icon  template.HTML // beside the label: an <svg> with aria-hidden; that of a known provider if empty

	Scopes []string // besides those that this package needs; seldom needed

	// Tenants are the ids of those whose users may sign in where Microsoft's issuer is that of several tenants, as with
	// the TENANT organizations. They are required there: everyone can make a tenant.
	Tenants []string

	// Authoritative are the domains whose e-mails are the user's if the provider says that they are verified, without a
	// mail. Set those that the provider itself gives out, such as that of your company. For Google they are gmail.com and
	// the domains of its own customers; GitHub, and Microsoft with several tenants, have none.
	Authoritative []string

	// SecondFactor are the values of acr or amr by which the provider says that it has checked a second
	// factor: the user is not asked for that of the site. No value counts if empty.
	SecondFactor []string

	// AuthTime says that ID tokens have auth_time, the time at which the provider has asked its user in this browser who
	// they are, although its metadata do not say so. Set it for Microsoft where the app's optional claim is on.
	AuthTime bool

	// TeamID and KeyID name the key of the file, a .p8 from Apple's console, with which the site makes Apple's client secret.
	TeamID, KeyID, KeyFile string
}

// Module is the part of personalhost.Module that the package needs.
type Module interface {
	// Keys returns keys for a purpose, of 32 bytes each: the first encrypts, all decrypt.
	Keys(purpose string) ([][]byte, error)
}

// sealing is the purpose of the keys that seal what a browser has started.
const sealing = "personaloidc attempts"

// New adds the providers to the account pages of the module. Call it once, before the pages serve. It asks no
// provider: the site starts, and its other ways in work, while one is down. The error names all that is invalid.
func New(m Module, account *personalpages.Pages, c Config) error {
	keys, err := m.Keys(sealing)
	if err != nil {
		return fmt.Errorf("sign-in with providers: %w", err)
	}
	var providers []personalpages.Provider
	var wrong []error
	for _, one := range c.Providers {
		made, err := one.open()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("provider %q: %w", one.Name, err))
		}
		providers = append(providers, made)
	}
	if err = errors.Join(wrong...); err == nil {
		err = account.UseProviders(keys, providers...)
	}
	if err != nil {
		return fmt.Errorf("sign-in with providers: %w", err)
	}
	return nil
}

//go:embed icons/*.svg
var icons embed.FS

// knownProvider is what the package knows of a provider.
type knownProvider struct {
	name, label string
	is          func(Provider) bool
}

func issuedBy(issuer string) func(Provider) bool {
	return func(p Provider) bool { return p.Issuer == issuer }
}

var realm = regexp.MustCompile(`/realms/[^/]+\z`)

func allKnown() []knownProvider {
	return []knownProvider{
		{"google", "Google", issuedBy(Google)},
		{"github", "GitHub", issuedBy(GitHub)},
		{"apple", "Apple", issuedBy(Apple)},
		{"microsoft", "Microsoft", func(p Provider) bool { return strings.HasPrefix(p.Issuer, microsoft) }},
		{"gitlab", "GitLab", func(p Provider) bool { return p.Issuer == GitLab || p.Name == "gitlab" }},
		{"keycloak", "Keycloak", func(p Provider) bool { return realm.MatchString(p.Issuer) }},
	}
}

// open checks a provider, reads its secrets and completes it.
func (p Provider) open() (personalpages.Provider, error) {
	var wrong []error
	u, err := url.Parse(p.Issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		wrong = append(wrong, fmt.Errorf("the Issuer %q is no https URL without user, query and fragment (http is for this machine only)", p.Issuer))
		u = &url.URL{}
	}
	if p.ClientID == "" {
		wrong = append(wrong, errors.New("ClientID is missing: the provider's console shows it"))
	}
	label, icon := u.Hostname(), template.HTML("")
	known := allKnown()
	if i := slices.IndexFunc(known, func(k knownProvider) bool { return k.is(p) }); i >= 0 {
		svg, _ := icons.ReadFile("icons/" + known[i].name + ".svg")
		label, icon = known[i].label, template.HTML(svg) // it is our own
	}
	secret, err := p.secret()
	wrong = append(wrong, err, p.checkTenants(), p.checkAuthority())
	made := personalpages.Provider{Name: p.Name, Label: cmp.Or(p.Label, label), Icon: cmp.Or(p.Icon, icon)}
	if p.Issuer == GitHub {
		made.ProviderProtocol = newGitHub(p, secret)
	} else {
		made.ProviderProtocol = newOpenID(p, secret)
	}
	return made, errors.Join(wrong...)
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }

// clientSecret returns the secret of a client.
type clientSecret func() (string, error)

func (p Provider) secret() (clientSecret, error) {
	if p.Issuer == Apple {
		return appleSecret(p)
	}
	if p.TeamID != "" || p.KeyID != "" || p.KeyFile != "" {
		return nil, errors.New("TeamID, KeyID and KeyFile are for Apple alone: name a SecretFile")
	}
	text := ""
	if p.SecretFile != "" {
		data, err := os.ReadFile(p.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("SecretFile: %w", err)
		}
		if text = strings.TrimSpace(string(data)); text == "" {
			return nil, fmt.Errorf("SecretFile: %s is empty", p.SecretFile)
		}
	} else if p.Issuer == GitHub {
		return nil, errors.New("SecretFile is missing: GitHub has no public clients")
	}
	return func() (string, error) { return text, nil }, nil
}

// sharedIssuer matches the issuers of Microsoft that are those of several tenants.
var sharedIssuer = regexp.MustCompile(`\A` + regexp.QuoteMeta(microsoft) + `(common|organizations|consumers)/v2\.0\z`)

func (p Provider) severalTenants() bool { return sharedIssuer.MatchString(p.Issuer) }

func (p Provider) checkTenants() error {
	switch {
	case strings.HasPrefix(p.Issuer, microsoft) && !p.severalTenants() && !tenantID.MatchString(tenantOf(p.Issuer)):
		return fmt.Errorf("the issuer of one tenant is %sID/v2.0, with the id of the tenant and not its name", microsoft)
	case p.severalTenants() && len(p.Tenants) == 0:
		return errors.New("the issuer is that of several tenants, and everyone can make one: list in Tenants the ids of those whose users may sign in")
	case !p.severalTenants() && len(p.Tenants) > 0:
		return fmt.Errorf("the issuer is that of one tenant: leave out Tenants, or use %sorganizations/v2.0", microsoft)
	case slices.ContainsFunc(p.Tenants, func(id string) bool { return !tenantID.MatchString(id) }):
		return errors.New("name each of the Tenants by its id, such as 72f988bf-86f1-41af-91ab-2d7cd011db47")
	}
	return nil
}

var tenantID = regexp.MustCompile(`\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z`)

// tenantOf returns the tenant whose issuer at Microsoft it is; "" for another issuer.
func tenantOf(issuer string) string {
	path, ours := strings.CutPrefix(issuer, microsoft)
	tenant, found := strings.CutSuffix(path, "/v2.0")
	if !ours || !found {
		return ""
	}
	return tenant
}

func (p Provider) checkAuthority() error {
	if len(p.Authoritative) > 0 && (p.Issuer == GitHub || p.Issuer == Google || p.severalTenants()) {
		return errors.New("leave out Authoritative: users of this provider choose their e-mails, and Google says itself of which domains it is the authority")
	}
	if slices.ContainsFunc(p.Authoritative, func(d string) bool { return d == "" || strings.ContainsAny(d, "@*/ ") }) {
		return errors.New("name each domain of Authoritative as after the @ of an e-mail, such as example.com")
	}
	return nil
}

// isAuthority reports whether the provider is the authority of an e-mail that it calls verified; hosted is Google's
// hd, the domain of a customer.
func (p Provider) isAuthority(email, hosted string) bool {
	at := strings.LastIndex(email, "@")
	domain := strings.ToLower(email[at+1:])
	if at < 1 || domain == "" {
		return false
	}
	if p.Issuer == Google && (domain == "gmail.com" || domain == strings.ToLower(hosted)) {
		return true
	}
	return slices.ContainsFunc(p.Authoritative, func(own string) bool { return strings.EqualFold(own, domain) })
}
