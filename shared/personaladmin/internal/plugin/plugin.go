// Package plugin has the admin page of the plugin: what runs, its traffic, and the
// installed versions to use, roll back to, install and remove.
package plugin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/internal/traffic"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// Pages is the page of the plugin.
type Pages struct {
	Manager   Manager
	Catalogue Catalogue
	EventLog  adminapi.EventReader
	Uploads   *adminapi.Uploads // nil: bundles cannot be uploaded
	Traffic   *traffic.Recorder
	Bake      time.Duration // how long a new version bakes

	site      *frame.Site
	dismissed atomic.Int64 // time of the last event whose banner an administrator has dismissed, in nanoseconds since 1970
}

// Manager is the part of a [manager.Manager] that the page uses.
type Manager interface {
	adminapi.Manager
	Ready(ctx context.Context) error
}

// Catalogue is the part of a [catalogue.Catalogue] that the page uses.
type Catalogue interface {
	adminapi.Catalogue
	Remove(version string) error
}

// path is the page's own.
const path = frame.Path + "/plugin"

// swapWait is how long a post waits for the result of a swap. Most refusals come
// within it; the page shows the progress of a swap that takes longer.
const swapWait = 500 * time.Millisecond

// Name implements [frame.Section].
func (p *Pages) Name() string { return "plugin" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	s.Handle("GET "+path, func(w http.ResponseWriter, r *http.Request) error { return p.render(w, r, http.StatusOK, "", nil) })
	s.Handle("GET "+path+"/{action}", p.toFront) // a reload after a post that showed a problem
	s.Handle("GET "+path+"/now", p.sendStatus)
	s.Handle("GET "+path+"/versions", p.sendVersions)
	s.Handle("GET "+path+"/totals", p.sendTotals)
	s.Handle("GET "+path+"/traffic", p.sendTraffic)
	s.HandleForm("POST "+path+"/use", ui.ReadForm, p.use)
	s.HandleForm("POST "+path+"/rehearse", ui.ReadForm, p.rehearse)
	s.Handle("POST "+path+"/rollback", p.rollBack)
	s.HandleForm("POST "+path+"/remove", ui.ReadForm, p.remove)
	s.HandleUpload("POST "+path+"/install", p.install)
	s.HandleForm("POST "+path+"/dismiss", ui.ReadForm, p.dismiss)
}

// body is the body of the page.
type body struct {
	Problem  string         // why the last post failed; may be empty
	Now      frame.LivePart // of a status
	Versions frame.LivePart // of []versionRow
	Totals   frame.LivePart // of totals
	Uploads  bool
	Doc      string // URL of the documentation about signing keys
	Bake     string // how long a version bakes; empty: it does not
	Young    *young // what the problem was; nil: something else
}

// young is a version that is younger than the minimum age, and what was asked for.
type young struct{ Version, Action string }

// render sends the page and shows a problem on it; empty for none.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, code int, problem string, of *young) error {
	now, report, err := p.status(r)
	if err != nil {
		return err
	}
	totals, err := p.totals(r)
	if err != nil {
		return err
	}
	return p.site.Render(w, r, code, "plugin", ui.Page{Live: true, Notice: p.site.Notice(w, r, "plugin_installed", "plugin_removed"),
		Body: body{
			Problem: problem, Now: frame.NewLivePart(now), Versions: frame.NewLivePart(versionRows(report)), Totals: frame.NewLivePart(totals),
			Uploads: p.Uploads != nil, Doc: p.site.Doc("plugin-versions.md#build-and-sign"), Bake: p.bakeText(r), Young: of,
		}})
}

// bakeText says how long a version bakes.
func (p *Pages) bakeText(r *http.Request) string {
	if p.Bake <= 0 {
		return ""
	}
	return p.roughly(r, p.Bake)
}

// dismiss hides the banner of an event, for all administrators.
func (p *Pages) dismiss(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	if at, err := strconv.ParseInt(posted.Get("at"), 10, 64); err == nil && at <= time.Now().UnixNano() {
		p.dismissed.Store(at)
	}
	return p.toFront(w, r)
}

func (p *Pages) report() (adminapi.Overview, error) {
	return adminapi.NewOverview(p.Manager, p.Catalogue)
}

func (p *Pages) toFront(w http.ResponseWriter, r *http.Request) error {
	return p.site.Redirect(w, r, path, "")
}

func (p *Pages) use(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	return p.start(w, r, posted, "use", p.Manager.Use)
}

func (p *Pages) rehearse(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	return p.start(w, r, posted, "rehearse", p.Manager.Rehearse)
}

// start has the manager do something with a version.
func (p *Pages) start(w http.ResponseWriter, r *http.Request, posted ui.Posted, action string,
	do func(context.Context, string, ...manager.Ignore) error,
) error {
	var ignore []manager.Ignore
	if posted.Get("accept_differences") != "" {
		ignore = append(ignore, manager.AcceptDifferences)
	}
	if posted.Get("now") != "" {
		ignore = append(ignore, manager.IgnoreMinAge)
	}
	version := posted.Get("version")
	return p.swap(w, r, &young{version, action}, func(ctx context.Context) error { return do(ctx, version, ignore...) })
}

func (p *Pages) rollBack(w http.ResponseWriter, r *http.Request) error {
	return p.swap(w, r, nil, p.Manager.Rollback)
}

// swap starts a swap and redirects to the page, which shows its progress and its
// result. A swap that cannot start is explained at once. One that is refused for the age of
// the version of can be asked for in spite of that; of is nil for a rollback.
func (p *Pages) swap(w http.ResponseWriter, r *http.Request, of *young, start func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), swapWait)
	defer cancel() // ends the wait, not the swap
	err := start(ctx)
	var refused *manager.SwapError
	var busy *manager.BusyError
	var tooYoung *manager.AgeError
	switch {
	case of != nil && errors.As(err, &tooYoung):
		return p.render(w, r, http.StatusConflict, p.site.Text(r, "plugin_young", of.Version, tooYoung.Error()), of)
	case errors.As(err, &busy) && busy.Swap.RehearsalOnly:
		return p.render(w, r, http.StatusConflict, p.site.Text(r, "plugin_busy_rehearsal", busy.Swap.To), nil)
	case errors.Is(err, manager.ErrStopped):
		return p.render(w, r, http.StatusServiceUnavailable, p.site.Text(r, "plugin_stopping"), nil)
	case errors.As(err, &busy):
		return p.render(w, r, http.StatusConflict, p.site.Text(r, "plugin_busy", busy.Swap.To, p.name(r, "plugin_step_", busy.Swap.Step)), nil)
	case err == nil, errors.As(err, &refused), ctx.Err() != nil:
		return p.toFront(w, r)
	}
	return err
}

// remove deletes an installed version that is not in use.
func (p *Pages) remove(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	version := posted.Get("version")
	report, err := p.report()
	if err != nil {
		return err
	}
	err = catalogue.ErrInUse
	if !inUse(report, version) {
		err = p.Catalogue.Remove(version)
	}
	var refused *catalogue.RefusedError
	switch {
	case errors.Is(err, catalogue.ErrInUse), errors.As(err, &refused):
		return p.render(w, r, http.StatusConflict, p.site.Text(r, "plugin_not_removed", err.Error()), nil)
	case err != nil:
		return err
	}
	p.site.Log.InfoContext(r.Context(), "plugin removed", "version", version)
	return p.site.Redirect(w, r, path, "plugin_removed")
}

// inUse reports whether a version serves, is kept warm, or is the candidate of a
// swap. The catalogue itself does not know the candidate yet.
func inUse(report adminapi.Overview, version string) bool {
	return report.Active.Version == version ||
		report.Previous != nil && report.Previous.Version == version ||
		report.Swap != nil && report.Swap.To == version
}

// install installs the bundle of the upload form.
func (p *Pages) install(w http.ResponseWriter, r *http.Request) error {
	_, err := p.Uploads.Take(w, r, uploadedBundle)
	var refused *adminapi.UploadError
	switch {
	case errors.As(err, &refused):
		reason := refused.ErrorResponse.Error
		if x := refused.ErrorResponse; x.Version != "" && x.Reason != "" {
			reason = x.Version + ": " + x.Reason
		}
		return p.render(w, r, refused.Status, p.site.Text(r, "plugin_not_installed", reason), nil)
	case err != nil:
		return err
	}
	return p.site.Redirect(w, r, path, "plugin_installed")
}

// uploadedBundle returns the file of the form as a stream, which is not stored.
func uploadedBundle(r *http.Request) (io.Reader, error) {
	parts, err := r.MultipartReader()
	for err == nil {
		part, nextErr := parts.NextPart()
		if nextErr == nil && part.FormName() == "bundle" {
			return part, nil
		}
		err = nextErr
	}
	return nil, &adminapi.UploadError{Status: http.StatusBadRequest,
		ErrorResponse: adminapi.ErrorResponse{Error: "there is no bundle in the form"}}
}
