package personalweb_test

import (
	"net/http"

	"github.com/cms-personal/personal/internal/testkit/examples"
)

// openModule returns a module without a plugin.
func openModule() *examples.Module { return examples.Open() }

// visit returns a visitor of a site.
func visit(site http.Handler) *examples.Visitor { return examples.Visit(site) }
