package pluginmanager

import (
	"cmp"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/tracing"
)

// debugTimeout replaces time limits that a debugger would let pass.
const debugTimeout = 24 * time.Hour

// Config configures a manager.
type Config struct {
	Catalogue   *plugincatalogue.Catalogue
	Host        personal.Host // if it also has CheckMail(context.Context) error, a swap asks it; unreachable mail is a warning
	DatabaseURL string        // sqlite://PATH or postgres://…, passed to the plugin; a secret
	RunDir      string        // private to this manager; created with mode 0700 if it does not exist
	Log         *slog.Logger  // nil for slog.Default()

	// Settings returns the settings file (TOML) for the version that starts, because versions
	// refuse settings that they do not know. It is called at every start; nil for no settings.
	Settings func(plugincatalogue.Manifest) ([]byte, error)

	// SecretKeys returns the keys that encrypt what the database must not reveal, such as the
	// secrets of second factors: the first encrypts, all decrypt. Each has 32 bytes. It is
	// called at every start of a process, so that a swap or restart rotates keys. nil for no
	// keys: what needs them does not exist. secretkeys.ReadFile reads them from a file.
	SecretKeys func() ([][]byte, error)

	// AccountURL is the public URL of the site's account pages, such as
	// https://example.com/account, without query and fragment; empty for none. Plugins build
	// the links in mails that no setting names from it: AccountURL/recover, /email and
	// /undo-delete. A plugin refuses another URL. Older plugins ignore it.
	AccountURL string

	// TracerProvider makes OpenTelemetry spans of the callbacks that the plugin traces; nil
	// for none. The plugin makes its own spans, as the host's variables OTEL_… say, and
	// only of calls that the host traces.
	TracerProvider trace.TracerProvider

	Options
}

// Options are what a CMS may choose, also with package personalhost. A zero duration or number
// takes the default at the end of its comment.
type Options struct {
	Env []string // NAME=value, in addition to the few variables that every plugin gets

	// MemoryLimit is how much memory a plugin process should use, in bytes; 0 for no limit.
	// Go's runtime in the process aims at four fifths of it, by collecting garbage more
	// often (GOMEMLIMIT). For a hard limit, limit the host's service or container. A plugin
	// refuses to start with a limit below what its settings need; version 0.1.0 does not
	// check.
	MemoryLimit int64

	RestartWait time.Duration // how long a call waits for a process: 5s
	CallTimeout time.Duration // of a call without a deadline of its own: 30s

	StartTimeout     time.Duration // from the start of a process to its handshake: 15s
	ConfigureTimeout time.Duration // 15s
	PreflightTimeout time.Duration // 15s
	MigrateTimeout   time.Duration // 2m
	CheckTimeout     time.Duration // how long a process may take to become healthy before it serves: 10s
	ActivateTimeout  time.Duration // 5s

	HealthInterval time.Duration // between health checks of a process: 1s
	HealthTimeout  time.Duration // of a health check; a call without a response for this long counts as failed, unless the process is overloaded: 2s
	HealthFailures int           // health checks in a row without a response that prove that a process hangs: 3

	BackoffMin   time.Duration // upper limit of the first wait between failed starts: 100ms
	BackoffMax   time.Duration // upper limit of all waits between failed starts: 10s
	CrashWindow  time.Duration // a process that dies sooner than this after it was ready has crashed: 10s
	CrashLimit   int           // crashes in a row that make a version fail: 5
	FailureRetry time.Duration // between starts of a version that failed, and between attempts to settle one: 30s

	RehearseTimeout time.Duration  // of the rehearsal of a version, see [Manager.Use]; what it leaves no time for is skipped: 5s
	Rehearse        RehearsePolicy // what the result of a rehearsal decides: RehearseWarn

	// MinAge is how long the host must have had a version before an administrator's swap to it,
	// or a rehearsal: a bundle that was published by an intruder is usually withdrawn
	// within days. 0 for no minimum. The time counts from the installation, by the clock of the
	// machine, see [plugincatalogue.Catalogue.FirstSeen]: a clock that is set back makes
	// versions younger. Versions that have served here are exempt: the live, the active
	// and the last good one.
	MinAge time.Duration

	Bake    time.Duration // how long the old process stays warm after a swap: 60s; negative for no bake
	OnEvent func(Event)   // gets every event; must be safe for concurrent use, and fast; nil for none

	DrainTimeout    time.Duration // for calls under way in a process that is retired: 5s
	QuiesceTimeout  time.Duration // for its background work: 2s
	ShutdownTimeout time.Duration // for the process to accept the request to end: 3s; go-plugin kills it 2s after that

	// Profiles makes each plugin process serve its runtime profiles, see
	// [Manager.DialProfiles]. Version 0.1.0 has none.
	Profiles bool

	// Debug is for development: a debugger may pause a plugin process for as long as a
	// day. Processes get no health checks, and a day replaces CallTimeout and the time
	// limits of a start, from StartTimeout to CheckTimeout. The limits for ending a
	// process, by a swap or by Stop, still apply. A process that hangs is not replaced.
	Debug bool
}

func (c Config) withDefaults() Config {
	if c.Debug {
		for _, limit := range []*time.Duration{
			&c.CallTimeout, &c.StartTimeout, &c.ConfigureTimeout, &c.PreflightTimeout, &c.MigrateTimeout, &c.CheckTimeout,
			&c.RehearseTimeout,
		} {
			*limit = debugTimeout
		}
	}
	c.Log = tracing.WithTraceID(cmp.Or(c.Log, slog.Default()))
	if c.Settings == nil {
		c.Settings = func(plugincatalogue.Manifest) ([]byte, error) { return nil, nil }
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	c.Bake = cmp.Or(c.Bake, time.Minute)
	c.RestartWait = cmp.Or(c.RestartWait, 5*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 30*time.Second)
	c.StartTimeout = cmp.Or(c.StartTimeout, 15*time.Second)
	c.ConfigureTimeout = cmp.Or(c.ConfigureTimeout, 15*time.Second)
	c.PreflightTimeout = cmp.Or(c.PreflightTimeout, 15*time.Second)
	c.MigrateTimeout = cmp.Or(c.MigrateTimeout, 2*time.Minute)
	c.CheckTimeout = cmp.Or(c.CheckTimeout, 10*time.Second)
	c.RehearseTimeout = cmp.Or(c.RehearseTimeout, 5*time.Second)
	c.Rehearse = cmp.Or(c.Rehearse, RehearseWarn)
	c.ActivateTimeout = cmp.Or(c.ActivateTimeout, 5*time.Second)
	c.HealthInterval = cmp.Or(c.HealthInterval, time.Second)
	c.HealthTimeout = cmp.Or(c.HealthTimeout, 2*time.Second)
	c.HealthFailures = cmp.Or(c.HealthFailures, 3)
	c.BackoffMin = cmp.Or(c.BackoffMin, 100*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, 10*time.Second)
	c.CrashWindow = cmp.Or(c.CrashWindow, 10*time.Second)
	c.CrashLimit = cmp.Or(c.CrashLimit, 5)
	c.FailureRetry = cmp.Or(c.FailureRetry, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 5*time.Second)
	c.QuiesceTimeout = cmp.Or(c.QuiesceTimeout, 2*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 3*time.Second)
	return c
}
