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
	if err != nil {
		return err
	}
	return printMisplaced(ctx, w, db)
}

// maxMisplaced is how many logins are listed.
const maxMisplaced = 100

// printMisplaced lists logins with an @ that are not their account's own e-mail.
func printMisplaced(ctx context.Context, w io.Writer, db *store.Store) error {
	found, err := db.MisplacedLogins(ctx, maxMisplaced+1)
	if err != nil || len(found) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nThese logins contain an @ and are not the e-mail of their account. Nobody can sign in with them.\n"+
		"If the user owns the address, set it as the e-mail of the account. Otherwise the user signs in with the e-mail\n"+
		"that the account has (login.with_email); consider deleting an account that has none:")
	for _, m := range found[:min(len(found), maxMisplaced)] {
		fmt.Fprintf(w, "  account %d  %q\n", m.ID, m.Login)
	}
	if len(found) > maxMisplaced {
		_, err = fmt.Fprintln(w, "  and more")
	}
	return err
}
