// Command client registers a user, signs them in, refreshes the session, and reads and
// changes the profile. The package personal is generated, see oapi-codegen.yaml.
//
//	go run . URL    // such as http://127.0.0.1:8080/api/v1/personal
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/oapi-codegen/nullable"

	"example.com/client/personal"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: client URL")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	api, err := personal.NewClientWithResponses(url)
	if err != nil {
		return err
	}
	login, password := "go"+rand.Text()[:8], "correct horse"

	registered, err := api.PostRegisterWithResponse(ctx, nil, personal.RegisterParameters{
		Login: login, Email: login + "@example.com", Password: password, ConfirmPassword: password,
		City: nullable.NewNullableWithValue(personal.RegisterParametersCity("kazan")), // a user field
	})
	if err != nil {
		return err
	}
	if registered.JSON200 == nil {
		return fmt.Errorf("register: %s %s", registered.Status(), registered.Body)
	}
	if registered.JSON200.Data == nil { // the site requires a verified e-mail
		return errors.New(registered.JSON200.Result.MESSAGE)
	}

	// Each error has its own type: here that of a 401.
	refused, err := api.PostAuthWithResponse(ctx, nil, personal.AuthParameters{Login: login, Password: "wrong"})
	if err != nil {
		return err
	}
	if refused.JSON401 == nil {
		return fmt.Errorf("auth with a wrong password: %s %s", refused.Status(), refused.Body)
	}
	fmt.Println("refused:", refused.JSON401.Result.CODE)

	signedIn, err := api.PostAuthWithResponse(ctx, nil, personal.AuthParameters{Login: login, Password: password})
	if err != nil {
		return err
	}
	if signedIn.JSON200 == nil {
		return fmt.Errorf("auth: %s %s", signedIn.Status(), signedIn.Body)
	}
	user := session{signedIn.JSON200.Data.UserId, signedIn.JSON200.Data.UserHash}

	refreshed, err := api.PostAuthRefreshWithResponse(ctx, nil, user.sign)
	if err != nil {
		return err
	}
	if refreshed.JSON200 == nil {
		return fmt.Errorf("auth_refresh: %s %s", refreshed.Status(), refreshed.Body)
	}
	user.hash = refreshed.JSON200.Data.UserHash // from now on

	saved, err := api.PostProfileWithResponse(ctx, nil, personal.ProfileParameters{
		Name: nullable.NewNullableWithValue("Ada"),
		City: nullable.NewNullNullable[personal.ProfileParametersCity](), // clears the field
	}, user.sign)
	if err != nil {
		return err
	}
	if saved.JSON200 == nil {
		return fmt.Errorf("changing the profile: %s %s", saved.Status(), saved.Body)
	}

	read, err := api.GetProfileWithResponse(ctx, nil, user.sign)
	if err != nil {
		return err
	}
	if read.JSON200 == nil {
		return fmt.Errorf("profile: %s %s", read.Status(), read.Body)
	}
	profile := read.JSON200.Data.UserProfile
	fmt.Printf("registered in: %s\n", registered.JSON200.Data.UserProfile.City.MustGet())
	fmt.Printf("name: %s, city cleared: %t\n", profile.Name.MustGet(), profile.City.IsNull())
	return nil
}

// session is the pair that identifies a user.
type session struct {
	id   int64
	hash string
}

// sign adds the pair to a request.
func (s session) sign(_ context.Context, r *http.Request) error {
	r.Header.Set("User-Id", fmt.Sprint(s.id))
	r.Header.Set("User-Hash", s.hash)
	return nil
}
