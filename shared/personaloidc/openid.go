package personaloidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// openID speaks OpenID Connect with a provider: the authorization code flow with PKCE.
type openID struct {
	Provider
	secret clientSecret
	client *http.Client
	used   usedTokens

	mu         sync.Mutex
	discovered *metadata
	failed     error // of the latest discovery
	again      time.Time
}

// metadata are those of a provider.
type metadata struct {
	*oidc.Provider
	keys oidc.KeySet

	DemandsIss    bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	ClaimsOffered []string `json:"claims_supported"`
	EndSession    string   `json:"end_session_endpoint"`
	Keys          string   `json:"jwks_uri"`
}

const (
	retryDiscovery = 5 * time.Second // after a failure; all visitors wait for the same answer
	skew           = time.Minute     // by which the clocks of a provider and of this host may differ
	keysInterval   = time.Minute     // between two requests for keys
	maxResponse    = 1 << 20         // bytes of a provider's response
)

func newOpenID(p Provider, secret clientSecret) *openID {
	return &openID{Provider: p, secret: secret, client: newClient()}
}

// newClient returns a client whose responses are bounded.
func newClient() *http.Client {
	return &http.Client{Transport: bounded{http.DefaultTransport}, Timeout: 10 * time.Second}
}

type bounded struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
	}
	return response, err
}

// down says that the provider does not respond.
func down(err error) error { return fmt.Errorf("%w: %w", personalpages.ErrProviderDown, err) }

// discover returns the provider's metadata. It asks until it has got them, so that the site starts while
// the provider is down.
func (p *openID) discover(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered != nil {
		return p.discovered, nil
	}
	if time.Now().Before(p.again) {
		return nil, down(p.failed)
	}
	found, err := p.ask(ctx)
	if err != nil {
		p.failed, p.again = err, time.Now().Add(retryDiscovery)
		return nil, down(err)
	}
	p.discovered = found
	return found, nil
}

func (p *openID) ask(ctx context.Context) (*metadata, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	if p.severalTenants() { // whose metadata name none
		ctx = oidc.InsecureIssuerURLContext(ctx, p.Issuer)
	}
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return nil, err
	}
	m := &metadata{Provider: found}
	if err := found.Claims(m); err != nil {
		return nil, err
	}
	seldom := &http.Client{Timeout: p.client.Timeout, Transport: &seldomFetched{next: p.client.Transport}}
	m.keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), seldom), m.Keys)
	return m, nil
}

// seldomFetched fetches at most once in keysInterval: anyone can send a logout token with an unknown key.
type seldomFetched struct {
	next http.RoundTripper

	mu    sync.Mutex
	until time.Time
}

// RoundTrip implements [http.RoundTripper].
func (s *seldomFetched) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return nil, errors.New("the provider's keys were fetched less than a minute ago")
	}
	response, err := s.next.RoundTrip(r)
	s.until = time.Now().Add(keysInterval)
	if err != nil || response.StatusCode != http.StatusOK {
		s.until = time.Now().Add(retryDiscovery)
	}
	return response, err
}

// verifier checks tokens of the provider: algorithm, signature, issuer, audience and time.
func (p *openID) verifier(m *metadata) *oidc.IDTokenVerifier {
	c := &oidc.Config{
		ClientID: p.ClientID, SkipIssuerCheck: p.severalTenants(), // see issuer
		Now: func() time.Time { return time.Now().Add(-skew) },
	}
	var offered struct {
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := m.Claims(&offered); err == nil {
		c.SupportedSigningAlgs = slices.DeleteFunc(offered.Algorithms, func(alg string) bool {
			return alg == "none" || strings.HasPrefix(alg, "HS")
		})
	}
	return oidc.NewVerifier(p.Issuer, m.keys, c)
}

// issuer returns the issuer of an identity, of a token that the verifier has checked.
func (p *openID) issuer(of string) (string, error) {
	if !p.severalTenants() {
		return p.Issuer, nil // Google has two names of its own
	}
	if !p.Issues(of) {
		return "", fmt.Errorf("the token is of the issuer %q, which is none of the Tenants", of)
	}
	return of, nil
}

// Issues implements [personalpages.ProviderProtocol].
func (p *openID) Issues(issuer string) bool {
	if !p.severalTenants() {
		return issuer == p.Issuer
	}
	return slices.ContainsFunc(p.Tenants, func(id string) bool { return issuer == microsoft+id+"/v2.0" })
}

// Proves implements [personalpages.ProviderProtocol].
func (p *openID) Proves(ctx context.Context) bool {
	m, err := p.discover(ctx)
	return err == nil && (p.AuthTime || slices.Contains(m.ClaimsOffered, "auth_time"))
}

// config is the client at the provider.
func (p *openID) config(m *metadata, redirect string) (*oauth2.Config, error) {
	secret, err := p.secret()
	if err != nil {
		return nil, err
	}
	c := &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, RedirectURL: redirect, Endpoint: m.Endpoint(),
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.Scopes...)}
	if p.Issuer == Apple {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
		c.Scopes = append([]string{oidc.ScopeOpenID, "name", "email"}, p.Scopes...)
	}
	return c, nil
}

// Begin implements [personalpages.ProviderProtocol].
func (p *openID) Begin(ctx context.Context, r personalpages.ProviderRequest) (string, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	config, err := p.config(m, r.Redirect)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(r.Nonce), oauth2.S256ChallengeOption(r.Verifier)}
	if p.Issuer == Apple { // with any scope
		options = append(options, oauth2.SetAuthURLParam("response_mode", "form_post"))
	}
	if r.Fresh {
		options = append(options, oauth2.SetAuthURLParam("max_age", "0"), oauth2.SetAuthURLParam("prompt", "login"))
	}
	return config.AuthCodeURL(r.State, options...), nil
}

// claims are what the package reads of an ID token, or of the provider's user info.
type claims struct {
	AuthTime      int64      `json:"auth_time"`
	Party         string     `json:"azp"`
	Session       string     `json:"sid"`
	Login         string     `json:"preferred_username"`
	Name          string     `json:"name"`
	Email         string     `json:"email"`
	EmailVerified looseBool  `json:"email_verified"`
	Hosted        string     `json:"hd"`
	Class         string     `json:"acr"`
	Methods       looseTexts `json:"amr"`
}

// looseBool is a boolean that some providers send as text.
type looseBool bool

// UnmarshalJSON implements [json.Unmarshaler].
func (b *looseBool) UnmarshalJSON(data []byte) error {
	*b = strings.Trim(string(data), `"`) == "true"
	return nil
}

// looseTexts are texts, of which some providers send a single one.
type looseTexts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *looseTexts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*l = []string{one}
		return nil
	}
	var many []string
	if json.Unmarshal(data, &many) == nil {
		*l = many
	}
	return nil
}

// checkResponse returns an error for a response of another provider (RFC 9207), and for a refusal.
func checkResponse(response url.Values, issuer string, demanded bool) error {
	if iss := response.Get("iss"); iss != issuer && (iss != "" || demanded) {
		return errors.New("the response is another provider's")
	}
	switch refused := response.Get("error"); {
	case refused == "access_denied" || refused == "" && response.Get("code") == "":
		return personalpages.ErrProviderCancelled
	case refused == "temporarily_unavailable" || refused == "server_error":
		return down(errors.New(refused))
	case refused != "":
		return fmt.Errorf("the provider has refused: %.100q", refused)
	}
	return nil
}

// Finish implements [personalpages.ProviderProtocol].
func (p *openID) Finish(ctx context.Context, r personalpages.ProviderRequest, response url.Values) (user personalpages.ProviderUser, err error) {
	m, err := p.discover(ctx)
	if err != nil {
		return user, err
	}
	if err := checkResponse(response, p.Issuer, m.DemandsIss && !p.severalTenants()); err != nil {
		return user, err
	}
	config, err := p.config(m, r.Redirect)
	if err != nil {
		return user, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := exchange(ctx, config, response.Get("code"), r.Verifier)
	if err != nil {
		return user, err
	}
	signed, _ := token.Extra("id_token").(string)
	id, err := p.verifier(m).Verify(ctx, signed)
	if err != nil {
		return user, fmt.Errorf("the ID token: %w", err)
	}
	if id.Nonce != r.Nonce {
		return user, errors.New("the ID token is of another attempt")
	}
	var said claims
	if err := id.Claims(&said); err != nil {
		return user, err
	}
	if said.Party != "" && said.Party != p.ClientID { // OpenID Connect Core, section 3.1.3.7
		return user, errors.New("the ID token was issued to another client")
	}
	issuer, err := p.issuer(id.Issuer)
	if err != nil {
		return user, err
	}
	proven := said
	if said.Email == "" && m.UserInfoEndpoint() != "" {
		info, err := m.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject == id.Subject { // else another user's
			_ = info.Claims(&said) // it only fills in a form
		}
	}
	user = personalpages.ProviderUser{
		Identity: personal.Identity{Issuer: issuer, Subject: id.Subject}, Login: said.Login, Name: said.Name, Email: said.Email,
		EmailVerified: bool(said.EmailVerified) && p.isAuthority(said.Email, said.Hosted),
		SecondFactor:  slices.ContainsFunc(append(proven.Methods, proven.Class), func(v string) bool { return v != "" && slices.Contains(p.SecondFactor, v) }),
		Session:       proven.Session, Hint: signed,
	}
	if proven.AuthTime > 0 {
		user.AuthenticatedAt = time.Unix(proven.AuthTime, 0)
	}
	return bounds(user), nil
}

// bounds shortens what only fills in a form, and leaves out a session that is longer than the module takes.
func bounds(u personalpages.ProviderUser) personalpages.ProviderUser {
	for _, text := range []*string{&u.Login, &u.Name, &u.Email} {
		if *text = strings.ToValidUTF8(*text, ""); len(*text) > 254 {
			*text = ""
		}
	}
	u.EmailVerified = u.EmailVerified && u.Email != ""
	if len(u.Session) > personal.MaxProviderSession {
		u.Session = ""
	}
	return u
}

// exchange exchanges the code of a response for a token.
func exchange(ctx context.Context, config *oauth2.Config, code, verifier string) (*oauth2.Token, error) {
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err == nil {
		return token, nil
	}
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refused.Response != nil && refused.Response.StatusCode >= http.StatusInternalServerError {
		return nil, down(err)
	}
	return nil, fmt.Errorf("the provider has refused the code: status %d, error %.100q", refused.Response.StatusCode, refused.ErrorCode) // its own text may quote a secret
}

// SignOutURL implements [personalpages.ProviderProtocol].
func (p *openID) SignOutURL(ctx context.Context, hint, back string) string {
	m, err := p.discover(ctx)
	if err != nil || m.EndSession == "" {
		return ""
	}
	u, err := url.Parse(m.EndSession)
	if err != nil {
		return ""
	}
	query := u.Query()
	query.Set("client_id", p.ClientID)
	query.Set("post_logout_redirect_uri", back)
	if hint != "" {
		query.Set("id_token_hint", hint)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// SignedOut implements [personalpages.ProviderProtocol].
func (p *openID) SignedOut(ctx context.Context, token string) (whose personal.EndIdentitySessionsRequest, err error) {
	m, err := p.discover(ctx)
	if err != nil {
		return whose, err
	}
	logout, err := p.verifier(m).VerifyLogout(oidc.ClientContext(ctx, p.client), token)
	if err != nil {
		return whose, fmt.Errorf("the logout token: %w", err)
	}
	issuer, err := p.issuer(logout.Issuer)
	now := time.Now()
	switch {
	case err != nil:
		return whose, err
	case logout.Subject == "":
		return whose, errors.New("the logout token names no user: have the provider send sub with it")
	case logout.IssuedAt.Before(now.Add(-maxLogoutAge)) || logout.IssuedAt.After(now.Add(skew)):
		return whose, errors.New("the logout token was not issued just now: compare the clocks")
	case !p.used.first(logout.TokenID, now):
		return whose, errors.New("the logout token was used before")
	}
	if len(logout.SessionID) > personal.MaxProviderSession {
		logout.SessionID = ""
	}
	return personal.EndIdentitySessionsRequest{
		Identity: personal.Identity{Issuer: issuer, Subject: logout.Subject}, ProviderSession: logout.SessionID,
	}, nil
}

// maxLogoutAge is how long a logout token counts.
const maxLogoutAge = 2 * time.Minute

// usedTokens are the ids of the tokens that were used within maxLogoutAge and the skew. Only the provider can make some.
type usedTokens struct {
	mu  sync.Mutex
	ids map[string]time.Time
}

// first reports whether a token is used for the first time.
func (u *usedTokens) first(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[string]time.Time{}
	}
	for other, at := range u.ids {
		if now.Sub(at) > maxLogoutAge+2*skew {
			delete(u.ids, other)
		}
	}
	_, used := u.ids[id]
	u.ids[id] = now
	return !used
}
