package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
)

type exportCommand struct {
	databaseFlag
	Output string `short:"o" placeholder:"FILE" help:"A new file, for its owner only; by default standard output."`
	User   string `placeholder:"LOGIN-OR-ID" help:"What is kept of this user alone, without the password hash, to be handed out."`
}

// Run exports the accounts as NDJSON that import takes back, or one person's data.
func (c exportCommand) Run(ctx context.Context, out io.Writer, stderr errorWriter) error {
	db, err := c.find(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if c.Output != "" {
		file, err := os.OpenFile(c.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("--output: %w", err)
		}
		if err := errors.Join(c.write(ctx, db, file, stderr), file.Close()); err != nil {
			return errors.Join(err, os.Remove(c.Output)) // no part is taken for the whole
		}
		return nil
	}
	return c.write(ctx, db, out, stderr)
}

func (c exportCommand) write(ctx context.Context, db *store.Store, w, stderr io.Writer) error {
	if c.User != "" {
		err := transfer.ExportPerson(ctx, db, c.User, w)
		if errors.Is(err, accounts.ErrNotFound) {
			return fmt.Errorf("--user: there is no such account")
		}
		return err
	}
	fmt.Fprintln(stderr, "This export holds every password hash: keep it as you keep the database.")
	n, err := transfer.Export(ctx, db, w)
	if err != nil {
		return fmt.Errorf("the export is incomplete: %w", err)
	}
	fmt.Fprintf(stderr, "%d accounts exported\n", n)
	return nil
}
