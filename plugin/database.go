package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/cms-personal/personal/internal/store"
)

// databaseFlag is the database that a command works on.
type databaseFlag struct {
	Database string `env:"PERSONAL_DATABASE" placeholder:"URL" help:"sqlite://PATH or postgres://…; one with a password by the environment only: command lines are seen by others."`
}

// find opens it unless it is a file that is not there: a path mistyped where
// something is to be read makes no file. fs.ErrNotExist.
func (f databaseFlag) find(ctx context.Context) (*store.Store, error) {
	if path, ok := strings.CutPrefix(f.Database, "sqlite://"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--database: %w", err)
		}
	}
	return f.open(ctx)
}

// open opens it, and makes a file that is not there. The caller closes the store.
func (f databaseFlag) open(ctx context.Context) (*store.Store, error) {
	if f.Database == "" {
		return nil, errors.New("--database: say which database, or name it by PERSONAL_DATABASE")
	}
	if f.Database != os.Getenv("PERSONAL_DATABASE") && hasPassword(f.Database) {
		return nil, fmt.Errorf("--database: a URL with a password is taken from PERSONAL_DATABASE only, because command lines are seen by others")
	}
	db, err := store.Open(ctx, f.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return db, nil
}

// hasPassword reports whether a URL, well-formed or not, holds one: user:secret@.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	return at >= 0 && strings.Contains(authority[:at], ":") || strings.Contains(url, "password=")
}
