package personaloidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
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

	reuses   bool // a code works more than once
	unsigned bool // ID tokens have the algorithm none
	refuses  bool // the user does not sign in

	requests []url.Values   // for the provider's page
	asked    map[string]int // requests by path

	metadata map[string]any // added to them
	info     map[string]any // what the user info says

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
	p := &fakeProvider{key: key, codes: map[string]url.Values{}, asked: map[string]int{}, metadata: map[string]any{}, Server: &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: keyID, Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256},
	}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	p.SetIssuer(p.url)
	return p
}

// sign signs claims as the provider does.
func (p *fakeProvider) sign(claims map[string]any) string {
	data, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	if p.unsigned {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(data) + "."
	}
	return oidctest.SignIDToken(p.key, keyID, oidc.ES256, string(data))
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
	p.asked[r.URL.Path]++
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		recorded := httptest.NewRecorder()
		p.Server.ServeHTTP(recorded, r)
		var document map[string]any
		if err := json.Unmarshal(recorded.Body.Bytes(), &document); err != nil {
			panic(err)
		}
		document["end_session_endpoint"] = p.url + "/end"
		document["claims_supported"] = []string{"sub", "auth_time"}
		for name, value := range p.metadata {
			document[name] = value
		}
		_ = json.NewEncoder(w).Encode(document)
	case "/info":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.info)
	case "/auth":
		request := r.URL.Query()
		p.requests = append(p.requests, request)
		if p.refuses {
			http.Redirect(w, r, request.Get("redirect_uri")+"?"+url.Values{"error": {"access_denied"}, "state": {request.Get("state")}}.Encode(), http.StatusFound)
			return
		}
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
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(claims),
	})
}
