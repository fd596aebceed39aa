package personalhttp_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// A content management system mounts the API in front of its own router, because
// routers clean paths and redirect, and protects its own pages with RequireUser.
func Example() {
	service := &personaltest.Service{} // in earnest: the client of the plugin
	api, err := personalhttp.New(service, personalhttp.Options{DefaultLocale: "en"})
	if err != nil {
		log.Fatal(err)
	}

	pages := http.NewServeMux()
	pages.Handle("GET /my/orders", api.RequireUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := personalhttp.UserFrom(r.Context())
		fmt.Fprintf(w, "Orders of %s", user.Profile.Login)
	})))
	site := api.Front(pages)

	recorder := httptest.NewRecorder()
	site.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/my/orders", nil))
	fmt.Println(recorder.Code, recorder.Body)
	// Output:
	// 401 {"success":0,"result":{"TYPE":"ERROR","MESSAGE":"You are not signed in, or your session has ended. Please sign in.","CODE":"unauthenticated"}}
}
