package main

import (
	"context"
	"net/http"
	"path"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/reference"
	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/host-sample/visitor"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// siteParts are what the routes are made of.
type siteParts struct {
	service personal.Service
	shim    personalhttp.Options
	admin   *adminAPI
	pages   admin.Options
	traffic *traffic.Recorder
	ready   func(context.Context) error // nil if the plugin serves
	status  func() pluginmanager.Status
	url     string // of the API's base
	https   bool   // every browser comes by HTTPS, though a proxy ends it
}

// site is everything the CMS answers.
type site struct {
	api  *personalhttp.Handler
	rest http.Handler // all else
}

func newSite(p siteParts) (http.Handler, error) {
	metrics := newMetrics(p.status)
	p.shim.Observe = func(o personalhttp.Observation) {
		metrics.observe(o)
		recordCall(p.traffic, o)
	}
	api, err := personalhttp.New(p.service, p.shim)
	if err != nil {
		return nil, err
	}
	p.pages.API = api
	administration, err := admin.New(p.pages)
	if err != nil {
		return nil, err
	}
	pages, err := visitor.New(visitor.Options{Service: p.service, API: api, APIURL: p.url, Log: p.shim.Log})
	if err != nil {
		return nil, err
	}
	described, err := reference.New(reference.Options{API: api, Log: p.shim.Log})
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.Handle("/", recordPages(p.traffic, pages))
	mux.Handle(reference.Path, described)
	mux.Handle(reference.Path+"/", described)
	mux.Handle("GET /demo/greeting", recordPages(p.traffic, api.RequireUser(http.HandlerFunc(greet))))
	mux.Handle("/admin/api/", p.admin.routes())
	mux.Handle("/admin/", administration)
	mux.HandleFunc("GET /healthz", healthz)
	mux.HandleFunc("GET /readyz", readyz(p.ready, p.status, api.UntrustedProxy))
	mux.Handle("GET /metrics", metrics.handler())

	all := ui.StayWithHTTPS(&site{
		api:  api,
		rest: ui.RememberedLanguage(api.WithCall(metrics.measure(mux))),
	})
	if p.https {
		return ui.BehindHTTPS(all), nil
	}
	return ui.BehindProxy(api.OverHTTPS, all), nil
}

// ServeHTTP asks the shim first, and knows no path that a ServeMux would write
// otherwise: it would redirect, and clients may turn a redirected POST into a GET.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.api.Matches(r) {
		s.api.ServeHTTP(w, r)
		return
	}
	// For what is no page: pages say more.
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if clean := path.Clean(r.URL.Path); r.URL.Path != clean && r.URL.Path != clean+"/" {
		http.NotFound(w, r)
		return
	}
	s.rest.ServeHTTP(w, r)
}

// healthz says that the host is alive.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeText(w, "ok\n")
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready      bool                `json:"ready"`
	State      pluginmanager.State `json:"state"`
	Version    string              `json:"version"`
	Generation int                 `json:"generation"`
	PID        int                 `json:"pid"`
	Warning    string              `json:"warning,omitempty"`
}

const untrustedProxyWarning = "a request seems to have come through a proxy that is not trusted, so visitors share its address: see the log, and --trusted-proxy"

// readyz says whether the plugin serves. Why it does not is for administrators.
func readyz(ready func(context.Context) error, status func() pluginmanager.Status, untrustedProxy func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := ready(r.Context())
		s := status()
		code := http.StatusOK
		if err != nil {
			code = http.StatusServiceUnavailable
		}
		answer := readiness{Ready: err == nil, State: s.State, Version: s.Version, Generation: s.Generation, PID: s.PID}
		if untrustedProxy() {
			answer.Warning = untrustedProxyWarning
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, code, answer)
	}
}

func writeText(w http.ResponseWriter, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text)) // an error means that nobody listens any more
}
