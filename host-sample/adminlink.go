package main

import (
	"context"
	"fmt"
	"net/http"
)

// adminLinkCommand asks the running host for a link.
type adminLinkCommand struct {
	Data string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder of the running host (${default})."`
}

// Run prints the link.
func (a *adminLinkCommand) Run(ctx context.Context, out output) error {
	dir, err := absolute(a.Data)
	if err != nil {
		return &settingError{key: "data", err: err}
	}
	host, err := findHost(dir)
	if err != nil {
		return err
	}
	var link adminLink
	if _, err := host.ask(ctx, http.MethodPost, "/admin/api/link", nil, &link); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out.stdout, link.URL)
	return err
}
