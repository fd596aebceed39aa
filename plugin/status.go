package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cms-personal/personal/internal/store"
)

type statusCommand struct{ databaseFlag }

// Run tells what is in the database.
func (c statusCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.find(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	found, _, err := db.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if found == 0 {
		_, err = fmt.Fprintln(w, "The database has no schema yet.")
		return err
	}
	all, bare, err := db.CountAccounts(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "schema    %d; this program is made for %d\naccounts  %d\nto wrap   %d MD5 hashes, done in the background while a plugin serves\n",
		found, store.SchemaTarget, all, bare)
	return err
}
