package adminpages

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// Plugin is what the page about the plugin shows and may change.
type Plugin struct {
	Manager   Manager
	Catalogue Catalogue
	EventLog  pluginadmin.EventReader
	Uploads   *pluginadmin.Uploads // nil: none are taken
	Traffic   *traffic.Recorder
	Bake      time.Duration // how long a new version is on trial
}

// Manager is what the page asks of a [pluginmanager.Manager].
type Manager interface {
	pluginadmin.Manager
	Ready(ctx context.Context) error
}

// Catalogue is what the page asks of a [plugincatalogue.Catalogue].
type Catalogue interface {
	pluginadmin.Catalogue
	Remove(version string) error
}

// patience is how long a post waits for a swap. Most refusals are there by then;
// what takes longer can be watched on the page.
const patience = 500 * time.Millisecond

func (s *site) pluginRoutes() {
	s.private("GET "+front, s.showPlugin)
	s.private("GET /admin/plugin/{action}", toFront) // a change that is loaded again
	s.private("GET /admin/plugin/now", s.partPluginNow)
	s.private("GET /admin/plugin/versions", s.partPluginVersions)
	s.private("GET /admin/plugin/totals", s.partPluginTotals)
	s.private("GET /admin/plugin/traffic", s.getTraffic)
	s.private("POST /admin/plugin/use", s.usePlugin)
	s.private("POST /admin/plugin/rollback", s.rollBackPlugin)
	s.private("POST /admin/plugin/remove", s.removePlugin)
	s.private("POST /admin/plugin/install", s.installPlugin)
}

// pluginBody is the page.
type pluginBody struct {
	Problem  string // why the last post came to nothing; may be empty
	Now      livePart[pluginNow]
	Versions livePart[pluginVersions]
	Totals   livePart[pluginTotals]
	Uploads  bool
}

func (s *site) showPlugin(w http.ResponseWriter, r *http.Request) {
	s.renderPlugin(w, r, http.StatusOK, "")
}

// renderPlugin answers with the page and, if there is one, a problem on it.
func (s *site) renderPlugin(w http.ResponseWriter, r *http.Request, status int, problem string) {
	report, now, ok := s.lookAtPlugin(w, r)
	if !ok {
		return
	}
	totals, err := s.pluginTotals(r)
	if err != nil {
		s.fail(w, r, "the plugin", err)
		return
	}
	s.render(w, r, status, "plugin", ui.Page{Live: true, Notice: s.notice(w, r, "plugin_installed", "plugin_removed"), Body: pluginBody{
		Problem: problem, Now: newLivePart(now), Versions: newLivePart(newPluginVersions(report)), Totals: newLivePart(totals),
		Uploads: s.Plugin.Uploads != nil,
	}})
}

// pluginReport fails if the catalogue cannot be read.
func (s *site) pluginReport() (pluginadmin.Report, error) {
	return pluginadmin.NewReport(s.Plugin.Manager, s.Plugin.Catalogue)
}

func (s *site) usePlugin(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	s.swapPlugin(w, r, func(ctx context.Context) error { return s.Plugin.Manager.Use(ctx, posted.Get("version")) })
}

func (s *site) rollBackPlugin(w http.ResponseWriter, r *http.Request) {
	s.swapPlugin(w, r, s.Plugin.Manager.Rollback)
}

// swapPlugin begins a swap and leads to the page, which shows how it goes on and
// what became of it.
func (s *site) swapPlugin(w http.ResponseWriter, r *http.Request, swap func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel() // the end of the wait, not of the swap
	err := swap(ctx)
	var refused *pluginmanager.SwapError
	var busy *pluginmanager.BusyError
	switch {
	case errors.Is(err, pluginmanager.ErrStopped):
		s.renderPlugin(w, r, http.StatusServiceUnavailable, s.pages.Text(r, "plugin_stopping"))
	case errors.As(err, &busy):
		s.renderPlugin(w, r, http.StatusConflict, s.pages.Text(r, "plugin_busy", busy.Swap.To, s.known(r, "plugin_step_", busy.Swap.Step)))
	case err == nil, errors.As(err, &refused), ctx.Err() != nil:
		ui.Redirect(w, r, front)
	default:
		s.fail(w, r, "swapping the plugin", err)
	}
}

// removePlugin deletes a version that nothing needs.
func (s *site) removePlugin(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	version := posted.Get("version")
	report, err := s.pluginReport()
	if err != nil {
		s.fail(w, r, "the plugin", err)
		return
	}
	if inUse(report, version) {
		s.renderPlugin(w, r, http.StatusConflict, s.pages.Text(r, "plugin_not_removed", plugincatalogue.ErrInUse.Error()))
		return
	}
	err = s.Plugin.Catalogue.Remove(version)
	var refused *plugincatalogue.RefusedError
	switch {
	case errors.As(err, &refused):
		s.renderPlugin(w, r, http.StatusConflict, s.pages.Text(r, "plugin_not_removed", refused.Error()))
	case err != nil:
		s.fail(w, r, "the plugin", err)
	default:
		s.Log.InfoContext(r.Context(), "plugin removed", "version", version)
		ui.LeaveNotice(w, r, "plugin_removed")
		ui.Redirect(w, r, front)
	}
}

// inUse reports whether a version serves, is kept to go back to, or is on its way
// to serve: of the last the catalogue knows nothing yet.
func inUse(report pluginadmin.Report, version string) bool {
	switch {
	case report.Active.Version == version,
		report.Previous != nil && report.Previous.Version == version,
		report.Swap != nil && report.Swap.To == version:
		return true
	}
	return false
}
