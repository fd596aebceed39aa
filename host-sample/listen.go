package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// listen opens the listener and writes down where it is.
func (h *host) listen(ctx context.Context, addr string, folder *dataFolder) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return &settingError{key: "addr", err: err}
	}
	h.listener, h.url = listener, listenURL(listener.Addr())
	h.closers = append(h.closers, func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) { // the server closes it too
			return err
		}
		return nil
	})
	return folder.announce(h.url)
}

// listenURL returns the URL by which this machine reaches a listener.
func listenURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// newServer bounds what a slow or greedy client may take. The shim has limits
// of its own, shorter than these.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
