package cli

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/reference"
	"github.com/cms-personal/personal/host-sample/site"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/metrics"
)

// handlerOptions are what the routes need.
type handlerOptions struct {
	api          *personalhttp.Handler
	module       personalpages.Module
	addProviders func(*personalpages.Pages) error // of --oidc to the account pages; nil for none
	adminPages   adminPages
	plugin       pluginState
	adminAPI     *adminAPI
	guard        *admin.Guard // of the admin pages
	metrics      *hostMetrics
	apiURL       string // without /api/v1/personal/
	siteURL      string // at which browsers on this machine open the site
	log          *slog.Logger
}

// adminPages makes the admin pages, given where administrators enter.
type adminPages func(*admin.Entry) (http.Handler, error)

// pluginState is the part of [manager.Manager] that health checks and metrics need.
type pluginState interface {
	Ready(ctx context.Context) error // nil if the plugin serves
	Status() manager.Status
	metrics.Manager
}

// newHandler returns the handler of everything that the CMS serves.
func newHandler(o handlerOptions) (http.Handler, error) {
	api, metrics := o.api, o.metrics
	entry, err := admin.NewEntry(admin.EntryOptions{Guard: o.guard, API: api, Log: o.log})
	if err != nil {
		return nil, err
	}
	adminPages, err := o.adminPages(entry)
	if err != nil {
		return nil, err
	}
	pages, err := site.New(site.Options{Module: o.module, APIURL: o.apiURL, Log: o.log})
	if err != nil {
		return nil, err
	}
	if o.addProviders != nil {
		if err := o.addProviders(pages.Account); err != nil {
			return nil, err
		}
	}
	apiReference, err := reference.New(reference.Options{API: api, Log: o.log})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle(reference.Path, apiReference)
	mux.Handle(reference.Path+"/", apiReference)
	mux.Handle("GET /demo/greeting", api.RequireUser(http.HandlerFunc(greet)))
	mux.Handle("/admin/api/", o.adminAPI.routes())
	mux.Handle(personaladmin.Path, adminPages)
	mux.Handle(personaladmin.Path+"/", adminPages)
	mux.Handle(admin.EnterPath, entry)
	mux.Handle(admin.EnterPath+"/", entry)
	mux.Handle(admin.LeavePath, entry)
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", readyz(o.plugin, api.UntrustedProxy))
	mux.Handle("GET /metrics", metrics.handler(o.plugin))
	measured := timed(mux, func(r *http.Request, status int, took time.Duration) {
		metrics.count(routeOf(r), status, took)
	})

	return personalweb.StayWithHTTPS(api, api.Front(onlyClean(named(o.siteURL, pages.WithCall(measured))))), nil
}

// onlyClean responds with 400 to paths with needless escapes, such as /%6detrics, which
// pass the path filters of proxies, and with 404 to those that a ServeMux would redirect,
// such as // and .. It limits what responses without their own policy may load.
func onlyClean(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Pages replace this policy by a wider one.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.URL.RawPath != "" && !strings.Contains(r.URL.Path, "#") { // a link of a mail, mangled by a gateway
			http.Error(w, "the path has needless escapes", http.StatusBadRequest)
			return
		}
		if clean := path.Clean(r.URL.Path); r.URL.Path != clean && r.URL.Path != clean+"/" {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// named leads browsers that open a page at the address of the listener to siteURL, which has a
// name: browsers and passkeys.rp_id take no address. Programs such as curl stay where they are.
func named(siteURL string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here := "http://" + r.Host
		if name := nameLoopback(here); r.Method == http.MethodGet && name != here && name == siteURL && opensPage(r) {
			ui.Redirect(w, r, siteURL+r.URL.RequestURI())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// opensPage reports whether a browser opens a page. Old browsers do not send what they fetch.
func opensPage(r *http.Request) bool {
	if fetched := r.Header.Get("Sec-Fetch-Dest"); fetched != "" {
		return fetched == "document"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// greet is an example of a page of the CMS's own that only signed-in users may
// read: [personalhttp.Handler.RequireUser] knows from the plugin who the user is.
func greet(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	name := user.Profile.Login
	if user.Profile.Name != nil {
		name = *user.Profile.Name
	}
	hello := "Hello, "
	if personal.CallFrom(r.Context()).Locale == "ru" {
		hello = "Здравствуйте, "
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, struct {
		UserID   int64  `json:"user_id"`
		Greeting string `json:"greeting"`
	}{user.ID, hello + name + "!"})
}

// healthz reports that the host is running.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // an error means that the client is gone
}

// readiness is the response of /readyz.
type readiness struct {
	Ready      bool          `json:"ready"`
	State      manager.State `json:"state"`
	Version    string        `json:"version"`
	Generation int           `json:"generation"`
	PID        int           `json:"pid"`
	Warning    string        `json:"warning,omitempty"`
}

const untrustedProxyWarning = "a request probably came through a proxy that is not trusted, so that visitors share its address: see the log, and set --trusted-proxy"

// readyz reports whether the plugin serves, and what its health check warns of. The reason why it does not
// serve is shown to administrators only.
func readyz(plugin pluginState, untrustedProxy func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := plugin.Ready(r.Context())
		s := plugin.Status()
		code := http.StatusOK
		if err != nil {
			code = http.StatusServiceUnavailable
		}
		response := readiness{Ready: err == nil, State: s.State, Version: s.Version, Generation: s.Generation, PID: s.PID}
		warnings := s.Warnings
		if untrustedProxy() {
			warnings = append([]string{untrustedProxyWarning}, warnings...)
		}
		response.Warning = strings.Join(warnings, "; ")
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, code, response)
	}
}
