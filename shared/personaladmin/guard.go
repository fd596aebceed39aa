package personaladmin

import (
	"errors"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
)

// IsPoll reports whether the script of an open page sends a request, to update what is live, and not
// the administrator. A [Config].Guard whose sessions end without use does not count it as one.
func IsPoll(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("HX-Request") == "true"
}

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
