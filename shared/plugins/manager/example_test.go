package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// A content management system that does without personalhost.Open loads the plugin and
// serves the API in front of its own router.
func Example() {
	serve := func(ctx context.Context, cms personal.Host, account http.Handler) error {
		catalogue, err := catalogue.Open("data/plugins/personal")
		if err != nil {
			return fmt.Errorf("opening the plugin catalogue: %w", err)
		}
		manager, err := manager.New(manager.Config{
			Catalogue:   catalogue,
			Host:        cms,                                                            // your user fields, your mail, your events
			DatabaseURL: os.Getenv("DATABASE_URL"),                                      // postgres://… or sqlite://data/personal.db
			Settings:    func() ([]byte, error) { return os.ReadFile("personal.toml") }, // recovery.url and email.url at least
			RunDir:      "data/run",
		})
		if err != nil {
			return err
		}
		if err := manager.Start(); err != nil {
			return err
		}
		defer manager.Stop(context.WithoutCancel(ctx)) // behind the server: its last requests still need the plugin
		if err := manager.WaitReady(ctx); err != nil {
			return err // a bad setting, say, which it names
		}

		api, err := personalhttp.New(rpc.NewClient(manager, cms), personalhttp.Options{})
		if err != nil {
			return err
		}
		pages := http.NewServeMux()
		pages.Handle("/account/", api.RequireUser(account)) // your page, for signed-in users
		server := &http.Server{Addr: ":8080", ReadTimeout: 30 * time.Second, Handler: api.Front(pages)}
		stopped := make(chan error, 1)
		context.AfterFunc(ctx, func() { stopped <- server.Shutdown(context.WithoutCancel(ctx)) })
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return <-stopped
	}
	_ = serve
}
