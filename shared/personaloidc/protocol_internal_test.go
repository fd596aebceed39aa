package personaloidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

func someSecret() (string, error) { return "secret", nil }

func TestGitHub_NamesTheUserByNumber(t *testing.T) {
	var token string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login/oauth/access_token", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("client_secret") != "secret" || r.PostFormValue("code_verifier") != "verifier" || r.PostFormValue("code") != "code" {
			t.Errorf("got the request %v", r.PostForm)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(token))
	})
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			t.Error("the API got no token")
		}
		_, _ = w.Write([]byte(`{"id": 583231, "login": "octocat", "name": "Mona", "email": "public@example.com"}`))
	})
	mux.HandleFunc("GET /user/emails", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"email":"old@example.com","primary":false,"verified":true},{"email":"mona@example.com","primary":true,"verified":true}]`))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	g := newGitHub(Provider{Issuer: GitHub, ClientID: "id"}, someSecret)
	g.site, g.api = server.URL, server.URL
	request := personalpages.ProviderRequest{State: "state", Verifier: "verifier", Redirect: "https://site.example/callback"}

	at, err := g.Begin(t.Context(), request)
	if err != nil || !strings.HasPrefix(at, server.URL+"/login/oauth/authorize?") || !strings.Contains(at, "code_challenge_method=S256") {
		t.Fatalf("got %s, %v; want GitHub's page with a challenge", at, err)
	}
	token = `{"access_token":"access","token_type":"bearer","scope":"user:email"}`
	user, err := g.Finish(t.Context(), request, url.Values{"code": {"code"}})
	want := personalpages.ProviderUser{Identity: personal.Identity{Issuer: GitHub, Subject: "583231"}, Login: "octocat", Name: "Mona", Email: "mona@example.com"}
	if err != nil || user != want {
		t.Errorf("got %+v, %v; want %+v", user, err, want)
	}
	token = `{"error":"bad_verification_code","error_description":"The code passed is incorrect or expired."}` // with status 200
	if _, err = g.Finish(t.Context(), request, url.Values{"code": {"code"}}); err == nil || errors.Is(err, personalpages.ErrProviderDown) {
		t.Errorf("a code that GitHub refuses: got %v, want an error that is not an outage", err)
	}
	if _, err = g.Finish(t.Context(), request, url.Values{"code": {"code"}, "iss": {"https://other.example"}}); err == nil {
		t.Error("a response of another provider: got no error")
	}
	server.Close()
	if _, err = g.Finish(t.Context(), request, url.Values{"code": {"code"}}); !errors.Is(err, personalpages.ErrProviderDown) {
		t.Errorf("got %v, want that GitHub does not respond", err)
	}
}

func TestApple_SignsItsSecret(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "AuthKey.p8")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	make, err := Provider{Name: "apple", Issuer: Apple, ClientID: "com.example.site", TeamID: "TEAM", KeyID: "KEY", KeyFile: file}.secret()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := make()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(secret, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || parsed.Headers[0].KeyID != "KEY" {
		t.Fatalf("got %+v, %v", parsed, err)
	}
	var claims jwt.Claims
	if err := parsed.Claims(key.Public(), &claims); err != nil {
		t.Fatal(err)
	}
	if err := claims.Validate(jwt.Expected{Issuer: "TEAM", Subject: "com.example.site", AnyAudience: jwt.Audience{Apple}, Time: time.Now()}); err != nil {
		t.Error(err)
	}
}

// Microsoft's issuer of several tenants is none of them, and anyone can make one.
func TestMicrosoft_AdmitsTheListedTenantsAlone(t *testing.T) {
	const ours, theirs = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := ""
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "key", Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			keys.ServeHTTP(w, r)
			return
		}
		claims, _ := json.Marshal(map[string]any{"iss": issuer, "sub": "user", "aud": "id", "nonce": "nonce", "exp": time.Now().Add(time.Minute).Unix(),
			"email": "ceo@" + "example.com", "email_verified": true})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "id_token": oidctest.SignIDToken(key, "key", oidc.ES256, string(claims))})
	}))
	defer server.Close()
	keys.SetIssuer(server.URL)
	p := newOpenID(Provider{Issuer: microsoft + "organizations/v2.0", ClientID: "id", Tenants: []string{ours}}, someSecret)
	p.client.Transport = leadTo(server.URL)
	finish := func() (personalpages.ProviderUser, error) {
		return p.Finish(t.Context(), personalpages.ProviderRequest{Nonce: "nonce"}, url.Values{"code": {"code"}})
	}
	issuer = microsoft + ours + "/v2.0"
	user, err := finish()
	if err != nil || user.Issuer != issuer || user.EmailVerified || !p.Issues(issuer) {
		t.Errorf("got %+v, %v; want a user of %s without a verified e-mail", user, err, issuer)
	}
	for _, issuer = range []string{microsoft + theirs + "/v2.0", microsoft + "organizations/v2.0", microsoft + "common/v2.0", "https://evil.example/" + ours + "/v2.0"} {
		if user, err := finish(); err == nil {
			t.Errorf("%s: got %+v, want an error", issuer, user)
		}
	}
}

// leadTo sends every request to one server.
type leadTo string

func (l leadTo) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(string(l))
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	if i := strings.Index(r.URL.Path, "/.well-known"); i > 0 {
		r.URL.Path = r.URL.Path[i:]
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestProvider_IsAuthority(t *testing.T) {
	for _, test := range []struct {
		issuer, email, hosted string
		own                   []string
		want                  bool
	}{
		{issuer: Google, email: "ada@gmail.com", want: true},
		{issuer: Google, email: "ada@GMAIL.com", want: true},
		{issuer: Google, email: "ada@company.example", hosted: "company.example", want: true},
		{issuer: Google, email: "ada@other.example", hosted: "company.example"},
		{issuer: Google, email: "ada@company.example"},
		{issuer: Google, email: "ada@gmail.com@evil.example"},
		{issuer: Google, email: "gmail.com"},
		{issuer: Google, email: "@gmail.com"},
		{issuer: GitLab, email: "ada@gmail.com"},
		{issuer: GitLab, email: "ada@company.example", hosted: "company.example"},
		{issuer: GitLab, email: "ada@company.example", own: []string{"company.example"}, want: true},
		{issuer: GitLab, email: "ada@sub.company.example", own: []string{"company.example"}},
		{issuer: GitLab, email: "ada@", own: []string{"company.example"}},
		{issuer: GitLab, email: ""},
	} {
		p := Provider{Issuer: test.issuer, Authoritative: test.own}
		if got := p.isAuthority(test.email, test.hosted); got != test.want {
			t.Errorf("%s about %q (hd %q, own %v): got %t, want %t", test.issuer, test.email, test.hosted, test.own, got, test.want)
		}
	}
}

func TestProvider_SaysWhatIsInvalid(t *testing.T) {
	good := Provider{Name: "x", Issuer: "https://op.example", ClientID: "id"}
	for condition, test := range map[string]struct {
		change func(p *Provider)
		says   string
	}{
		"plain HTTP":                  {func(p *Provider) { p.Issuer = "http://op.example" }, "no https URL"},
		"no issuer":                   {func(p *Provider) { p.Issuer = "" }, "no https URL"},
		"no client":                   {func(p *Provider) { p.ClientID = "" }, "ClientID is missing"},
		"no such file":                {func(p *Provider) { p.SecretFile = "/missing" }, "SecretFile: open /missing"},
		"GitHub without a secret":     {func(p *Provider) { p.Issuer = GitHub }, "SecretFile is missing"},
		"an authority without domain": {func(p *Provider) { p.Authoritative = []string{"ada@op.example"} }, "such as example.com"},
		"all domains":                 {func(p *Provider) { p.Authoritative = []string{"*"} }, "such as example.com"},
		"all tenants":                 {func(p *Provider) { p.Issuer = microsoft + "common/v2.0" }, "list in Tenants"},
		"tenants of another":          {func(p *Provider) { p.Tenants = []string{"x"} }, "leave out Tenants"},
		"a tenant by its name":        {func(p *Provider) { p.Issuer, p.Tenants = microsoft+"common/v2.0", []string{"contoso"} }, "by its id"},
		"authority of all tenants": {func(p *Provider) {
			p.Issuer, p.Tenants, p.Authoritative = microsoft+"common/v2.0", []string{"11111111-2222-3333-4444-555555555555"}, []string{"company.example"}
		}, "leave out Authoritative"},
		"Microsoft's tenant by its name":      {func(p *Provider) { p.Issuer = microsoft + "contoso.example/v2.0" }, "the id of the tenant"},
		"Google with an authority of its own": {func(p *Provider) { p.Issuer, p.Authoritative = Google, []string{"company.example"} }, "leave out Authoritative"},
		"Apple without a key":                 {func(p *Provider) { p.Issuer = Apple }, "KeyFile"},
		"Apple's key for another":             {func(p *Provider) { p.TeamID = "T" }, "for Apple alone"},
	} {
		p := good
		test.change(&p)
		if _, err := p.open(); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", condition, err, test.says)
		}
	}
	for issuer, label := range map[string]string{
		Google: "Google", GitLab: "GitLab", microsoft + "11111111-2222-3333-4444-555555555555/v2.0": "Microsoft", "https://id.example/realms/staff": "Keycloak",
		"https://login.company.example/x": "login.company.example",
	} {
		made, err := Provider{Name: "x", Issuer: issuer, ClientID: "id"}.open()
		if err != nil || made.Label != label || (made.Icon == "") != (label == "login.company.example") {
			t.Errorf("%s: got %q with icon %t, %v; want %s", issuer, made.Label, made.Icon != "", err, label)
		}
	}
}

// A logout token counts until the sessions have ended, and while the provider's keys cannot be fetched it is not refused.
func TestSignedOut_CountsOnceItHasSucceeded(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "key", Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256}}
	down := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down && r.URL.Path == "/keys" {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		keys.ServeHTTP(w, r)
	}))
	defer server.Close()
	keys.SetIssuer(server.URL)
	p := newOpenID(Provider{Issuer: server.URL, ClientID: "id"}, someSecret)
	claims, err := json.Marshal(map[string]any{
		"iss": server.URL, "aud": "id", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "jti": "one", "sub": "user", "sid": "s",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	token := oidctest.SignIDToken(key, "key", oidc.ES256, string(claims))
	var ended []personal.EndIdentitySessionsRequest
	busy := errors.New("busy")
	fails := busy
	signOut := func() error {
		return p.SignedOut(t.Context(), token, func(_ context.Context, whose personal.EndIdentitySessionsRequest) error {
			ended = append(ended, whose)
			return fails
		})
	}
	if err := signOut(); !errors.Is(err, personalpages.ErrProviderDown) || len(ended) != 0 {
		t.Errorf("without keys: got %v and ended %v, want that the provider does not respond", err, ended)
	}
	down = false
	m, err := p.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.fetched.until = time.Time{} // some seconds later
	if err := signOut(); !errors.Is(err, busy) {
		t.Errorf("got %v, want the error of who ends sessions", err)
	}
	fails = nil
	if err := signOut(); err != nil {
		t.Errorf("again: got %v, want none", err)
	}
	if err := signOut(); err == nil || len(ended) != 2 {
		t.Errorf("a third time: got %v and ended %v, want an error", err, ended)
	}
	want := personal.EndIdentitySessionsRequest{Identity: personal.Identity{Issuer: server.URL, Subject: "user"}, ProviderSession: "s"}
	if ended[0] != want {
		t.Errorf("got %+v, want %+v", ended[0], want)
	}
}

// Keys are replaced: a new one is found a minute after the last request, and then no request is made for another minute.
func TestKeys_AreFetchedAgainAfterAMinute(t *testing.T) {
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	key, asked := newKey(), 0
	keys := &oidctest.Server{Algorithms: []string{oidc.ES256}}
	publish := func(id string) {
		keys.PublicKeys = []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: id, Algorithm: oidc.ES256}}
	}
	publish("first")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			asked++
		}
		keys.ServeHTTP(w, r)
	}))
	defer server.Close()
	keys.SetIssuer(server.URL)
	p := newOpenID(Provider{Issuer: server.URL, ClientID: "id"}, someSecret)
	m, err := p.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	verify := func(id string) error {
		claims, err := json.Marshal(map[string]any{"iss": server.URL, "aud": "id", "exp": time.Now().Add(time.Minute).Unix()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.verifier(m).Verify(t.Context(), oidctest.SignIDToken(key, id, oidc.ES256, string(claims)))
		return err
	}
	if err := verify("first"); err != nil || asked != 1 {
		t.Fatalf("got %v after %d requests, want none after 1", err, asked)
	}
	key = newKey()
	publish("second")
	if err := verify("second"); err == nil || asked != 1 {
		t.Errorf("within a minute: got %v after %d requests, want an error after 1", err, asked)
	}
	m.fetched.until = time.Now() // a minute later
	// go-oidc may still be about to forget its last request, whose result it would return again.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		err := verify("second")
		if err == nil && asked == 2 {
			break
		}
		if asked > 1 || time.Now().After(end) {
			t.Fatalf("after a minute: got %v after %d requests, want none after 2", err, asked)
		}
	}
}

// A provider that was down is asked again after some seconds. When its metadata are old they count on while it is down.
func TestDiscover_RecoversAndKeepsWhatItKnows(t *testing.T) {
	down, asked := true, make(chan struct{}, 10)
	keys := &oidctest.Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if down {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		keys.ServeHTTP(w, r)
	}))
	defer server.Close()
	keys.SetIssuer(server.URL)
	p := newOpenID(Provider{Issuer: server.URL, ClientID: "id"}, someSecret)
	later := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next = time.Now()
	}
	for range 3 {
		if _, err := p.discover(t.Context()); !errors.Is(err, personalpages.ErrProviderDown) {
			t.Fatalf("got %v, want that the provider does not respond", err)
		}
	}
	if len(asked) != 1 {
		t.Errorf("the provider was asked %d times within some seconds, want once", len(asked))
	}
	down = false
	later()
	known, err := p.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	later()
	if again, err := p.discover(t.Context()); err != nil || again != known {
		t.Errorf("old metadata while the provider is down: got %v, want them", err)
	}
}

// The client authenticates once, as the provider's metadata permit.
func TestConfig_ClientAuthentication(t *testing.T) {
	for condition, test := range map[string]struct {
		methods []string
		secret  string
		want    oauth2.AuthStyle
	}{
		"no metadata":     {nil, "secret", oauth2.AuthStyleInHeader},
		"both":            {[]string{"client_secret_post", "client_secret_basic"}, "secret", oauth2.AuthStyleInHeader},
		"post alone":      {[]string{"client_secret_post", "private_key_jwt"}, "secret", oauth2.AuthStyleInParams},
		"a public client": {[]string{"client_secret_basic"}, "", oauth2.AuthStyleInParams},
	} {
		p := newOpenID(Provider{ClientID: "id"}, func() (string, error) { return test.secret, nil })
		c, err := p.config(&metadata{Provider: &oidc.Provider{}, ClientAuth: test.methods}, "")
		if err != nil || c.Endpoint.AuthStyle != test.want {
			t.Errorf("%s: got %v, %v; want %v", condition, c.Endpoint.AuthStyle, err, test.want)
		}
	}
}

// A visitor who hangs up does not end the request for metadata, on which others wait.
func TestDiscover_DoesNotEndWithItsVisitor(t *testing.T) {
	asked, respond := make(chan struct{}), make(chan struct{})
	keys := &oidctest.Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-respond
		keys.ServeHTTP(w, r)
	}))
	defer server.Close()
	keys.SetIssuer(server.URL)
	p := newOpenID(Provider{Issuer: server.URL, ClientID: "id"}, someSecret)
	visitor, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := p.discover(visitor)
		gone <- err
	}()
	<-asked
	hangUp()
	if err := <-gone; !errors.Is(err, personalpages.ErrProviderDown) {
		t.Errorf("the visitor who has hung up: got %v", err)
	}
	waits := make(chan error)
	go func() {
		_, err := p.discover(t.Context())
		waits <- err
	}()
	close(respond)
	select {
	case err := <-waits:
		if err != nil {
			t.Errorf("the next visitor: got %v, want the metadata", err)
		}
	case <-asked:
		t.Error("the provider was asked twice")
	}
}
