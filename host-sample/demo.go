package main

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// greeting is the answer of /demo/greeting.
type greeting struct {
	UserID   int64  `json:"user_id"`
	Greeting string `json:"greeting"`
}

// greet shows how a page of the CMS's own is kept for signed-in users: RequireUser
// stands before it and has asked the plugin who that is.
func greet(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	name := user.Profile.Login
	if user.Profile.Name != nil {
		name = *user.Profile.Name
	}
	hello := "Hello, "
	if personal.CallFrom(r.Context()).Locale == "ru" {
		hello = "Здравствуйте, "
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, greeting{UserID: user.ID, Greeting: hello + name + "!"})
}
