package personaladmin_test

import (
	"net/http"

	"github.com/cms-personal/personal/internal/testkit/examples"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// exampleModule is a module without a plugin, for account pages and admin pages.
type exampleModule struct {
	module
	*examples.Module
}

func (m exampleModule) API() *personalhttp.Handler { return m.module.api }
func (m exampleModule) Client() *rpc.Client        { return m.module.Client() }

// openModule returns a module.
func openModule() exampleModule {
	m := examples.Open()
	return exampleModule{module{m.API()}, m}
}

// visit returns a visitor of a site.
func visit(site http.Handler) *examples.Visitor { return examples.Visit(site) }
