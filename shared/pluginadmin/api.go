// Package pluginadmin is an administrator's JSON API over a plugin manager and
// its catalogue, for any CMS to mount behind its own guard:
//
//	GET  .         what runs, what is installed, the swap under way: [Report]
//	POST use       {"version": "1.2.3"}: swap to it; answers when switched
//	POST rollback  go back to the version before; answers when switched
//	POST install   a signed bundle; only where [Options.Uploads] allows it
//	GET  events    what happened, the newest first: [Events]; ?limit=100
//
// A change answers 200 with the Report, the new version on trial (baking), or
// 409 with a [ErrorResponse] that names the step and the reason.
//
// The package asks nobody who they are. Whoever reaches it decides which code
// runs: guard it as such. It refuses changes that a page of another site asks
// a browser for, should the guard go by cookies.
package pluginadmin

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// Manager is what the API asks of a [pluginmanager.Manager].
type Manager interface {
	Status() pluginmanager.Status
	Use(ctx context.Context, version string) error
	Rollback(ctx context.Context) error
}

// Catalogue is what the API asks of a [plugincatalogue.Catalogue].
type Catalogue interface {
	List() ([]plugincatalogue.Entry, error)
	LoadState() (plugincatalogue.State, error)
	Signer(e plugincatalogue.Entry) (string, error)
}

// EventReader reads plugin events; [EventLog] is one.
type EventReader interface {
	Recent(n int) ([]pluginmanager.Event, error)
}

// Options are what a CMS may choose.
type Options struct {
	// Uploads lets bundles be installed; nil for not at all.
	Uploads *Uploads
	// EventLog is what GET events shows; nil for no events.
	EventLog EventReader
	// Log gets the causes of internal errors; nil for slog.Default().
	Log *slog.Logger
}

// api is the handler that New returns.
type api struct {
	manager   Manager
	catalogue Catalogue
	options   Options
	routes    map[string]methods
}

type methods map[string]http.HandlerFunc

// New returns the API. The CMS strips the path it mounts it at, so that the path
// is empty or / for the status, and /use for a swap.
func New(manager Manager, catalogue Catalogue, o Options) http.Handler {
	o.Log = cmp.Or(o.Log, slog.Default())
	a := &api{manager: manager, catalogue: catalogue, options: o}
	a.routes = map[string]methods{
		"":         {http.MethodGet: a.getStatus, http.MethodHead: a.getStatus},
		"use":      {http.MethodPost: a.use},
		"rollback": {http.MethodPost: a.rollback},
		"install":  {http.MethodPost: a.install},
		"events":   {http.MethodGet: a.getEvents, http.MethodHead: a.getEvents},
	}
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, ErrorResponse{Error: "changes asked for by pages of other sites are refused"})
	}))
	return secure(sameSite.Handler(a))
}

// secure sets the headers that every answer bears.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP finds the handler of a request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/")
	route, ok := a.routes[name]
	if !ok {
		refuse(w, http.StatusNotFound, ErrorResponse{Error: "there is nothing here"})
		return
	}
	handle, ok := route[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(route)), ", ")
		w.Header().Set("Allow", allowed)
		refuse(w, http.StatusMethodNotAllowed, ErrorResponse{Error: "the method is none of " + allowed})
		return
	}
	handle(w, r)
}
