package personalhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

const (
	// drainTime is how long requests under way may take when a server stops, by default.
	drainTime = 30 * time.Second
	// readyTime is how long what waits in a socket of systemd waits for the plugin. After it requests get 503.
	readyTime = 30 * time.Second
)

// passed is a socket that systemd has passed: clients wait in it while the host restarts.
type passed struct{ net.Listener }

// Listen listens on the socket that systemd has passed, see systemd.socket(5), or else on a TCP address. A socket that is
// passed stays open when the host stops: what clients send is served by the next one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	sockets, err := activation.Listeners()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the sockets of systemd: %w", err)
	case len(sockets) > 1:
		return nil, fmt.Errorf("systemd has passed %d sockets: name one ListenStream= in the socket unit", len(sockets))
	case len(sockets) == 1 && sockets[0] == nil:
		return nil, errors.New("systemd has passed a socket that is no stream: use ListenStream= in the socket unit")
	case len(sockets) == 1:
		return passed{sockets[0]}, nil
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// Serve runs an HTTP server on server.Addr, or on the socket that systemd has passed, see [Listen] and [Module.ServeOn]. It
// returns the error, and closes the module, if it cannot listen.
func (m *Module) Serve(ctx context.Context, server *http.Server) error {
	listener, err := Listen(ctx, cmp.Or(server.Addr, ":http"))
	if err != nil {
		return errors.Join(err, m.Close())
	}
	m.log.Info("listening", "address", listener.Addr().String())
	return m.ServeOn(ctx, listener, server)
}

// ServeOn runs an HTTP server until ctx ends or the CMS calls the server's Shutdown, then
// stops in order: it accepts no more connections, closes each one after its response, ends the polls of
// pages, waits for requests under way (for [Config].Drain), cuts off the rest and closes the
// module. It returns nil then. It stops in the same way, and returns the error, if the
// server fails.
//
// It tells systemd that the host is ready once the plugin serves, that it is alive, and that it stops (sd_notify(3)). On a
// socket of systemd it accepts requests once the plugin serves, or after 30 seconds; on a listener that wraps one, at
// once.
//
// At the end of ctx, a connection that is open gets a response to what the client sends within 300 ms, and the response closes
// it: net/http alone would close a connection that is kept alive while the client sends. The rest of a request's head
// may take 2 s. New connections wait in the socket of systemd for the next process; on another listener they are refused.
//
// Clients have limits. ServeOn sets ReadHeaderTimeout (10 s), IdleTimeout (2 min), MaxHeaderBytes
// (32 KiB) and ErrorLog where they are zero. A body must come within 30 s, unless ReadTimeout is set, and
// within 2 s once the server stops. A client that takes nothing of a response for 30 s is cut
// off, and so is one that has not taken it within 10 minutes, or within WriteTimeout. A handler
// for long uploads or downloads replaces the limit of the body and the 10 minutes by deadlines of
// its own, see [http.ResponseController].
//
// If Handler is nil, ServeOn serves the API alone. It does not use TLS, which terminates at a
// proxy. Over HTTP/2 without TLS, which a server may permit, responses have no limits.
func (m *Module) ServeOn(ctx context.Context, listener net.Listener, server *http.Server) (err error) {
	defer func() { err = errors.Join(err, m.Close()) }()
	if server.Handler == nil {
		server.Handler = m.Front(nil)
	}
	if _, ok := listener.(passed); ok {
		err := m.awaitReady(ctx, readyTime)
		if err != nil || ctx.Err() != nil { // what waits in the socket is for the next process
			return errors.Join(err, listener.Close())
		}
	}
	if os.Getenv("NOTIFY_SOCKET") != "" {
		go m.tellSystemd(m.stopping)
	}
	listener = m.limit(server, listener)
	server.ErrorLog = cmp.Or(server.ErrorLog, slog.NewLogLogger(m.log.Handler(), slog.LevelWarn))
	var serving error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serving = server.Serve(listener)
	}()
	select {
	case <-ended:
		if !errors.Is(serving, http.ErrServerClosed) { // otherwise requests may still be under way
			err = fmt.Errorf("serving HTTP: %w", serving)
		}
	case <-ctx.Done():
	}
	m.log.Info("stopping", "drain", m.drain)
	go m.notify(daemon.SdNotifyStopping) // which may not be read
	_ = listener.Close()
	m.stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.drain)
	defer cancel()
	select {
	case <-ended: // all connections that were accepted are known
	case <-time.After(lingerTurns * turn): // a listener of the CMS may go on
	}
	m.clients.linger(drain) // Shutdown closes idle connections at once, and what clients send then is lost
	if late := server.Shutdown(drain); late != nil {
		m.log.Warn("cutting off requests that are still running", "error", late)
		_ = server.Close() // those clients get no response
	}
	return err
}

// awaitReady waits until the plugin serves, for a time. It returns an error if the plugin cannot be started
// and waiting would not help.
func (m *Module) awaitReady(ctx context.Context, limit time.Duration) error {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := m.manager.WaitReady(wait)
	switch {
	case ctx.Err() != nil:
		return nil
	case wait.Err() != nil:
		m.log.Warn("serving although the plugin does not serve yet", "error", err)
		return nil
	}
	return err
}

// tellSystemd says when the plugin serves, and then that the process is alive, until ctx ends.
func (m *Module) tellSystemd(ctx context.Context) {
	for m.manager.WaitReady(ctx) != nil { // an administrator may choose a version that can be started
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
	m.notify(daemon.SdNotifyReady)
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	alive := time.NewTicker(interval / 2)
	defer alive.Stop()
	for {
		select {
		case <-alive.C:
			m.notify(daemon.SdNotifyWatchdog)
		case <-ctx.Done():
			return
		}
	}
}

// notify tells systemd a state, if it has started this process.
func (m *Module) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.log.Warn("telling systemd", "state", state, "error", err)
	}
}
