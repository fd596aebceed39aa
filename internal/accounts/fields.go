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

// userFields returns the host's schema: that of the call's revision if it is known,
// or else the one in force.
func (s *Service) userFields(ctx context.Context) (*userfields.Schema, error) {
	const doing = "asking the host for its user fields"
	if revision := personal.CallFrom(ctx).SchemaRevision; revision != "" {
		if schema := s.schema.lookup(revision); schema != nil {
			return schema, nil
		}
		select { // calls that meet a new revision together share one question
		case s.schema.asking <- struct{}{}:
			defer func() { <-s.schema.asking }()
		case <-ctx.Done():
			return nil, fail(doing, ctx.Err())
		}
		if schema := s.schema.lookup(revision); schema != nil {
			return schema, nil
		}
	}
	given, err := s.host.UserFields(ctx)
	if err != nil {
		return nil, fail(doing, err)
	}
	schema, faulty := s.schema.compile(given)
	if faulty != nil {
		s.log.ErrorContext(ctx, "the host's user fields are faulty",
			slog.String("revision", given.Revision), slog.Any("error", faulty), slog.Bool("previous_kept", schema != nil))
	}
	if schema == nil {
		return nil, fail("reading the host's user fields", faulty)
	}
	return schema, nil
}

// keptSchemas is how many revisions are kept: calls that began before a change
// of the schema are still under way after it.
const keptSchemas = 4

// schemaCache keeps the schemas of the last revisions, so that each is asked for
// and compiled once. A faulty one leaves the last good one in force.
type schemaCache struct {
	asking chan struct{} // holds one while a call asks the host for a revision
	mu     sync.Mutex
	kept   []keptSchema // the latest last
}

type keptSchema struct {
	revision string
	schema   *userfields.Schema // in force; an earlier one if that of the revision is faulty
}

// lookup returns the schema kept for a revision, or nil.
func (c *schemaCache) lookup(revision string) *userfields.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(revision)
}

// find is lookup while mu is held.
func (c *schemaCache) find(revision string) *userfields.Schema {
	for _, k := range c.kept {
		if k.revision == revision && revision != "" {
			return k.schema
		}
	}
	return nil
}

// compile returns the schema in force and, if the given one is faulty, why. The
// fault is told again while there is no good schema, else once per revision.
func (c *schemaCache) compile(given personal.Schema) (*userfields.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if schema := c.find(given.Revision); schema != nil {
		return schema, nil
	}
	schema, err := userfields.Compile(given.Fields)
	if err != nil {
		err = fmt.Errorf("user fields of revision %q: %w", given.Revision, err)
		if len(c.kept) == 0 {
			return nil, err
		}
		schema = c.kept[len(c.kept)-1].schema
	}
	c.kept = append(c.kept[max(0, len(c.kept)+1-keptSchemas):], keptSchema{given.Revision, schema})
	return schema, err
}
