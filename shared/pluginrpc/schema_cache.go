package pluginrpc

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/cms-personal/personal/shared/personal"
)

// keptSchemas is how many revisions are kept: calls that began before a change
// of the schema are still under way after it.
const keptSchemas = 4

// schemaCache keeps the last schemas by revision. The zero cache is empty.
type schemaCache struct {
	flights singleflight.Group
	mu      sync.Mutex
	schemas []personal.Schema // the latest used first
}

// get returns the schema of a revision, and fetches the one in force if the
// revision is "" or unknown; calls for the same unknown revision share one fetch.
func (c *schemaCache) get(ctx context.Context, revision string, fetch func(context.Context) (personal.Schema, error)) (personal.Schema, error) {
	if schema, ok := c.lookup(revision); ok {
		return schema, nil
	}
	flight := c.flights.DoChan(revision, func() (any, error) {
		if schema, ok := c.lookup(revision); ok { // an earlier flight has just ended
			return schema, nil
		}
		schema, err := fetch(ctx)
		if err == nil {
			c.keep(schema)
		}
		return schema, err
	})
	select {
	case result := <-flight:
		schema, _ := result.Val.(personal.Schema)
		return schema, result.Err
	case <-ctx.Done():
		return personal.Schema{}, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: ctx.Err()}
	}
}

func (c *schemaCache) lookup(revision string) (personal.Schema, bool) {
	if revision == "" {
		return personal.Schema{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.schemas, func(s personal.Schema) bool { return s.Revision == revision })
	if i < 0 {
		return personal.Schema{}, false
	}
	schema := c.schemas[i]
	c.raise(i, schema)
	return schema, true
}

// keep stores a schema under its own revision, whichever was asked for.
func (c *schemaCache) keep(schema personal.Schema) {
	if schema.Revision == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.schemas, func(s personal.Schema) bool { return s.Revision == schema.Revision })
	if i < 0 {
		c.schemas = append(c.schemas, schema)
		i = len(c.schemas) - 1
	}
	c.raise(i, schema)
	c.schemas = c.schemas[:min(len(c.schemas), keptSchemas)]
}

// raise puts a schema, which stands at i, first.
func (c *schemaCache) raise(i int, schema personal.Schema) {
	copy(c.schemas[1:i+1], c.schemas[:i])
	c.schemas[0] = schema
}
