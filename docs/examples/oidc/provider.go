package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cms-personal/personal/shared/personal"
)

// provider is the site's registration at an OpenID provider.
type provider struct {
	name             string // for people
	issuer, callback string
	client, secret   string
}

func readSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	return strings.TrimSpace(string(data)), err
}

// timeout bounds the requests to the provider for one page.
const timeout = 10 * time.Second

// relyingParty speaks OpenID Connect with a provider: the authorization code flow with PKCE.
type relyingParty struct {
	provider
	mu         sync.Mutex
	discovered *oidc.Provider
	demandsIss bool // the provider names itself in each response (RFC 9207)
}

// discover returns the provider and its endpoints. It asks until it has got an answer, so that the
// site starts while the provider is down.
func (p *relyingParty) discover(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered == nil {
		found, err := oidc.NewProvider(ctx, p.issuer)
		if err != nil {
			return nil, nil, err
		}
		var more struct {
			Iss bool `json:"authorization_response_iss_parameter_supported"`
		}
		if err := found.Claims(&more); err != nil {
			return nil, nil, err
		}
		p.discovered, p.demandsIss = found, more.Iss
	}
	return p.discovered, &oauth2.Config{
		ClientID: p.client, ClientSecret: p.secret, RedirectURL: p.callback, Endpoint: p.discovered.Endpoint(),
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}, nil
}

// begin returns the URL at which the user signs in, and puts what proves the response into the
// attempt.
func (p *relyingParty) begin(ctx context.Context, a *attempt) (string, error) {
	_, config, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	a.State, a.Nonce, a.Verifier = newSecret(), newSecret(), oauth2.GenerateVerifier()
	return config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// person is a user as the provider has authenticated them.
type person struct {
	personal.Identity
	Authenticated time.Time // zero: unknown
	// Name and Email are what the provider says about them. They only fill in a form: they
	// prove nothing, also if the provider says that the e-mail is verified.
	Name, Email string
}

// finish returns the user whom the response to the attempt is about.
func (p *relyingParty) finish(ctx context.Context, a attempt, response url.Values) (person, error) {
	found, config, err := p.discover(ctx)
	if err != nil {
		return person{}, err
	}
	if iss := response.Get("iss"); iss != p.issuer && (iss != "" || p.demandsIss) {
		return person{}, errors.New("the response is another provider's")
	}
	if refused := response.Get("error"); refused != "" {
		return person{}, fmt.Errorf("the provider has refused: %q", refused)
	}
	token, err := config.Exchange(ctx, response.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return person{}, err
	}
	signed, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.client}).Verify(ctx, signed) // issuer, audience, time, signature
	if err != nil {
		return person{}, err
	}
	if !equal(id.Nonce, a.Nonce) {
		return person{}, errors.New("the ID token is of another attempt")
	}
	var claims struct {
		AuthTime int64  `json:"auth_time"`
		Name     string `json:"preferred_username"`
		Email    string `json:"email"`
	}
	if err := id.Claims(&claims); err != nil {
		return person{}, err
	}
	who := person{Identity: personal.Identity{Issuer: id.Issuer, Subject: id.Subject}, Name: claims.Name, Email: claims.Email}
	if claims.AuthTime > 0 {
		who.Authenticated = time.Unix(claims.AuthTime, 0)
	}
	return who, nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
