package manager

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/tracing"
)

// debugTimeout replaces time limits that a debugger would let pass.
const debugTimeout = 24 * time.Hour

// Config configures a manager.
type Config struct {
	Catalogue   *catalogue.Catalogue
	Host        personal.Host // if it also has CheckMail(context.Context) error, a swap asks it; unreachable mail is a warning
	DatabaseURL string        // sqlite://PATH or postgres://…, passed to the plugin; a secret
	RunDir      string        // private to this manager; created with mode 0700 if it does not exist
	Log         *slog.Logger  // nil for slog.Default()

	// Settings returns the settings file (TOML). It is called at every start of a process; nil
	// for no settings.
	Settings func() ([]byte, error)

	// SecretKeys returns the keys that encrypt what the database must not reveal, such as the
	// secrets of second factors: the first encrypts, all decrypt. Each has 32 bytes. It is
	// called at every start of a process, so that a swap or restart rotates keys. nil for no
	// keys: what needs them does not exist. secretkeys.ReadFile reads them from a file.
	SecretKeys func() ([][]byte, error)

	// AccountURL is the public URL of the site's account pages, such as
	// https://example.com/account, without query and fragment; empty for none. Plugins build
	// the links in mails that no setting names from it: AccountURL/recover, /email and
	// /undo-delete. A plugin refuses another URL.
	AccountURL string

	// Locales returns the languages of the site, the default one first, in which a plugin sends mails; English and
	// Russian if nil. It is called at every start of a process.
	Locales func() []string

	// TracerProvider makes OpenTelemetry spans of the callbacks that the plugin traces; nil
	// for none. The plugin makes its own spans, as the host's variables OTEL_… say, and
	// only of calls that the host traces.
	TracerProvider trace.TracerProvider

	Options

	limits *limits                                                           // nil for defaultLimits
	script func(context.Context, rehearsal.Config) (rehearsal.Result, error) // of a rehearsal; nil for rehearsal.Run
}

// Options are what a CMS may choose, also with package personalhost. A zero duration or number
// takes the default at the end of its comment.
type Options struct {
	Env []string // NAME=value, in addition to the few variables that every plugin gets

	// MemoryLimit is how much memory a plugin process should use, in bytes; 0 for no limit.
	// Go's runtime in the process aims at four fifths of it, by collecting garbage more
	// often (GOMEMLIMIT). For a hard limit, limit the host's service or container. A plugin
	// refuses to start with a limit below what its settings need.
	MemoryLimit int64

	CallTimeout time.Duration // of a call without its own deadline: 30s

	// Rehearse is what the result of a rehearsal decides, see [Manager.Use]: RehearseRefuse.
	Rehearse RehearsePolicy

	// MinAge is how long the host must have had a version before an administrator's swap to it,
	// or a rehearsal: a bundle that was published by an intruder is usually withdrawn
	// within days. 0 for no minimum. The time counts from the installation, by the clock of the
	// machine, see [catalogue.Catalogue.FirstSeen]: a clock that is set back makes
	// versions younger. Versions that have served here are exempt: the live, the active
	// and the last good one.
	MinAge time.Duration

	Bake    time.Duration // how long the old process stays warm after a swap: 60s; negative for no bake
	OnEvent func(Event)   // gets every event; must be safe for concurrent use, and fast; nil for none

	// Profiles makes each plugin process serve its runtime profiles, see
	// [Manager.DialProfiles].
	Profiles bool

	// Debug is for development: a debugger may pause a plugin process for as long as a
	// day. Processes get no health checks, and a day replaces CallTimeout and the time
	// limits of a start. The limits for ending a process, by a swap or by Stop, still
	// apply. A process that hangs is not replaced.
	Debug bool
}

// limits are what no CMS chooses. Tests set others.
type limits struct {
	StartTimeout       time.Duration // from the start of a process to its handshake
	ConfigureTimeout   time.Duration
	PreflightTimeout   time.Duration
	MigrateTimeout     time.Duration
	MigrationStep      time.Duration // of each step of a migration while a process serves
	CheckTimeout       time.Duration // how long a process may take to become healthy before it serves
	RehearseTimeout    time.Duration // of the rehearsal of a version, which is then refused; its single steps have limits of their own
	SameAnswersTimeout time.Duration // of the comparison of live answers
	ActivateTimeout    time.Duration

	HealthInterval time.Duration // between health checks of a process
	HealthTimeout  time.Duration // of a health check; a call without a response for this long counts as failed, unless the process is overloaded

	HangTimeout time.Duration // a call that takes this long counts as failed although its caller gave up, unless the process is overloaded

	RestartWait  time.Duration // how long a call waits for a process
	BackoffMin   time.Duration // upper limit of the first wait between failed starts
	BackoffMax   time.Duration // upper limit of all waits between failed starts
	CrashLimit   int           // crashes in a row that make a version fail
	FailureRetry time.Duration // between starts of a version that failed, and between attempts to settle one

	DrainTimeout    time.Duration // for calls under way in a process that is retired
	QuiesceTimeout  time.Duration // for its background work
	ShutdownTimeout time.Duration // for the process to accept the request to end; go-plugin kills it 2s after that
}

var defaultLimits = limits{
	StartTimeout:       15 * time.Second,
	ConfigureTimeout:   15 * time.Second,
	PreflightTimeout:   15 * time.Second,
	MigrateTimeout:     2 * time.Minute,
	MigrationStep:      3 * time.Second,
	CheckTimeout:       10 * time.Second,
	RehearseTimeout:    30 * time.Minute,
	SameAnswersTimeout: time.Minute,
	ActivateTimeout:    5 * time.Second,

	HealthInterval: time.Second,
	HealthTimeout:  2 * time.Second,
	HangTimeout:    5 * time.Second,

	RestartWait:  5 * time.Second,
	BackoffMin:   100 * time.Millisecond,
	BackoffMax:   10 * time.Second,
	CrashLimit:   5,
	FailureRetry: 30 * time.Second,

	DrainTimeout:    30 * time.Second,
	QuiesceTimeout:  1500 * time.Millisecond,
	ShutdownTimeout: 3 * time.Second,
}

const (
	healthFailures = 3                // health checks in a row without a response that prove that a process hangs
	crashWindow    = 10 * time.Second // a process that dies sooner than this after it was ready has crashed
)

// forDebugger returns the limits for processes that a debugger may pause.
func (l limits) forDebugger() limits {
	l.StartTimeout, l.ConfigureTimeout, l.PreflightTimeout = debugTimeout, debugTimeout, debugTimeout
	l.MigrateTimeout, l.CheckTimeout, l.RehearseTimeout = debugTimeout, debugTimeout, debugTimeout
	return l
}

func (c Config) withDefaults() Config {
	c.limits = cmp.Or(c.limits, &defaultLimits)
	if c.Debug {
		l := c.limits.forDebugger()
		c.limits, c.CallTimeout = &l, debugTimeout
	}
	c.Log = tracing.WithTraceID(cmp.Or(c.Log, slog.Default()))
	if c.Settings == nil {
		c.Settings = func() ([]byte, error) { return nil, nil }
	}
	if c.script == nil {
		c.script = rehearsal.Run
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	c.Bake = cmp.Or(c.Bake, time.Minute)
	c.CallTimeout = cmp.Or(c.CallTimeout, 30*time.Second)
	c.Rehearse = cmp.Or(c.Rehearse, RehearseRefuse)
	return c
}
