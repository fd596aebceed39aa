package pluginmanager_test

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// A content management system loads the plugin and serves the API before its own
// router, which may clean paths and redirect.
func Example() {
	serve := func(ctx context.Context, cms personal.Host, pages http.Handler) error {
		catalogue, err := plugincatalogue.Open("data/plugins/personal")
		if err != nil {
			return fmt.Errorf("opening the plugin catalogue: %w", err)
		}
		manager, err := pluginmanager.New(pluginmanager.Config{
			Catalogue:   catalogue,
			Host:        cms, // your user fields, your mail, your events
			DatabaseURL: os.Getenv("DATABASE_URL"),
			RunDir:      "data/run",
		})
		if err != nil {
			return err
		}
		if err := manager.Start(); err != nil {
			return err
		}
		defer manager.Stop(context.WithoutCancel(ctx))

		api, err := personalhttp.New(pluginrpc.NewService(manager, cms), personalhttp.Options{})
		if err != nil {
			return err
		}
		return http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if api.Matches(r) {
				api.ServeHTTP(w, r)
				return
			}
			pages.ServeHTTP(w, r)
		}))
	}
	_ = serve
}
