package personaladmin

import (
	"errors"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
)

// GuardUser returns a [Config].Guard that admits the signed-in users for whom is returns true; their
// name is their login. The request's context has the user ([personalhttp.UserFrom]): mount the
// pages behind RequireUser of the account pages, which leads others to the sign-in.
func GuardUser(is func(personalhttp.User) bool) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		user, ok := personalhttp.UserFrom(r.Context())
		switch {
		case !ok:
			return "", errors.New("no user is signed in")
		case !is(user):
			return "", errors.New("the user is no administrator")
		}
		return user.Profile.Login, nil
	}
}
