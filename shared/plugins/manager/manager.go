// Package manager runs the personal-account plugin: it starts the active
// version of a catalogue, checks it before any request reaches it, replaces it when
// it dies or hangs, swaps it for another version, and stops it with the host.
//
// A [Manager] is a grpc.ClientConnInterface: a service made on it by
// [rpc.NewClient] outlives the processes behind it.
//
// One goroutine, the supervisor, decides which process gets the calls. It is a state
// machine, whose table is in supervisor.go. Callers share the live process and the
// counts of its calls with it, behind one mutex. There is one way to bring a process
// up, for boot, restart and swap. Every step that waits for a process has a
// deadline, and behind every deadline is SIGKILL to the process group.
//
// [Manager.Use] swaps versions while calls go on. Its own goroutine brings the
// candidate up beside the old process, and then asks the supervisor to complete an
// earlier bake and to switch. After the switch the new version bakes for
// [Config].Bake while the old process stays warm, its background work stopped. If
// the new process dies, fails its health checks, fails too many calls, or refuses sessions that
// the old one accepts, the supervisor rolls back. Overload does not justify that: while a process serves many
// calls, but late, failed health checks and calls without a response do not count. A
// process that gets no calls any more is checked as well: one that hangs is killed,
// and its calls end at once. Only a version that has passed its bake becomes the
// active one on disk, and the previous one the last good one: a host that dies at
// any moment starts with a version that has served.
//
// A version is settled when it serves and no bake is under way. The supervisor then
// calls Settle in its process. A newer version on another node may have let the database
// refuse older ones, so every return to an older version begins with its preflight, also if
// its process is still warm. A key of the settings file that no installed version knows refuses a swap that
// an administrator asks for, and nothing else.
//
// The package works on Unix.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	restartRetry = time.Second     // Retry-After for callers during a restart
	stopRetry    = 5 * time.Second // and while the host stops
)

// ErrStopped is the error of a manager that was stopped, or never started.
var ErrStopped = errors.New("the plugin manager is stopped")

// Manager runs one plugin. It is safe for concurrent use.
type Manager struct {
	config Config
	limits limits
	run    *process.RunDir // set by Start
	copies *copies         // set by Start

	lastKeys atomic.Pointer[[][]byte] // the secret keys that a process accepted last; nil: none yet

	work       context.Context // ends when Stop begins: no new process, no more health checks
	stopWork   context.CancelFunc
	hard       context.Context // ends when the time for Stop is over: no more waiting
	stopHard   context.CancelFunc
	done       chan struct{}          // closed when the supervisor has ended; nil before Start
	background sync.WaitGroup         // goroutines beside the supervisor: starts, swaps, retirements
	requests   chan func(*supervisor) // see do
	failing    chan struct{}          // tells the supervisor that too many calls fail in the bake
	switches   atomic.Int64           // see Switches
	calls      rpc.CallReader
	accepted   *acceptedSessions // before the switch, if there is a bake

	mu         sync.Mutex // guards what follows, and the calls of instances
	state      State
	changed    chan struct{} // closed, and replaced, when the state changes
	live       *instance     // gets the calls; nil if there is none
	previous   *instance     // got them before, until it has ended
	pending    *swap         // is being prepared; no other can begin
	swap       *swap         // switched last, until its old process has ended
	generation int           // of the process started last
	served     bool          // a process has served
	restarts   int           // processes that replaced one that was lost
	lastErr    error         // why the last process failed or was lost
	permanent  bool          // another attempt is not expected to help
	nextTry    time.Time     // while the state is failed

	rehearsal *RehearsalStatus // the last one, never changed; nil if there was none

	// For the metrics.
	events     map[EventType]int
	rehearsals map[rpc.RehearsalOutcome]int
}

var _ grpc.ClientConnInterface = (*Manager)(nil)

// New returns a manager that is not started. Catalogue, Host and RunDir are required.
func New(c Config) (*Manager, error) {
	switch {
	case c.Catalogue == nil:
		return nil, errors.New("plugin manager: Config.Catalogue is missing")
	case c.Host == nil:
		return nil, errors.New("plugin manager: Config.Host is missing")
	case c.RunDir == "":
		return nil, errors.New("plugin manager: Config.RunDir is missing")
	case c.MemoryLimit < 0:
		return nil, errors.New("plugin manager: Config.MemoryLimit is negative")
	case c.MinAge < 0:
		return nil, errors.New("plugin manager: Config.MinAge is negative")
	case !c.Rehearse.Valid():
		return nil, fmt.Errorf("plugin manager: Config.Rehearse is %q: it must be refuse, warn or off", c.Rehearse)
	}
	c = c.withDefaults()
	m := &Manager{
		config: c, limits: *c.limits, state: StateStopped, changed: make(chan struct{}),
		requests: make(chan func(*supervisor)), failing: make(chan struct{}, 1), events: map[EventType]int{},
		rehearsals: map[rpc.RehearsalOutcome]int{}, calls: rpc.NewCallReader(), accepted: newAcceptedSessions(),
	}
	m.work, m.stopWork = context.WithCancel(context.Background())
	m.hard, m.stopHard = context.WithCancel(context.Background())
	return m, nil
}

// Start takes possession of the run folder and begins to bring up the active
// version; it does not wait, see [Manager.WaitReady]. From now on calls get a
// response: Unavailable while there is no process. It is called once. The manager
// runs until [Manager.Stop].
func (m *Manager) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil || m.work.Err() != nil {
		return errors.New("starting a plugin manager a second time")
	}
	run, err := process.OpenRunDir(m.config.RunDir)
	if err != nil {
		return fmt.Errorf("starting the plugin manager: %w", err)
	}
	m.run = run
	m.copies = &copies{catalogue: m.config.Catalogue, dir: run.Staged}
	m.done = make(chan struct{})
	m.transition(triggerStart)
	go m.supervise()
	return nil
}

// WaitReady returns nil as soon as a process serves, and an error when the manager
// gives up on the version: one that wraps a [*rpc.PermanentError], for bad
// settings for example, or a [*catalogue.RefusedError]. (It still tries again
// every 30 seconds.) Other failures, such as an unreachable database, may
// pass: it waits until ctx ends, and then returns the context's error and the last
// failure.
func (m *Manager) WaitReady(ctx context.Context) error {
	for {
		m.mu.Lock()
		state, lastErr, permanent, changed := m.state, m.lastErr, m.permanent, m.changed
		m.mu.Unlock()
		switch {
		case state.Serves():
			return nil
		case state == StateDraining || state == StateStopped:
			return ErrStopped
		case permanent:
			return lastErr
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if lastErr == nil {
				return fmt.Errorf("waiting for the plugin: %w", ctx.Err())
			}
			return fmt.Errorf("waiting for the plugin: %w: %w", ctx.Err(), lastErr)
		}
	}
}

// Ready reports whether a request would be served now: nil if a process is live and
// healthy. It asks the process, for two seconds at most.
func (m *Manager) Ready(ctx context.Context) error {
	p, err := m.serving()
	if err != nil {
		return err
	}
	return m.checkHealth(ctx, p)
}

// serving returns the live process, or an error if none serves.
func (m *Manager) serving() (*instance, error) {
	m.mu.Lock()
	p, state, lastErr := m.live, m.state, m.lastErr
	m.mu.Unlock()
	switch {
	case p != nil && state.Serves():
		return p, nil
	case lastErr == nil:
		return nil, fmt.Errorf("the plugin is %s", state)
	}
	return nil, fmt.Errorf("the plugin is %s: %w", state, lastErr)
}

// DialProfiles connects to net/http/pprof of the live process, which only the host's user
// can reach. A connection ends with its process. The error is a [*rpc.PermanentError]
// unless Options.Profiles is set.
func (m *Manager) DialProfiles(ctx context.Context) (net.Conn, error) {
	p, err := m.serving()
	if err != nil {
		return nil, err
	}
	if p.profiles == "" {
		return nil, &rpc.PermanentError{Reason: "the plugin serves no profiles"}
	}
	return new(net.Dialer).DialContext(ctx, "unix", p.profiles)
}

// Stop refuses new calls, ends the calls under way, background work and the
// processes in order, each within its time limit, and returns when no process of the
// plugin is left. The copy of the active version stays in RunDir. A swap under way is
// refused; a bake is not completed. When ctx ends first, the processes are killed, and
// the context's error is returned. It may be called again, and without Start.
func (m *Manager) Stop(ctx context.Context) error {
	m.mu.Lock()
	m.stopWork()
	done := m.done
	if done != nil && m.state != StateStopped {
		m.transition(triggerStop)
	}
	m.mu.Unlock()
	if done == nil {
		return nil
	}
	inTime := context.AfterFunc(ctx, m.stopHard)
	<-done
	if !inTime() {
		return fmt.Errorf("stopping the plugin was cut short: %w", ctx.Err())
	}
	return nil
}

// Invoke performs a unary call on the live process. While there is none it waits,
// for five seconds at most. A call that finds no process, and one whose process
// dies, fails with [rpc.Unavailable]; it is never repeated, because it may have
// had an effect.
func (m *Manager) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	p, err := m.enter(ctx)
	if err != nil {
		return err
	}
	var ended endedCall
	defer func() { m.leave(p, ended) }()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.config.CallTimeout)
		defer cancel()
	}
	began := time.Now()
	err = p.Conn().Invoke(ctx, method, args, reply, opts...)
	took := time.Since(began)
	ended = endedCall{
		Call: m.calls.Read(ctx, method, args, reply, err), took: took, late: took >= m.limits.HealthTimeout/2 && isServed(err),
		failed: m.isVersionFailure(ctx, p, err, took),
	}
	s, ok := status.FromError(err)
	if err == nil || !ok || len(s.Details()) > 0 || ctx.Err() != nil { // the plugin's own result, or the caller's doing
		return err
	}
	if s.Code() == codes.Unavailable || s.Code() == codes.Canceled || p.IsLost() {
		p.AwaitLost(ctx, process.ExitNotice) // so that the caller's next call does not meet this process again
		return rpc.Unavailable(restartRetry, "the plugin process was lost in the call: "+s.Message())
	}
	return err
}

// Switches returns how often another process began to get the calls, a rollback to an
// earlier one included: as long as it stays the same, so does the process. It is cheap:
// a [rpc.Client] asks for every remembered profile.
func (m *Manager) Switches() int { return int(m.switches.Load()) }

// Bake returns how long the old process stays warm after a swap; negative for no bake.
func (m *Manager) Bake() time.Duration { return m.config.Bake }

// NewStream completes the interface: the contract has no streams.
func (m *Manager) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the contract has no streams")
}

// enter waits for a live process, counts a call in and returns the process.
func (m *Manager) enter(ctx context.Context) (*instance, error) {
	var timeout <-chan time.Time
	for {
		m.mu.Lock()
		p, changed, err := m.enterLocked()
		m.mu.Unlock()
		if p != nil || err != nil {
			return p, err
		}
		if timeout == nil {
			timeout = time.After(m.limits.RestartWait)
		}
		select {
		case <-changed:
		case <-timeout:
			return nil, rpc.Unavailable(restartRetry, "the plugin has not restarted yet")
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// enterLocked counts a call into the live process, or returns the channel to wait
// for, or an error if there will be no process soon.
func (m *Manager) enterLocked() (*instance, <-chan struct{}, error) {
	switch m.state {
	case StateStopped, StateDraining:
		return nil, nil, rpc.Unavailable(stopRetry, "the plugin manager is "+string(m.state))
	case StateFailed:
		wait := max(time.Until(m.nextTry).Truncate(time.Second)+time.Second, time.Second) // whole seconds
		return nil, nil, rpc.Unavailable(wait, "the plugin has failed")
	}
	if m.live == nil || m.live.IsLost() {
		return nil, m.changed, nil
	}
	m.live.calls++
	return m.live, nil, nil
}

// endedCall is a call that has ended.
type endedCall struct {
	rpc.Call
	took   time.Duration
	failed bool // the process is to blame
	late   bool // but served

	presented, issued sessionDigest
}

// leave counts a call out, and tells the supervisor if too many calls to a baking
// version fail. A late response with many calls under way proves overload.
func (m *Manager) leave(p *instance, c endedCall) {
	c.presented, c.issued = m.accepted.digest(c.Presented), m.accepted.digest(c.Issued)
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.late && p.calls >= minOverload {
		p.overload = time.Now()
	}
	p.calls--
	if p.calls == 0 && p.idle != nil {
		close(p.idle)
	}
	p.tally.count(c.failed)
	p.figures.count(c)
	m.judgeLocked(p, c)
	if m.state == StateBaking && p == m.live && p.tally.tooMany() {
		m.reportFailing()
	}
}

// reportFailing tells the supervisor that the version that bakes fails its callers.
func (m *Manager) reportFailing() {
	select {
	case m.failing <- struct{}{}:
	default: // it knows already
	}
}
