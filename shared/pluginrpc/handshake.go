package pluginrpc

import (
	"log/slog"
	"os"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	// PluginName is what a host dispenses to get a [*Connection].
	PluginName = "personal"

	// ProtocolVersion is the version of the protocol between host and plugin. It
	// rises only when one side can no longer talk to an older one; what is added
	// compatibly leaves it as it is.
	ProtocolVersion = 1

	// MaxMessageSize bounds every message between host and plugin, both ways, in
	// bytes.
	MaxMessageSize = 4 << 20
)

// Handshake returns what host and plugin must agree in before they talk. The
// cookie is no secret: it keeps a plugin from being started by mistake.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "PERSONAL_PLUGIN_COOKIE",
		MagicCookieValue: "7f0c1d52-personal-account-module",
	}
}

// UnderHandshake reports whether a host started this process as its plugin, so
// that a plugin run by hand can print its help instead.
func UnderHandshake() bool {
	h := Handshake()
	return os.Getenv(h.MagicCookieKey) == h.MagicCookieValue
}

// VersionedPlugins returns the host's side for plugin.ClientConfig. The plugin's
// callbacks go to host; what fails in one is logged to log.
func VersionedPlugins(host personal.Host, log *slog.Logger) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {PluginName: &hostSide{host: host, log: log}},
	}
}

// DialOptions returns the options for plugin.ClientConfig.GRPCDialOptions.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageSize),
			grpc.MaxCallSendMsgSize(MaxMessageSize),
		),
	}
}

func sizeLimits() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageSize),
		grpc.MaxSendMsgSize(MaxMessageSize),
	}
}
