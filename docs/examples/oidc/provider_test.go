package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"golang.org/x/oauth2"
)

// fakeProvider is an OpenID provider whose user is always signed in, and which can lie.
type fakeProvider struct {
	*oidctest.Server // discovery and keys
	url              string
	key              *ecdsa.PrivateKey

	reuses bool // a code works more than once

	mu    sync.Mutex
	user  map[string]any              // claims about the user
	alter func(claims map[string]any) // changes the claims of the next ID token; may be nil
	adds  url.Values                  // to the response
	codes map[string]url.Values       // the requests whose codes were not used, by code
}

const clientID, keyID = "example", "key"

func newFakeProvider(t *testing.T) *fakeProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &fakeProvider{key: key, codes: map[string]url.Values{}, Server: &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: keyID, Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256},
	}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	p.SetIssuer(p.url)
	return p
}

// is sets who signs in at the provider.
func (p *fakeProvider) is(subject, email string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = map[string]any{
		"sub": subject, "email": email, "email_verified": true, "preferred_username": subject, "auth_time": time.Now().Unix(),
	}
}

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/auth":
		request := r.URL.Query()
		code := rand.Text()
		p.codes[code] = request
		response := url.Values{"code": {code}, "state": {request.Get("state")}}
		for name, values := range p.adds {
			response[name] = values
		}
		http.Redirect(w, r, request.Get("redirect_uri")+"?"+response.Encode(), http.StatusFound)
	case "/token":
		p.token(w, r)
	default:
		p.Server.ServeHTTP(w, r)
	}
}

func (p *fakeProvider) token(w http.ResponseWriter, r *http.Request) {
	request, ok := p.codes[r.PostFormValue("code")]
	if !p.reuses {
		delete(p.codes, r.PostFormValue("code"))
	}
	if !ok || request.Get("code_challenge_method") != "S256" ||
		oauth2.S256ChallengeFromVerifier(r.PostFormValue("code_verifier")) != request.Get("code_challenge") {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": p.url, "aud": clientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"nonce": request.Get("nonce")}
	for name, value := range p.user {
		claims[name] = value
	}
	if p.alter != nil {
		p.alter(claims)
	}
	data, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": oidctest.SignIDToken(p.key, keyID, oidc.ES256, string(data)),
	})
}
