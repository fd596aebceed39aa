package personaloidc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// openID speaks OpenID Connect with a provider: the authorization code flow with PKCE.
type openID struct {
	Provider
	secret clientSecret
	client *http.Client
	used   usedTokens

	asking singleflight.Group
	mu     sync.Mutex
	known  *metadata // nil until the provider has responded once
	failed error     // of the latest request
	next   time.Time // of the next request
}

// metadata are those of a provider.
type metadata struct {
	*oidc.Provider
	keys    oidc.KeySet
	fetched *keyFetcher // them

	DemandsIss    bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	ClaimsOffered []string `json:"claims_supported"`
	EndSession    string   `json:"end_session_endpoint"`
	Keys          string   `json:"jwks_uri"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	ClientAuth    []string `json:"token_endpoint_auth_methods_supported"`
}

const (
	requestTimeout   = 10 * time.Second
	retryAfterFault  = 5 * time.Second // all visitors get the same answer
	metadataLifetime = 24 * time.Hour  // endpoints move; the old ones count until the provider responds
	keysInterval     = time.Minute     // between two requests for keys
	skew             = time.Minute     // by which the clocks of a provider and of this host may differ
	maxResponse      = 1 << 20         // bytes of a provider's response
	maxQuoted        = 200             // bytes of what others have written, in errors
)

func newOpenID(p Provider, secret clientSecret) *openID {
	return &openID{Provider: p, secret: secret, client: newClient(http.DefaultTransport)}
}

// newClient returns a client whose responses are bounded.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: bounded{transport}, Timeout: requestTimeout}
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

// down says that the provider does not respond. What it has sent may be long.
func down(err error) error {
	return fmt.Errorf("%w: %.*s", personalpages.ErrProviderDown, maxQuoted, err.Error())
}

// discover returns the provider's metadata. It asks until it has got them, so that the site starts while the provider
// is down. The request does not end with the visitor who has caused it, and others wait for the same one.
func (p *openID) discover(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	known, failed, due := p.known, p.failed, !time.Now().Before(p.next)
	p.mu.Unlock()
	switch {
	case known != nil && !due:
		return known, nil
	case !due:
		return nil, down(failed)
	}
	asked := p.asking.DoChan("", func() (any, error) { return nil, p.ask(context.Background()) })
	if known != nil { // the old ones do until then
		return known, nil
	}
	select {
	case <-ctx.Done():
		return nil, down(ctx.Err())
	case <-asked:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		return nil, down(p.failed)
	}
	return p.known, nil
}

// ask asks the provider for its metadata.
func (p *openID) ask(ctx context.Context) error {
	m, err := p.fetch(oidc.ClientContext(ctx, p.client))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed, p.next = err, time.Now().Add(retryAfterFault)
	if err == nil {
		p.known, p.next = m, time.Now().Add(metadataLifetime)
	}
	return err
}

func (p *openID) fetch(ctx context.Context) (*metadata, error) {
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
	m.fetched = &keyFetcher{next: p.client.Transport, url: m.Keys}
	m.keys = oidc.NewRemoteKeySet(oidc.ClientContext(ctx, &http.Client{Transport: m.fetched, Timeout: requestTimeout}), m.Keys)
	return m, nil
}

// keyFetcher fetches a provider's keys once in keysInterval at most, and in between has what it fetched last: anyone can
// send a logout token with an unknown key.
type keyFetcher struct {
	next http.RoundTripper
	url  string

	mu    sync.Mutex
	body  []byte // nil until the provider has responded once
	until time.Time
}

// RoundTrip implements [http.RoundTripper].
func (k *keyFetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	body, early := k.body, time.Now().Before(k.until)
	k.mu.Unlock()
	switch {
	case r.URL.String() != k.url || !early: // a redirect, or time for another request
	case body == nil:
		return nil, errors.New("the provider's keys could not be fetched a moment ago")
	default:
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
	}
	response, err := k.next.RoundTrip(r)
	switch {
	case err == nil && response.StatusCode == http.StatusOK:
		body, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	case err == nil && response.StatusCode < http.StatusBadRequest:
		return response, nil // a redirect
	default:
		k.keep(nil)
		return response, err
	}
	if err != nil {
		k.keep(nil)
		return nil, err
	}
	k.keep(body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// keep keeps what was fetched; nil if that has failed: what was fetched before stays.
func (k *keyFetcher) keep(body []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Now().Add(retryAfterFault)
	if body != nil {
		k.body, k.until = body, time.Now().Add(keysInterval)
	}
}

// refused returns the error of a token that was refused. It may be that there were no keys to check it with, which
// go-oidc says in words only.
func refused(token string, err error) error {
	if strings.Contains(err.Error(), "fetching keys") {
		return down(err)
	}
	return fmt.Errorf("the %s: %.*s", token, maxQuoted, err.Error())
}

// verifier checks tokens of the provider: algorithm, signature, issuer, audience and time.
func (p *openID) verifier(m *metadata) *oidc.IDTokenVerifier {
	c := &oidc.Config{
		ClientID: p.ClientID, SkipIssuerCheck: p.severalTenants(), // see issuer
		Now: func() time.Time { return time.Now().Add(-skew) },
	}
	c.SupportedSigningAlgs = slices.DeleteFunc(slices.Clone(m.Algorithms), func(alg string) bool {
		return alg == "none" || strings.HasPrefix(alg, "HS")
	})
	return oidc.NewVerifier(p.Issuer, m.keys, c)
}

// issuer returns the issuer of an identity, of a token that the verifier has checked.
func (p *openID) issuer(of string) (string, error) {
	if !p.severalTenants() {
		return p.Issuer, nil // Google has two names of its own
	}
	if !p.Issues(of) {
		return "", fmt.Errorf("the issuer %.*q of the token belongs to none of the Tenants", maxQuoted, of)
	}
	return of, nil
}

// Issues implements [personalpages.ProviderProtocol].
func (p *openID) Issues(issuer string) bool {
	if !p.severalTenants() {
		return issuer == p.Issuer
	}
	return slices.Contains(p.Tenants, tenantOf(issuer))
}

// Proves implements [personalpages.ProviderProtocol].
func (p *openID) Proves(ctx context.Context) bool {
	m, err := p.discover(ctx)
	offered := err == nil && slices.Contains(m.ClaimsOffered, "auth_time") && !strings.HasPrefix(p.Issuer, microsoft) // which always says so
	return err == nil && p.AuthTime || offered
}

// config is the client at the provider.
func (p *openID) config(m *metadata, redirect string) (*oauth2.Config, error) {
	secret, err := p.secret()
	if err != nil {
		return nil, err
	}
	c := &oauth2.Config{ClientID: p.ClientID, ClientSecret: secret, RedirectURL: redirect, Endpoint: m.Endpoint(),
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.Scopes...)}
	// Otherwise oauth2 tries both, and uses the code twice.
	c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default (OpenID Connect Discovery, section 3)
	if secret == "" || !slices.Contains(m.ClientAuth, "client_secret_basic") && slices.Contains(m.ClientAuth, "client_secret_post") {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	if p.Issuer == Apple {
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
func checkResponse(response url.Values, issues func(issuer string) bool, demanded bool) error {
	if iss := response.Get("iss"); (iss != "" || demanded) && !issues(iss) {
		return errors.New("iss of the response is another provider's, or missing")
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
	if err := checkResponse(response, func(iss string) bool { return iss == p.Issuer || p.Issues(iss) }, m.DemandsIss); err != nil {
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
		return user, refused("ID token", err)
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
	if len(id.Subject) > maxText {
		return user, errors.New("the subject is too long") // OpenID Connect Core, section 2: 255 characters
	}
	if said.Email == "" && m.UserInfoEndpoint() != "" {
		info, err := m.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if more := (claims{}); err == nil && info.Subject == id.Subject && info.Claims(&more) == nil { // else another user's
			said.Login, said.Name = cmp.Or(said.Login, more.Login), cmp.Or(said.Name, more.Name)
			said.Email, said.EmailVerified, said.Hosted = more.Email, more.EmailVerified, more.Hosted
		}
	}
	user = personalpages.ProviderUser{
		Identity: personal.Identity{Issuer: issuer, Subject: id.Subject}, Login: said.Login, Name: said.Name, Email: said.Email,
		EmailVerified: bool(said.EmailVerified) && p.isAuthority(said.Email, said.Hosted),
		SecondFactor:  slices.ContainsFunc(append(said.Methods, said.Class), func(v string) bool { return v != "" && slices.Contains(p.SecondFactor, v) }),
		Session:       said.Session,
	}
	if m.EndSession != "" { // else it only makes the response's header long, more than proxies take
		user.Hint = signed
	}
	if said.AuthTime > 0 {
		user.AuthenticatedAt = time.Unix(said.AuthTime, 0)
	}
	return bounds(user), nil
}

// bounds leaves out what is too long for a cookie, and what cannot be read: it only fills in a form and names the user.
func bounds(u personalpages.ProviderUser) personalpages.ProviderUser {
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}
	u.Login, _, _ = strings.Cut(u.Login, "@") // logins have none
	for _, text := range []*string{&u.Login, &u.Name, &u.Email} {
		if clean := strings.Map(printable, strings.ToValidUTF8(*text, "")); clean != *text || len(clean) > maxText {
			*text = ""
		}
	}
	u.EmailVerified = u.EmailVerified && u.Email != ""
	if len(u.Session) > personal.MaxProviderSession {
		u.Session = ""
	}
	return u
}

// maxText bounds a subject, a name, a login or an e-mail, in bytes.
const maxText = 255

// exchange exchanges the code of a response for a token.
func exchange(ctx context.Context, config *oauth2.Config, code, verifier string) (*oauth2.Token, error) {
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err == nil {
		return token, nil
	}
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return nil, down(err)
	case refused.Response.StatusCode >= http.StatusInternalServerError:
		return nil, down(errors.New(refused.Response.Status)) // the body may quote a secret
	}
	return nil, fmt.Errorf("the provider has refused the code: %s, error %.100q", refused.Response.Status, refused.ErrorCode)
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
func (p *openID) SignedOut(ctx context.Context, token string, end func(context.Context, personal.EndIdentitySessionsRequest) error) error {
	m, err := p.discover(ctx)
	if err != nil {
		return err
	}
	logout, err := p.verifier(m).VerifyLogout(ctx, token)
	if err != nil {
		return refused("logout token", err)
	}
	issuer, err := p.issuer(logout.Issuer)
	now := time.Now()
	switch {
	case err != nil:
		return err
	case logout.Subject == "":
		return errors.New("the logout token names no user: have the provider send sub with it")
	case logout.IssuedAt.Before(now.Add(-maxLogoutAge)) || logout.IssuedAt.After(now.Add(skew)):
		return errors.New("the logout token is older than two minutes, or of the future: compare the clocks")
	case !p.used.add(logout.TokenID, now):
		return errors.New("the logout token was used before")
	}
	if len(logout.SessionID) > personal.MaxProviderSession {
		logout.SessionID = ""
	}
	err = end(ctx, personal.EndIdentitySessionsRequest{
		Identity: personal.Identity{Issuer: issuer, Subject: logout.Subject}, ProviderSession: logout.SessionID,
	})
	if err != nil { // the provider sends it again
		p.used.remove(logout.TokenID)
	}
	return err
}

// maxLogoutAge is how long a logout token counts.
const maxLogoutAge = 2 * time.Minute

// usedTokens are the ids of the tokens that were used on this node and may still count. Only the provider can make some.
type usedTokens struct {
	mu  sync.Mutex
	ids map[string]time.Time
}

// add reports whether a token was not used before.
func (u *usedTokens) add(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.ids, func(_ string, at time.Time) bool { return now.Sub(at) > maxLogoutAge+2*skew })
	if _, used := u.ids[id]; used {
		return false
	}
	if u.ids == nil {
		u.ids = map[string]time.Time{}
	}
	u.ids[id] = now
	return true
}

func (u *usedTokens) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ids, id)
}
