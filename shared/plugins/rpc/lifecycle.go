package rpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// Configuration is the first thing a host sends to a plugin process. The database URL
// and the settings may contain secrets, and the keys are secrets; they travel in the
// Configure call only, never on a command line or in the environment.
type Configuration struct {
	DatabaseURL string // sqlite://PATH or postgres://…
	Settings    []byte // the plugin's own TOML, not read by the host; may be empty; unknown keys are ignored, see [PreflightResult]

	// SecretKeys encrypt what the database must not reveal: the first encrypts, all
	// decrypt. Each has 32 bytes. There are none if the host keeps none.
	SecretKeys [][]byte

	// AccountURL is the public URL of the site's account pages, such as
	// https://example.com/account: absolute, without query and fragment. Links in mails that
	// no setting names lead to pages below it. It is empty if the host knows none.
	AccountURL string

	// Locales are the languages of the site as BCP 47 tags, the default one first. The plugin's own
	// mails are in these, or in English if it has none in them; without any in English and Russian.
	Locales []string

	Scratch *Scratch // of a rehearsal; nil for a process that serves
}

// Builder makes the module of this process from its configuration. It is called
// at most once. It opens what the module needs and changes nothing: migrations
// belong to Migrate, background work to Activate. It returns a [*PermanentError]
// for an error that no retry can fix, such as an invalid setting.
type Builder func(ctx context.Context, c Configuration, host personal.Host) (Module, error)

// Module is a configured personal-account module in a plugin process.
type Module interface {
	// Service returns the service that handles visitors' requests.
	Service() personal.Service
	// Administration returns the operations that the host offers to administrators.
	Administration() personal.Administration
	// Preflight reports whether this version can run here. It changes nothing.
	Preflight(ctx context.Context) (PreflightResult, error)
	// Migrate migrates the database to the schema this version needs. Migrations
	// are additive. A step that takes longer than the limit is undone; 0 is no limit.
	Migrate(ctx context.Context, stepLimit time.Duration) error
	// CheckDatabase makes sure that the process may do on the database what serving needs, and
	// that it can read a session. It changes nothing.
	CheckDatabase(ctx context.Context) error
	// Activate starts background work: mail, events, pruning. A second call has no
	// effect.
	Activate(ctx context.Context) error
	// Quiesce stops background work and waits until running work has finished or
	// ctx is done. Requests are still served.
	Quiesce(ctx context.Context) error
	// Health makes one cheap read through everything a request needs. The warnings are
	// what an administrator should know although the process is healthy, without secrets.
	Health(ctx context.Context) (warnings []string, err error)
	// Metrics returns the metrics of this process since its start, in the text exposition
	// format of Prometheus and at most 1 MiB; nil for none. Names begin with
	// personal_plugin_, and nothing in it was sent by callers. It returns quickly: if the
	// database does not respond, with the last known values.
	Metrics(ctx context.Context) ([]byte, error)
	// Settle is called when this version is settled: it serves, and no bake is under way.
	// Only then may the module store what the other process of a bake could not read, such as
	// secrets that another first key encrypts.
	// It may be called again, and is after an error.
	Settle(ctx context.Context) error
	// Turn moves the clock of a scratch process, and waits, up to [TurnTimeout], until no job is due and,
	// with work, each periodic work has ended a round that began since. With measure it collects
	// garbage, too. The error is [ErrNotScratch] in a process that serves.
	Turn(ctx context.Context, advance time.Duration, work, measure bool) (Turn, error)
	// Accepts reports whether the credentials are those of a session, now and for the next
	// minute, by other settings than those of the configuration. It only looks: it stores,
	// counts and ends nothing.
	Accepts(ctx context.Context, c personal.Credentials, settings []byte) (bool, error)
	// Close releases all resources. No call is running any more.
	Close() error
}

// PreflightResult is the result of a preflight.
type PreflightResult struct {
	SchemaCompatible int     // the lowest schema target of a version that can run on the migrated schema; 0 if unknown
	Checks           []Check // those that failed, in the order in which they ran

	// UnknownSettings are the keys of the settings that the module ignores because it does
	// not know them. The host decides about them: another version may know them.
	UnknownSettings []UnknownSetting
}

// UnknownSetting is a key of the settings that a version does not know.
type UnknownSetting struct {
	Key   string `json:"key"`             // with its section: session.idel
	Meant string `json:"meant,omitempty"` // the key that may be meant; empty if none is similar
}

// String names the key, and the one that may be meant.
func (u UnknownSetting) String() string {
	if u.Meant == "" {
		return u.Key
	}
	return u.Key + " (did you mean " + u.Meant + "?)"
}

// Check is a check of a preflight that failed.
type Check struct {
	Name    string // settings, database, schema, mail or keys
	Warning bool   // not a reason to refuse the version
	Reason  string // why it failed; contains no secret
}

// Scratch makes a process a scratch process: a plugin process for a rehearsal on a SQLite file of
// its own. Its clock stands still but for Turn, password costs are the lowest, SQLite does not sync,
// and jobs and periodic work run in Turn only.
type Scratch struct {
	Now time.Time // at which its clock stands
}

// TurnTimeout is how long a Turn waits for work, also on a machine where others do much.
const TurnTimeout = 30 * time.Second

// ErrNotScratch is the error of Turn in a process that was configured without [Scratch].
var ErrNotScratch = errors.New("this is not a scratch process")

// Turn is what a scratch process has done since its last Turn.
type Turn struct {
	Statements int              // sent to the database
	Scans      []string         // tables that new statements scan, by EXPLAIN QUERY PLAN
	Rows       map[string]int64 // of each table; of a Turn with work
	Goroutines int              // this and the next one are of a Turn with measure
	Heap       int64            // bytes, after a garbage collection

	Durations map[string]time.Duration // of the settings, by their keys; of the first Turn
}

// RehearsalOutcome is the outcome of a check of a rehearsal.
type RehearsalOutcome string

// The outcomes of a check.
const (
	RehearsalPassed  RehearsalOutcome = "passed"
	RehearsalSkipped RehearsalOutcome = "skipped" // it could not be made
	RehearsalFailed  RehearsalOutcome = "failed"  // the version does not do what it must
	RehearsalDiffers RehearsalOutcome = "differs" // its responses are not those of the version that serves
)

// MaxDifferences is how many differences a check names at most.
const MaxDifferences = 10

// RehearsalCheck is one check of a rehearsal. It contains no value of an account.
type RehearsalCheck struct {
	Name        string           `json:"name"`
	Outcome     RehearsalOutcome `json:"outcome"`
	Count       int              `json:"count"`                 // of comparisons
	Differences []Difference     `json:"differences,omitempty"` // the first [MaxDifferences]
	Reason      string           `json:"reason,omitempty"`      // why it was skipped or failed, or how it was made; for administrators
}

// Difference is where a response was not as expected.
type Difference struct {
	Operation string `json:"operation"`       // its name in [personal.Operations]
	Field     string `json:"field,omitempty"` // of the response, error_code, mail, event or statements; empty for the operation as a whole
}

// String returns the form that a manifest's changes have: User.email, ChangeEmail mail, rows.TABLE,
// mail.KIND.LANGUAGE, command NAME.
func (d Difference) String() string {
	if d.Operation == "command" || slices.Contains([]string{"mail", "event", "statements", ""}, d.Field) {
		return strings.TrimSpace(d.Operation + " " + d.Field)
	}
	return d.Operation + "." + d.Field
}

// PermanentError is an error that no retry can fix. Its reason is shown to an
// administrator and contains no secret.
type PermanentError struct{ Reason string }

// Error returns the reason.
func (r *PermanentError) Error() string { return r.Reason }

// Connection is a host's connection to one plugin process, and drives its life cycle, see [Module].
//
// Errors of its lifecycle calls are meant for an administrator. A [*PermanentError]
// says that another process of the same version fails as well. An error wraps
// context.DeadlineExceeded if the call's time ran out.
type Connection struct {
	lifecycle personalv1.LifecycleServiceClient
	ctx       context.Context // cancelled after the process has ended
	broker    *plugin.GRPCBroker
	conn      *grpc.ClientConn
	host      personal.Host
	log       *slog.Logger
	tracer    trace.Tracer // of callbacks; nil for none
	callbacks atomic.Int64
	cutting   sync.Mutex
	cut       chan struct{} // of the callbacks that have started since the last CutCallbacks
}

// Conn returns the connection for [NewClient].
func (c *Connection) Conn() grpc.ClientConnInterface { return c.conn }

// Done returns a channel that is closed after the process has ended.
func (c *Connection) Done() <-chan struct{} { return c.ctx.Done() }

// Callbacks returns how many calls from the plugin to the host are running.
func (c *Connection) Callbacks() int { return int(c.callbacks.Load()) }

// CutCallbacks ends the contexts of the running calls from the plugin to the host, which then returns
// what it knows while the plugin can still store it.
func (c *Connection) CutCallbacks() {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	close(c.cut)
	c.cut = make(chan struct{})
}

// Configure sends the configuration and starts to serve the plugin's callbacks,
// which it does until the process ends. It returns nil once the module is built and
// has made its first callback. It can be called once: after a failed configuration
// the process cannot be used any more.
func (c *Connection) Configure(ctx context.Context, configuration Configuration) error {
	id := c.broker.NextId()
	go c.broker.AcceptAndServe(id, c.newHostServer)
	request := convert.configurationToPB(configuration)
	request.HostBrokerId = id
	return lifecycleError(ctx, failure(c.lifecycle.Configure(ctx, request)))
}

// newHostServer returns the server for callbacks. It stops when the process ends,
// whether or not the host closes its client.
func (c *Connection) newHostServer(options []grpc.ServerOption) *grpc.Server {
	server := newServer(options, c.interceptCallback)
	personalv1.RegisterHostServiceServer(server, &hostServer{host: c.host})
	context.AfterFunc(c.ctx, server.Stop)
	return server
}

func (c *Connection) interceptCallback(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c.callbacks.Add(1)
	defer c.callbacks.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.cutting.Lock()
	cut := c.cut
	c.cutting.Unlock()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return interceptor{log: c.log, tracer: c.tracer, status: callbackStatus}.intercept(ctx, request, info, next)
}

// Preflight asks whether this version can run here.
func (c *Connection) Preflight(ctx context.Context) (PreflightResult, error) {
	response, err := c.lifecycle.Preflight(ctx, &personalv1.PreflightRequest{})
	if err != nil {
		return PreflightResult{}, lifecycleError(ctx, err)
	}
	return convert.preflightFromPB(response), nil
}

// Migrate migrates the database to the schema that this version needs, see [Module].
func (c *Connection) Migrate(ctx context.Context, stepLimit time.Duration) error {
	return lifecycleError(ctx, failure(c.lifecycle.Migrate(ctx, &personalv1.MigrateRequest{StepLimit: durationpb.New(stepLimit)})))
}

// CheckDatabase makes sure of rights and a session, see [Module].
func (c *Connection) CheckDatabase(ctx context.Context) error {
	return lifecycleError(ctx, failure(c.lifecycle.CheckDatabase(ctx, &personalv1.CheckDatabaseRequest{})))
}

// Activate starts background work.
func (c *Connection) Activate(ctx context.Context) error {
	return lifecycleError(ctx, failure(c.lifecycle.Activate(ctx, &personalv1.ActivateRequest{})))
}

// Quiesce stops background work and waits until running work has finished.
func (c *Connection) Quiesce(ctx context.Context) error {
	return lifecycleError(ctx, failure(c.lifecycle.Quiesce(ctx, &personalv1.QuiesceRequest{})))
}

// Health makes one cheap read through everything a request needs.
func (c *Connection) Health(ctx context.Context) (warnings []string, err error) {
	response, err := c.lifecycle.Health(ctx, &personalv1.HealthRequest{})
	return response.GetWarnings(), lifecycleError(ctx, err)
}

// Settle says that the version is settled, see [Module].
func (c *Connection) Settle(ctx context.Context) error {
	return lifecycleError(ctx, failure(c.lifecycle.Settle(ctx, &personalv1.SettleRequest{})))
}

// Accepts reports whether credentials are those of a session, see [Module].
func (c *Connection) Accepts(ctx context.Context, pair personal.Credentials, settings []byte) (bool, error) {
	response, err := c.lifecycle.Accepts(ctx, &personalv1.AcceptsRequest{Credentials: convert.credentialsToPB(pair), Settings: settings})
	return response.GetAccepted(), lifecycleError(ctx, err)
}

// Turn moves the clock of a scratch process, see [Module]. A process that is none, or does not know
// of scratch processes, is a [*PermanentError].
func (c *Connection) Turn(ctx context.Context, advance time.Duration, work, measure bool) (Turn, error) {
	response, err := c.lifecycle.Turn(ctx, &personalv1.TurnRequest{Advance: durationpb.New(advance), Work: work, Measure: measure})
	switch status.Code(err) {
	case codes.OK:
		return convert.turnFromPB(response), nil
	case codes.NotFound, codes.Unimplemented:
		return Turn{}, &PermanentError{Reason: "this version cannot be a scratch process"}
	}
	return Turn{}, lifecycleError(ctx, err)
}
