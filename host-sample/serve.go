package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// pluginStopTime is how long the plugin may take to end before it is killed. By
// then no request is under way, and the manager's other limits are shorter.
const pluginStopTime = 20 * time.Second

// serve runs the CMS until the context ends.
func serve(ctx context.Context, c config, out output) error {
	log := slog.New(slog.NewTextHandler(out.stderr, &slog.HandlerOptions{Level: c.logLevel}))
	h, err := openHost(ctx, c, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out.stdout, "listening on %s\n", h.url)
	return h.run(ctx, func() { h.introduce(out.stdout, h.url+c.shim.BasePath, c.dataDir) })
}

// adminLink returns a link to the admin pages that is good once.
func (h *host) adminLink() string { return h.url + "/admin/enter?code=" + h.sessions.NewCode() }

// introduce tells whoever started the host where everything is.
func (h *host) introduce(w io.Writer, base, dataDir string) {
	fmt.Fprintf(w, `
The site    %[1]s/
Admin       %[4]s
            good once, for ten minutes; another: host-sample admin-link --data %[3]s
The API     %[2]s/api/v1/personal/, described at %[1]s/reference
Admin API   %[1]s/admin/api/plugin, /admin/api/user-fields; bearer token in %[3]s/admin-token
Health      %[1]s/readyz, /healthz, /metrics

Try it:
  curl %[2]s/api/v1/personal/register/ -d login=anna -d email=anna@example.com -d password='correct horse' -d confirm_password='correct horse'

`, h.url, base, dataDir, h.adminLink())
}

// run serves until the context ends, then stops in good order and returns nil. It
// calls serving when the plugin has come up.
// It also ends, with the reason, when the plugin cannot be started and waiting
// would not help; a database that is away is waited for.
func (h *host) run(ctx context.Context, serving func()) (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.manager.Start(); err != nil {
		return err
	}
	served, ready := make(chan error, 1), make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()
	go func() { ready <- h.manager.WaitReady(ctx) }()
	defer h.stop(ctx)
	for {
		select {
		case <-ctx.Done():
			h.log.Info("stopping", "drain", h.drain)
			return nil
		case err := <-served:
			return fmt.Errorf("serving: %w", err)
		case err := <-ready:
			switch {
			case err == nil:
				serving()
			case ctx.Err() == nil:
				return fmt.Errorf("the plugin cannot be started: %w", err)
			}
		}
	}
}

// stop lets the requests under way come to their end, and then the plugin.
func (h *host) stop(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it has ended, or else there is an error to end for
	drain, cancel := context.WithTimeout(ctx, h.drain)
	defer cancel()
	if err := h.server.Shutdown(drain); err != nil {
		h.log.Warn("requests are still under way, they are cut off", "error", err)
		_ = h.server.Close() // nothing is left to be said to those clients
	}
	last, cancel := context.WithTimeout(ctx, pluginStopTime)
	defer cancel()
	if err := h.manager.Stop(last); err != nil {
		h.log.Error("stopping the plugin", "error", err)
	}
}

// until ends the requests of a handler with ctx too: one that waits for a swap
// holds up no stop.
func until(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(own))
	})
}

// close releases what was opened, the latest first.
func (h *host) close() error {
	var errs []error
	for _, c := range slices.Backward(h.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
