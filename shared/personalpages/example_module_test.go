package personalpages_test

import (
	"net/http"

	"github.com/cms-personal/personal/internal/testkit/examples"
	"github.com/cms-personal/personal/shared/personal"
)

// openModule returns a module without a plugin.
func openModule() *examples.Module { return examples.Open() }

// openJudged returns a module with an admission, which gets transient parameters.
func openJudged(admission *personal.Admission, transient ...string) *examples.Module {
	return examples.OpenJudged(admission, transient...)
}

// visit returns a visitor of a site.
func visit(site http.Handler) *examples.Visitor { return examples.Visit(site) }
