package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/uptrace/bun/driver/pgdriver"
	"modernc.org/sqlite"

	"github.com/cms-personal/personal/internal/accounts"
)

// CheckCompatible reads which programs may work on the schema: those whose SchemaTarget is
// minCompatible or higher. While this program is not one of them, the error is a
// [*SchemaError], and all other calls fail with accounts.ErrUnavailable: it would, for
// example, sign users in without the second factor that newer nodes ask for.
func (s *Store) CheckCompatible(ctx context.Context) (minCompatible int, err error) {
	found, minCompatible, err := s.SchemaVersion(ctx)
	if err != nil {
		return 0, err
	}
	var refusal *SchemaError
	if minCompatible > SchemaTarget {
		refusal = &SchemaError{Found: found, MinCompatible: minCompatible}
	}
	switch before := s.refusal.Swap(refusal); {
	case refusal != nil && before == nil:
		s.log.ErrorContext(ctx, "this version refuses all calls from now on", slog.Any("error", refusal))
	case refusal == nil && before != nil:
		s.log.InfoContext(ctx, "this version may use the database again", slog.Int("schema_min_compatible", minCompatible))
	}
	if refusal != nil {
		return minCompatible, refusal
	}
	return minCompatible, nil
}

// Refusal returns why this program may not use the database, as the last CheckCompatible
// has found; nil if it may.
func (s *Store) Refusal() *SchemaError { return s.refusal.Load() }

// Doubts receives a value after statements that the database has refused: a newer version
// may have changed the schema, and CheckCompatible tells.
func (s *Store) Doubts() <-chan struct{} { return s.doubts }

type refusedKey struct{}

// evenIfRefused is for calls that only give up what this process holds.
func evenIfRefused(ctx context.Context) context.Context {
	return context.WithValue(ctx, refusedKey{}, true)
}

// allowed returns an error if this program may not use the database.
func (s *Store) allowed(ctx context.Context, doing string) error {
	if refusal := s.refusal.Load(); refusal != nil && ctx.Value(refusedKey{}) == nil {
		return fmt.Errorf("%s: %w: %w", doing, accounts.ErrUnavailable, refusal)
	}
	return nil
}

// ended is wrap for the outcome of a call.
func (s *Store) ended(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	var pg pgdriver.Error
	var lite *sqlite.Error
	if errors.As(err, &pg) || errors.As(err, &lite) {
		select {
		case s.doubts <- struct{}{}:
		default:
		}
	}
	return wrap(ctx, doing, err)
}
