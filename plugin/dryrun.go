package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
)

// target is where accounts go: the database, or for a dry run one of its own.
func (c importCommand) target(ctx context.Context) (target transfer.Store, closeTarget func(), err error) {
	if c.DryRun {
		return c.rehearse(ctx)
	}
	db, err := c.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	closeTarget = func() { _ = db.Close() }
	if err := db.Migrate(ctx); err != nil {
		closeTarget()
		return nil, nil, fmt.Errorf("migrating the database: %w", err)
	}
	return db, closeTarget, nil
}

// rehearse makes a database for a dry run, which goes when it is closed, beside
// the real one, which is only looked at, if it is there.
func (c importCommand) rehearse(ctx context.Context) (target transfer.Store, closeTarget func(), err error) {
	scratch, closeScratch, err := openScratch(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("making a database for the dry run: %w", err)
	}
	db, err := c.find(ctx)
	if errors.Is(err, fs.ErrNotExist) { // there is nothing to collide with
		return scratch, closeScratch, nil
	}
	if err != nil {
		closeScratch()
		return nil, nil, err
	}
	closeTarget = func() {
		closeScratch()
		_ = db.Close()
	}
	found, _, err := db.SchemaVersion(ctx)
	if err != nil {
		closeTarget()
		return nil, nil, err
	}
	if found == 0 {
		return scratch, closeTarget, nil
	}
	return transfer.Rehearsal{Store: scratch, Real: db}, closeTarget, nil
}

// openScratch makes a database in a folder of its own.
func openScratch(ctx context.Context) (scratch *store.Store, closeScratch func(), err error) {
	folder, err := os.MkdirTemp("", "personal-dry-run-")
	if err != nil {
		return nil, nil, err
	}
	scratch, err = databaseFlag{Database: "sqlite://" + filepath.Join(folder, "personal.db")}.open(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	closeScratch = func() {
		_ = scratch.Close()
		_ = os.RemoveAll(folder)
	}
	if err := scratch.Migrate(ctx); err != nil {
		closeScratch()
		return nil, nil, err
	}
	return scratch, closeScratch, nil
}
