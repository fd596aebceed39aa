package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStopped is the error of a manager that was stopped, or never started.
var ErrStopped = errors.New("the plugin manager is stopped")

// Manager runs one plugin. It is safe for concurrent use.
type Manager struct {
	config Config
	run    *runDir // set by Start
	copies *copies // set by Start

	work     context.Context // ends when Stop begins: no new process, no more watching
	stopWork context.CancelFunc
	hard     context.Context // ends when Stop's patience ends: no more waiting
	stopHard context.CancelFunc
	done     chan struct{}  // closed when the owner has ended; nil before Start
	disposal sync.WaitGroup // what runs besides the owner: swaps, and the end of processes
	orders   chan *order    // to the owner
	errs     chan struct{}  // to the owner: too many calls fail while baking

	mu         sync.Mutex // guards what follows, and the counts in processes
	state      State
	live       *process      // gets the calls; nil if none does
	previous   *process      // got them before, until it has ended
	swap       *swap         // the last one, until it is over
	changed    chan struct{} // closed, and replaced, when state or live change
	generation int           // of the process started last
	begun      bool          // a process has served
	restarts   int           // processes that took the place of a dead one
	fault      error         // why the last one failed or died
	final      bool          // trying again is not expected to help
	nextTry    time.Time     // while state is failed
}

// New returns a manager that is not started.
func New(c Config) (*Manager, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := &Manager{config: c.withDefaults(), state: StateStopped, changed: make(chan struct{}), orders: make(chan *order), errs: make(chan struct{}, 1)}
	m.work, m.stopWork = context.WithCancel(context.Background())
	m.hard, m.stopHard = context.WithCancel(context.Background())
	return m, nil
}

// Start takes possession of the run folder and begins to bring up the active
// version; it does not wait, see [Manager.WaitReady]. From now on calls are
// answered: with Unavailable for as long as there is no process. It is called
// once. The manager runs until [Manager.Stop].
func (m *Manager) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done != nil || m.work.Err() != nil {
		return errors.New("starting a plugin manager a second time")
	}
	run, err := openRunDir(m.config.RunDir)
	if err != nil {
		return fmt.Errorf("starting the plugin manager: %w", err)
	}
	m.run = run
	m.copies = newCopies(run.staged)
	m.done = make(chan struct{})
	m.state = StateStarting
	go m.own()
	return nil
}

// WaitReady returns nil as soon as a process serves, and an error when the
// manager gives the version up: one that wraps a [*pluginrpc.PermanentError] for bad
// settings, say, or a [*plugincatalogue.RefusedError]. (It tries again all the
// same, every Config.FailureRetry.) Other failures, a database that is away
// among them, may pass: it waits for that until ctx ends, and then returns the
// context's error and the last failure.
func (m *Manager) WaitReady(ctx context.Context) error {
	for {
		m.mu.Lock()
		state, fault, final, changed := m.state, m.fault, m.final, m.changed
		m.mu.Unlock()
		switch {
		case state.Serves():
			return nil
		case state == StateDraining || state == StateStopped:
			return ErrStopped
		case final:
			return fault
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if fault == nil {
				return fmt.Errorf("waiting for the plugin: %w", ctx.Err())
			}
			return fmt.Errorf("waiting for the plugin: %w: %w", ctx.Err(), fault)
		}
	}
}

// Ready reports whether a request would be answered now: nil if a process is
// live and healthy. It asks the process, for Config.HealthTimeout at most.
func (m *Manager) Ready(ctx context.Context) error {
	m.mu.Lock()
	p, state, fault := m.live, m.state, m.fault
	m.mu.Unlock()
	if p == nil || !state.Serves() {
		if fault == nil {
			return fmt.Errorf("the plugin is %s", state)
		}
		return fmt.Errorf("the plugin is %s: %w", state, fault)
	}
	return m.checkHealth(ctx, p)
}

// Stop ends the plugin in an orderly way and returns when nothing of it is
// left: no new calls, the calls under way, background work, the processes, each in
// its time-limit. A swap under way comes to nothing; a version on trial is not
// settled. When ctx ends first, the processes are killed, and the context's
// error returned. It may be called again, and without Start.
func (m *Manager) Stop(ctx context.Context) error {
	m.mu.Lock()
	m.stopWork()
	done := m.done
	if done != nil && m.state != StateStopped {
		m.set(StateDraining, m.live)
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

// set changes what callers see and wakes those who wait for a change. The caller
// holds the mutex.
func (m *Manager) set(state State, live *process) {
	m.state, m.live = state, live
	close(m.changed)
	m.changed = make(chan struct{})
}
