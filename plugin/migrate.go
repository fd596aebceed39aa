package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/cms-personal/personal/internal/store"
)

type migrateCommand struct {
	Database string `required:"" env:"PERSONAL_DATABASE" placeholder:"URL" help:"sqlite://PATH or postgres://…; one with a password by the environment only: command lines are seen by others."`
}

// Run migrates the database.
func (c migrateCommand) Run(ctx context.Context, w io.Writer) error {
	if c.Database != os.Getenv("PERSONAL_DATABASE") && hasPassword(c.Database) {
		return fmt.Errorf("--database: a URL with a password is taken from PERSONAL_DATABASE only, because command lines are seen by others")
	}
	db, err := store.Open(ctx, c.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	_, err = fmt.Fprintf(w, "The database is at schema %d.\n", store.SchemaTarget)
	return err
}

// hasPassword reports whether a URL, well-formed or not, holds one: user:secret@.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	return at >= 0 && strings.Contains(authority[:at], ":") || strings.Contains(url, "password=")
}
