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

// userFields returns the host's schema: that of the call's revision if it is cached,
// else the host's current one.
func (s *Service) userFields(ctx context.Context) (*userfields.Schema, error) {
	const doing = "requesting the host's user fields"
	if revision := personal.CallFrom(ctx).SchemaRevision; revision != "" {
		if schema := s.schema.lookup(revision); schema != nil {
			return schema, nil
		}
		select { // calls that meet a new revision at the same time share one request
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
	isNew := s.schema.lookup(given.Revision) == nil
	schema, invalid := s.schema.compile(given)
	if isNew && invalid == nil && len(schema.Later()) > 0 {
		s.log.WarnContext(ctx, "user fields of types that this version does not know are kept, and not shown", slog.Any("fields", schema.Later()))
	}
	if invalid != nil {
		s.log.ErrorContext(ctx, "the host's user fields are invalid",
			slog.String("revision", given.Revision), slog.Any("error", invalid), slog.Bool("previous_kept", schema != nil))
	}
	if schema == nil {
		return nil, fail("reading the host's user fields", invalid)
	}
	return schema, nil
}

// knownFields is userFields, or a schema without fields if there is no host, as in a command.
func (s *Service) knownFields(ctx context.Context) (*userfields.Schema, error) {
	if s.host == nil {
		return &userfields.Schema{}, nil
	}
	return s.userFields(ctx)
}

// maxSchemas is how many revisions are cached: calls that began before a change of
// the schema may still be in progress after it.
const maxSchemas = 4

// schemaCache holds the schemas of the last revisions, so that each is requested
// and compiled once. After an invalid schema the last valid one stays in force.
type schemaCache struct {
	asking chan struct{} // holds one value while a call requests a revision
	mu     sync.Mutex
	cached []cachedSchema // the latest last
}

type cachedSchema struct {
	revision string
	schema   *userfields.Schema // in force: a previous one if that of the revision is invalid
}

// lookup returns the cached schema of a revision, or nil.
func (c *schemaCache) lookup(revision string) *userfields.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookupLocked(revision)
}

func (c *schemaCache) lookupLocked(revision string) *userfields.Schema {
	for _, k := range c.cached {
		if k.revision == revision && revision != "" {
			return k.schema
		}
	}
	return nil
}

// compile returns the schema in force and, if the new one is invalid, the error:
// each time while there is no valid schema, else once per revision.
func (c *schemaCache) compile(given personal.Schema) (*userfields.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if schema := c.lookupLocked(given.Revision); schema != nil {
		return schema, nil
	}
	schema, err := userfields.Compile(given.Fields)
	if err != nil {
		err = fmt.Errorf("user fields of revision %q: %w", given.Revision, err)
		if len(c.cached) == 0 {
			return nil, err
		}
		schema = c.cached[len(c.cached)-1].schema
	}
	c.cached = append(c.cached[max(0, len(c.cached)+1-maxSchemas):], cachedSchema{given.Revision, schema})
	return schema, err
}
