package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/internal/moving"
	"github.com/cms-personal/personal/internal/store"
)

// target is where accounts go: the database, or for a dry run one of its own.
func (c importCommand) target(ctx context.Context, db *store.Store) (target moving.Store, closeTarget func(), err error) {
	if c.DryRun {
		return rehearse(ctx, db)
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, nil, fmt.Errorf("migrating the database: %w", err)
	}
	return db, func() {}, nil
}

// rehearse makes a database for a dry run, which goes when it is closed, beside
// the real one, which is only looked at.
func rehearse(ctx context.Context, db *store.Store) (target moving.Store, closeTarget func(), err error) {
	found, _, err := db.SchemaVersion(ctx)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "personal-dry-run-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a database for the dry run: %w", err)
	}
	scratch, err := databaseFlag{Database: "sqlite://" + filepath.Join(folder, "personal.db")}.open(ctx)
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, nil, err
	}
	closeTarget = func() {
		_ = scratch.Close()
		_ = os.RemoveAll(folder)
	}
	if err := scratch.Migrate(ctx); err != nil {
		closeTarget()
		return nil, nil, fmt.Errorf("making a database for the dry run: %w", err)
	}
	if found == 0 { // there is nothing to collide with
		return scratch, closeTarget, nil
	}
	return moving.Rehearsal{Store: scratch, Real: db}, closeTarget, nil
}
