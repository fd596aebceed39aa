package main

import (
	"context"
	"fmt"
	"io"

	"github.com/cms-personal/personal/internal/store"
)

type migrateCommand struct{ databaseFlag }

// Run migrates the database.
func (c migrateCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	_, err = fmt.Fprintf(w, "The database is at schema %d.\n", store.SchemaTarget)
	return err
}
