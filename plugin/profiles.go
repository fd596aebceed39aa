package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" // registers with http.DefaultServeMux
	"os"
	"time"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// serveProfiles serves net/http/pprof on the socket that the host names, if it asks for
// profiles. Without profiles the plugin works as well: a failure is a warning.
func serveProfiles(log *slog.Logger) {
	path := os.Getenv(rpc.ProfilesEnv)
	if path == "" {
		return
	}
	if err := listenForProfiles(path); err != nil {
		log.Warn("the plugin serves no profiles", slog.Any("error", err))
	}
}

// listenForProfiles returns once the socket accepts connections. It does so until the process ends.
func listenForProfiles(path string) error {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second} // without a limit for responses: recording takes a while
	go func() { _ = server.Serve(listener) }()
	return nil
}
