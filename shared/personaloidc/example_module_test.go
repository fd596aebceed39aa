package personaloidc_test

import (
	"net/http"

	"github.com/cms-personal/personal/internal/testkit/examples"
	"github.com/cms-personal/personal/shared/personalhost"
)

// openModule returns the module of the tests.
func openModule() *personalhost.Module { return common.module }

// visit returns a visitor of a site.
func visit(site http.Handler) *examples.Visitor { return examples.Visit(site) }
