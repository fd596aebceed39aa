package pluginmanager

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// Config is what a manager needs. Times that are zero take the default named
// beside them.
type Config struct {
	Catalogue   *plugincatalogue.Catalogue
	Host        personal.Host          // one that also has CheckMail(context.Context) error is asked before a swap: mail that is away is a warning
	DatabaseURL string                 // sqlite://PATH or postgres://…, handed to the plugin; a secret
	Settings    func() ([]byte, error) // read anew at every start; nil for none
	RunDir      string                 // private to this manager; made with mode 0700 if there is none
	Log         *slog.Logger           // nil for slog.Default()
	Env         []string               // NAME=value, beside the few variables that a plugin gets anyway

	RestartWait time.Duration // how long a call waits for a process: 5s
	CallTimeout time.Duration // of a call that has no deadline of its own: 30s

	StartTimeout     time.Duration // from the start of a process to its handshake: 15s
	ConfigureTimeout time.Duration // 15s
	PreflightTimeout time.Duration // 15s
	MigrateTimeout   time.Duration // 2m
	CheckTimeout     time.Duration // of all health checks before a process serves: 10s
	ActivateTimeout  time.Duration // 5s

	HealthInterval time.Duration // between health checks of a process: 1s
	HealthTimeout  time.Duration // of one of them, and from when on a call that gets no answer is the fault of a process that is not overloaded: 2s
	HealthFailures int           // unanswered checks in a row that prove a process hung: 3

	BackoffMin   time.Duration // the first wait between failed starts, at most: 100ms
	BackoffMax   time.Duration // the longest wait between failed starts, at most: 10s
	CrashWindow  time.Duration // a process that dies sooner after it was ready has crashed: 10s
	CrashLimit   int           // crashes in a row that make a version fail: 5
	FailureRetry time.Duration // between attempts once it failed: 30s

	Bake    time.Duration // how long the old process stays warm after a swap: 60s; negative for not at all
	OnEvent func(Event)   // is told what happens; safe for concurrent use, must not block for long; nil for nobody

	DrainTimeout    time.Duration // for calls under way in a process that is given up or stopped: 5s
	QuiesceTimeout  time.Duration // for its background work: 2s
	ShutdownTimeout time.Duration // for a process to end when asked to: 3s
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Settings == nil {
		c.Settings = func() ([]byte, error) { return nil, nil }
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

func (c Config) validate() error {
	switch {
	case c.Catalogue == nil:
		return errors.New("plugin manager: no catalogue given")
	case c.Host == nil:
		return errors.New("plugin manager: no host given")
	case c.RunDir == "":
		return errors.New("plugin manager: no run folder given")
	}
	return nil
}
