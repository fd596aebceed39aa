package personaloidc_test

import (
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/personalpages"
)

// providers are those at which the site is registered.
var providers = []personaloidc.Provider{
	{Name: "google", Issuer: personaloidc.Google, ClientID: "…", SecretFile: "google.secret"},
	{Name: "github", Issuer: personaloidc.GitHub, ClientID: "…", SecretFile: "github.secret"},
	{Name: "staff", Issuer: "https://login.example.com", Label: "Example Inc.", ClientID: "…", SecretFile: "staff.secret"},
}

// Account pages on which users sign in with Google, with GitHub, or with the OpenID provider of a company.
func Example() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = personaloidc.New(module, account, personaloidc.Config{Providers: providers})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	site := module.Front(pages)

	anna := visit(site)
	anna.Get("/account/sign-in")
	anna.Links("/account/providers/")
	// Output:
	// /account/sign-in 200 Sign in · Your account
	// /account/providers/google Continue with Google
	// /account/providers/github Continue with GitHub
	// /account/providers/staff Continue with Example Inc.
}
