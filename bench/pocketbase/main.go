// Command pocketbase is PocketBase with its defaults, for comparison:
//
//	pocketbase serve --http 127.0.0.1:8090 --dir FOLDER
package main

import (
	"fmt"
	"os"

	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/core"
)

func main() {
	app := pocketbase.NewWithConfig(pocketbase.Config{HideStartBanner: true})
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it opens a browser
		return e.Next()
	})
	if err := app.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pocketbase:", err)
		os.Exit(1)
	}
}
