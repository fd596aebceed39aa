package pluginmanager

import (
	"context"
	"log/slog"
	"os"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

// inherited names the variables of the host that its plugin gets: where
// temporary files go, the time zone, the certificates to trust, and the limits
// of Go's run time. Everything else, secrets among it, stays with the host.
var inherited = []string{"TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// environment returns the plugin's environment: the log level, what it inherits
// and what was given, of which the latter wins.
func environment(given []string, log *slog.Logger) []string {
	env := []string{pluginrpc.LogLevelEnv + "=" + logLevel(log).String()}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, given...)
}

// logLevel returns the lowest of the usual levels that the log has a use for:
// lines that nobody reads need not be written, sent and parsed.
func logLevel(log *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if log.Enabled(context.Background(), level) {
			return level
		}
	}
	return slog.LevelError
}
