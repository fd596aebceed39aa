package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/http/pprof" // also registers with http.DefaultServeMux, which is never served
	"net/url"
	"time"

	"github.com/cms-personal/personal/shared/personalhost/mailer"
)

// profilesPath is where net/http/pprof serves profiles.
const profilesPath = "/debug/pprof/"

// profileServer serves profiles of host and plugin on its own listener.
type profileServer struct {
	server   *http.Server
	listener net.Listener
	url      string
}

// listenForProfiles opens the listener for profiles if --pprof asks for one.
func (h *host) listenForProfiles(ctx context.Context) error {
	if h.config.flags.Pprof == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", h.config.flags.Pprof)
	if err != nil {
		return &flagError{"pprof", err}
	}
	if err := checkProfileAddr(listener.Addr().String()); err != nil { // a name was resolved
		return &flagError{"pprof", errors.Join(err, listener.Close())}
	}
	h.profiles = &profileServer{
		server: &http.Server{ // without a time limit for responses: recording takes a while
			Handler:           newProfiles(h.module.Manager(), h.log),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
		},
		listener: listener,
		url:      listenURL(listener.Addr()),
	}
	h.closers = append(h.closers, h.profiles.close)
	return nil
}

// serve serves profiles until ctx ends.
func (p *profileServer) serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = p.server.Close() })()
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving profiles: %w", err)
	}
	return nil
}

// close ends profiles that are being recorded.
func (p *profileServer) close() error {
	err := p.server.Close()
	if unserved := p.listener.Close(); !errors.Is(unserved, net.ErrClosed) {
		err = errors.Join(err, unserved)
	}
	return err
}

// checkProfileAddr accepts loopback addresses only: profiles reveal how the site works,
// and recording them costs time.
func checkProfileAddr(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if !mailer.IsLoopback(host) {
		return errNotLoopback
	}
	return nil
}

var errNotLoopback = errors.New("profiles are served on a loopback address only, such as 127.0.0.1:6060")

// profiler is the part of [manager.Manager] that profiles need.
type profiler interface {
	DialProfiles(ctx context.Context) (net.Conn, error)
}

// newProfiles returns the handler of the profiles: those of the host under profilesPath,
// those of the live plugin process under plugin/ below it.
func newProfiles(plugin profiler, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+profilesPath, pprof.Index)
	mux.HandleFunc("GET "+profilesPath+"cmdline", pprof.Cmdline)
	mux.HandleFunc("GET "+profilesPath+"profile", pprof.Profile)
	mux.HandleFunc("GET "+profilesPath+"symbol", pprof.Symbol)
	mux.HandleFunc("GET "+profilesPath+"trace", pprof.Trace)
	mux.Handle("GET "+profilesPath+"plugin/{name...}", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "plugin"
			r.Out.URL.Path, r.Out.URL.RawPath = profilesPath+r.In.PathValue("name"), ""
		},
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return plugin.DialProfiles(ctx) },
			DisableKeepAlives: true, // the next request may be for another process
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	})
	return onlyLoopback(mux)
}

// onlyLoopback refuses requests that a website causes in a browser on this machine: for
// another host name, under which it could read the response, and from another origin,
// which could start recordings. For browsers all ports of a host are one site.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, site := &url.URL{Host: r.Host}, r.Header.Get("Sec-Fetch-Site")
		switch {
		case !mailer.IsLoopback(host.Hostname()):
			http.Error(w, "profiles are served under a loopback name only", http.StatusForbidden)
		case site != "" && site != "none" && site != "same-origin":
			http.Error(w, "profiles are not served to pages of other origins", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
