package accounts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Fields implements [personal.Service].
func (s *Service) Fields(ctx context.Context) ([]personal.Field, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return nil, err
	}
	return schema.Visible(), nil
}

// userFields returns the host's schema as it is now.
func (s *Service) userFields(ctx context.Context) (*userfields.Schema, error) {
	given, err := s.host.UserFields(ctx)
	if err != nil {
		return nil, fail("asking the host for its user fields", err)
	}
	schema, faulty := s.schema.compiled(given)
	if faulty != nil {
		s.log.ErrorContext(ctx, "the host's user fields are faulty",
			slog.String("revision", given.Revision), slog.Any("error", faulty), slog.Bool("previous_kept", schema != nil))
	}
	if schema == nil {
		return nil, fail("reading the host's user fields", faulty)
	}
	return schema, nil
}

// schemaCache keeps the schema last compiled, so that a revision is compiled
// once. A faulty one leaves the last good one in force.
type schemaCache struct {
	mu       sync.Mutex
	revision string // last judged, good or faulty
	fault    error  // of that revision
	good     *userfields.Schema
}

// compiled returns the schema in force and, if the given one is faulty, why. The
// fault is told again while there is no good schema, else once per revision.
func (c *schemaCache) compiled(given personal.Schema) (*userfields.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if given.Revision == c.revision && c.revision != "" {
		if c.good == nil {
			return nil, c.fault
		}
		return c.good, nil
	}
	c.revision, c.fault = given.Revision, nil
	schema, err := userfields.Compile(given.Fields)
	if err != nil {
		c.fault = fmt.Errorf("user fields of revision %q: %w", given.Revision, err)
		return c.good, c.fault
	}
	c.good = schema
	return schema, nil
}
