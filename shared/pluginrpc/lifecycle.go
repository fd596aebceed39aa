package pluginrpc

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// Configuration is what a host hands a plugin process before anything else.
// Both parts may hold secrets; they cross in the Configure call alone, never on
// a command line or in the environment.
type Configuration struct {
	DatabaseURL string // sqlite://PATH or postgres://…
	Settings    []byte // the plugin's own TOML, unread by the host; may be empty
}

// Builder makes the module of this process from its configuration. It is called
// at most once. It opens what the module needs but changes nothing: migrations
// belong to Migrate, background work to Activate. An error that no retry can
// mend (a bad setting) is a [*PermanentError].
type Builder func(ctx context.Context, c Configuration, host personal.Host) (Module, error)

// Module is a configured personal-account module in a plugin process.
type Module interface {
	// Service returns what visitors' requests are answered by.
	Service() personal.Service
	// Preflight reports whether this version can run here; it changes nothing.
	Preflight(ctx context.Context) (Report, error)
	// Migrate brings the database to the schema this version needs, additively.
	Migrate(ctx context.Context) error
	// Activate starts background work: mail, events, pruning. Calling it twice
	// is the same as once.
	Activate(ctx context.Context) error
	// Quiesce stops background work and waits for what is under way, as long as
	// ctx allows. Requests are still answered.
	Quiesce(ctx context.Context) error
	// Health does one cheap read through everything a request needs.
	Health(ctx context.Context) error
	// Close releases everything. No call is under way any more.
	Close() error
}

// ModuleWithAdministration is a module that offers an administration as well, which
// not every one does: of another each of its operations answers
// personal.CodeNotFound.
type ModuleWithAdministration interface {
	Module
	// Administration returns what the host's own code asks about users.
	Administration() personal.Administration
}

// Lifecycle is how a host drives a plugin process: the module's life cycle as
// seen from the other side of the boundary.
type Lifecycle interface {
	Configure(ctx context.Context, c Configuration) error
	Preflight(ctx context.Context) (Report, error)
	Migrate(ctx context.Context) error
	Activate(ctx context.Context) error
	Quiesce(ctx context.Context) error
	Health(ctx context.Context) error
}

// Report is the answer to a preflight.
type Report struct {
	Version          string  // of the module
	SchemaFound      int     // version of the database's schema; 0 for an empty database
	SchemaMinimum    int     // the oldest schema this version can migrate from or run on
	SchemaTarget     int     // the schema this version migrates to
	SchemaCompatible int     // the least SchemaTarget of a version that can work on the schema after the migration; 0 if untold
	Checks           []Check // what was looked at, in order
}

// Check is one finding of a preflight.
type Check struct {
	Name    string // protocol, schema, settings, database, mail
	Passed  bool
	Warning bool   // failed, but no reason to refuse
	Reason  string // why it failed; holds no secret
}

// PermanentError is an error that trying again will not mend. Its reason is meant for
// an administrator and holds no secret.
type PermanentError struct{ Reason string }

// Error returns the reason.
func (r *PermanentError) Error() string { return r.Reason }
