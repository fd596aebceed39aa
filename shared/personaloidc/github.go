package personaloidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/oauth2"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// gitHub speaks OAuth 2.0 with GitHub, which has no ID tokens: its API names the user by a number. A login there can
// get a new owner, and so can an e-mail.
type gitHub struct {
	Provider
	secret    clientSecret
	client    *http.Client
	site, api string
}

func newGitHub(p Provider, secret clientSecret) *gitHub {
	return &gitHub{Provider: p, secret: secret, client: newClient(http.DefaultTransport), site: GitHub, api: "https://api.github.com"}
}

func (g *gitHub) config(redirect string) (*oauth2.Config, error) {
	secret, err := g.secret()
	return &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: secret, RedirectURL: redirect, Scopes: append([]string{"user:email"}, g.Scopes...),
		Endpoint: oauth2.Endpoint{AuthURL: g.site + "/login/oauth/authorize", TokenURL: g.site + "/login/oauth/access_token",
			AuthStyle: oauth2.AuthStyleInParams},
	}, err
}

// Begin implements [personalpages.ProviderProtocol].
func (g *gitHub) Begin(_ context.Context, r personalpages.ProviderRequest) (string, error) {
	config, err := g.config(r.Redirect)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(r.State, oauth2.S256ChallengeOption(r.Verifier)), nil
}

// Finish implements [personalpages.ProviderProtocol].
func (g *gitHub) Finish(ctx context.Context, r personalpages.ProviderRequest, response url.Values) (user personalpages.ProviderUser, err error) {
	if err := checkResponse(response, func(iss string) bool { return iss == g.site+"/login/oauth" }, false); err != nil {
		return user, err
	}
	config, err := g.config(r.Redirect)
	if err != nil {
		return user, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, g.client)
	token, err := exchange(ctx, config, response.Get("code"), r.Verifier)
	if err != nil {
		return user, err
	}
	client := config.Client(ctx, token)
	var who struct {
		ID          int64
		Login, Name string
	}
	if err := g.get(ctx, client, "/user", &who); err != nil {
		return user, err
	}
	if who.ID <= 0 {
		return user, errors.New("GitHub has named no user")
	}
	var emails []struct {
		Email             string
		Primary, Verified bool
	}
	_ = g.get(ctx, client, "/user/emails", &emails) // it only fills in a form
	user = personalpages.ProviderUser{
		Identity: personal.Identity{Issuer: GitHub, Subject: strconv.FormatInt(who.ID, 10)}, Login: who.Login, Name: who.Name,
	}
	for _, e := range emails {
		if e.Primary && e.Verified {
			user.Email = e.Email
		}
	}
	return bounds(user), nil
}

// get reads a document of the API.
func (g *gitHub) get(ctx context.Context, client *http.Client, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.api+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	response, err := client.Do(r)
	if err != nil {
		return down(err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return down(fmt.Errorf("GitHub has responded to %s with %s", path, response.Status))
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("GitHub has responded to %s with %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// Proves implements [personalpages.ProviderProtocol].
func (*gitHub) Proves(context.Context) bool { return false }

// Issues implements [personalpages.ProviderProtocol].
func (*gitHub) Issues(issuer string) bool { return issuer == GitHub }

// SignOutURL implements [personalpages.ProviderProtocol].
func (*gitHub) SignOutURL(context.Context, string, string) string { return "" }

// SignedOut implements [personalpages.ProviderProtocol].
func (*gitHub) SignedOut(context.Context, string, func(context.Context, personal.EndIdentitySessionsRequest) error) error {
	return errors.New("GitHub sends no logout tokens")
}
