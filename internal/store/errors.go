package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// ServerError is an error that PostgreSQL reported.
type ServerError struct {
	State      string // SQLSTATE
	Constraint string // the violated constraint or column, if any
	Message    string // empty if it could quote values
}

// Error returns the code, and the server's message if that holds no values.
func (e *ServerError) Error() string {
	text := "the database reports SQLSTATE " + e.State
	if e.Constraint != "" {
		text += " (" + e.Constraint + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// stateOf returns the SQLSTATE of an error of PostgreSQL, wrapped or not; "" for any other.
func stateOf(err error) string {
	if server, ok := errors.AsType[*ServerError](err); ok {
		return server.State
	}
	if pg, ok := errors.AsType[pgdriver.Error](err); ok {
		return pg.Field('C')
	}
	return ""
}

// isConflict reports whether a transaction has lost against another one and may run again
// (class 40): a deadlock or a serialization failure.
func isConflict(err error) bool { return strings.HasPrefix(stateOf(err), "40") }

// lostLock reports whether a transaction did not get a lock, and may get it if it runs
// again: a time-out of the server (55P03), or a conflict.
func lostLock(err error) bool { return stateOf(err) == "55P03" || isConflict(err) }

// wrap adds what was being done to an error and removes values from it. It
// classifies errors of the drivers as accounts.ErrNotFound or ErrUnavailable; the
// domain's own errors pass through. A nil error stays nil.
func wrap(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s: %w", doing, accounts.ErrNotFound)
	}
	var pg pgdriver.Error // after the usual return: it escapes
	var setup *dbconn.SetupError
	unavailable, unknown := isUnavailable(err), errors.Is(err, dbconn.ErrOutcomeUnknown)
	if errors.As(err, &pg) && !errors.As(err, &setup) { // errors of log-ins hold no values
		err = serverError(pg)
		if unknown {
			err = fmt.Errorf("%w: %w", dbconn.ErrOutcomeUnknown, err)
		}
	}
	if unavailable || unknown {
		err = fmt.Errorf("%w: %w", accounts.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, withContext(ctx, err))
}

// withContext adds the context's error to one that it caused: drivers report a
// deadline as a network timeout or an interrupted statement.
func withContext(ctx context.Context, err error) error {
	cause := ctx.Err()
	if cause == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		cause = context.DeadlineExceeded
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func serverError(e pgdriver.Error) error {
	out := &ServerError{State: e.Field('C'), Constraint: cmp.Or(e.Field('n'), e.Field('c'))}
	switch class := out.State[:min(2, len(out.State))]; class {
	case "22", "23", "42": // errors in data and statements, which quote both
	default:
		out.Message = e.Field('M')
	}
	if out.State == "53300" { // too_many_connections
		out.Message += " (if this stays: raise max_connections, or run ALTER DATABASE … or ALTER ROLE … CONNECTION LIMIT -1)"
	}
	return out
}
