package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"sync"
)

// RunVariable is the environment variable with a text that differs for each run of the
// tests, whose processes share filled databases. Without it each process has its own.
const RunVariable = "PERSONAL_TEST_RUN"

func testRun() string {
	if run := os.Getenv(RunVariable); run != "" {
		return run
	}
	return ownRun()
}

var ownRun = sync.OnceValue(rand.Text)

// rewindSQL creates the schema test_rewind: the rows that public has now, and a function
// that brings them back if the tables are the same.
//
//go:embed rewind.sql
var rewindSQL string

const emptySchema = "DROP SCHEMA IF EXISTS test_rewind CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public"

// rewindDatabase gives a database that tests have used the tables and rows of fill.
func rewindDatabase(ctx context.Context, url string, fill func(url string) error) error {
	rewound := false
	err := onServer(url, func(db *sql.DB) (err error) {
		rewound, err = rewindRows(ctx, db)
		return err
	})
	if err != nil {
		return err
	}
	if rewound {
		return nil
	}
	if err := administer(url, emptySchema); err != nil {
		return err
	}
	return fillDatabase(ctx, url, fill)
}

// rewindRows brings the first rows back, and reports whether it could: the tables are the same.
func rewindRows(ctx context.Context, db *sql.DB) (rewound bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT test_rewind.rewind($1)", testRun()).Scan(&rewound)
	var reported interface{ Field(byte) string }
	if errors.As(err, &reported) && reported.Field('C') == "3F000" { // invalid_schema_name
		return false, nil
	}
	if err != nil {
		err = fmt.Errorf("rewinding the database: %w", err)
	}
	return rewound, err
}

// fillDatabase fills an empty database.
func fillDatabase(ctx context.Context, url string, fill func(url string) error) error {
	if err := fill(url); err != nil {
		return fmt.Errorf("filling the database: %w", err)
	}
	return onServer(url, func(db *sql.DB) error {
		if _, err := db.ExecContext(ctx, rewindSQL); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "SELECT test_rewind.keep($1)", testRun())
		return err
	})
}
