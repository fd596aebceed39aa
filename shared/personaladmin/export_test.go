package personaladmin

import (
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// NewOf returns the pages of sections, which may be over fakes.
func NewOf(api *personalhttp.Handler, c Config, sections ...frame.Section) (*Pages, error) {
	return newPages(api, c, sections)
}

// Routes returns the patterns of all routes.
func (p *Pages) Routes() []string { return p.site.Routes() }

// API returns the handler that the pages were made with.
func (p *Pages) API() *personalhttp.Handler { return p.site.API }
