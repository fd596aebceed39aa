package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// healthChecks is how many health checks in a row a process must pass before it
	// serves.
	healthChecks = 3
	// checkPause is the time between a health check that failed and the next one, before a
	// process serves.
	checkPause = 100 * time.Millisecond
	// checkDatabase is the preflight check that the checks after it depend on. It may
	// fail now and pass later.
	checkDatabase = "database"
	// checkTemplates is the preflight check of the templates of mails: a built-in text
	// is better than an outage.
	checkTemplates = "mail"
	// checkSettings is the preflight check under which unknown settings are named.
	checkSettings = "settings"
)

// instance is a plugin process, with the manager's view of the calls in it.
type instance struct {
	*process.Process
	manifest   catalogue.Manifest
	generation int
	profiles   string                   // the socket on which it serves profiles; empty for none
	settings   []byte                   // that it was configured with
	release    func()                   // the copy of the binary, and the socket for profiles; safe to call again
	silent     atomic.Bool              // it left its last health check unanswered
	warnings   atomic.Pointer[[]string] // of the last health check that passed; nil before it
	hung       atomic.Bool              // it was killed because it hung
	badMetrics atomic.Bool              // the log says that its metrics are left out
	settled    bool                     // it has accepted Settle; this and settleAt belong to the supervisor
	settleAt   time.Time                // when Settle is tried again after a failure

	// The manager's mutex guards what follows.
	unknown  []UnknownSetting // that it ignores, by its last preflight
	ready    time.Time        // when it began to serve
	calls    int              // under way
	idle     chan struct{}    // nil while calls can enter; closed when none is under way
	tally    tally
	figures  figures
	looks    int            // under way, at sessions that the process refused in its bake
	refused  map[int64]bool // the users whose sessions it refused, and the old process accepts
	overload time.Time      // when it last served a call late, with many under way; see [Manager.overloaded]
}

// StepError says at which step a version could not be brought up.
type StepError struct {
	Step    string // one of those listed at [SwapStatus]
	Version string // empty if it is unknown
	Err     error
}

// Error names the version, the step and the reason.
func (e *StepError) Error() string {
	return strings.TrimSpace("plugin "+e.Version) + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *StepError) Unwrap() error { return e.Err }

// bringUp starts a version and takes it through every step up to the switch, which
// it reports to the swap; nil for a start or restart. The old version, if there
// is one, must be able to run on the schema afterwards. On an error no process is left.
//
// With again, no administrator asked for this version now: the process replaces one that
// was lost, or the host returns to the version. To refuse it would then be an outage, so
// invalid templates of mails are a warning, and secret keys that cannot be read are those
// that were read last.
func (m *Manager) bringUp(ctx context.Context, entry catalogue.Entry, old catalogue.Manifest, w *swap, again bool) (*instance,
	error) {
	version := entry.Manifest.Version
	m.beginStep(w, stepStage)
	binary, release, err := m.copies.stage(ctx, entry)
	if err != nil {
		return nil, &StepError{stepStage, version, err}
	}
	m.beginStep(w, stepStart)
	p := &instance{manifest: entry.Manifest, release: release}
	if err := m.start(ctx, p, binary); err != nil {
		p.release()
		m.sweep()
		return nil, &StepError{stepStart, version, err}
	}
	type step struct {
		name  string
		limit time.Duration
		do    func(context.Context) error
	}
	steps := []step{
		{stepConfigure, m.limits.ConfigureTimeout, func(ctx context.Context) error { return m.configure(ctx, p, again) }},
		{stepPreflight, m.limits.PreflightTimeout, func(ctx context.Context) error { return m.preflight(ctx, p, old, w, again) }},
		{stepMigrate, m.limits.MigrateTimeout, func(ctx context.Context) error { return m.migrate(ctx, p, w != nil && old.Version != "") }},
		{stepCheck, m.limits.CheckTimeout, func(ctx context.Context) error { return m.check(ctx, p, w != nil && !again) }},
	}
	switch {
	case w == nil:
	case w.status.RehearsalOnly:
		steps = steps[:2] // those that change nothing
	case m.needsRehearsal(w):
		steps = append(steps, step{stepSameAnswers, m.limits.SameAnswersTimeout, func(ctx context.Context) error { return m.compareAnswers(ctx, p, w) }})
	}
	for _, step := range steps {
		m.beginStep(w, step.name)
		if err := within(ctx, step.limit, p, step.do); err != nil {
			if m.work.Err() != nil && step.name != stepMigrate { // the host stops, and nothing is lost with a process that has not served
				p.Kill()
			}
			m.stop(p)
			return nil, &StepError{step.name, version, err}
		}
	}
	return p, nil
}

// within runs one step with a deadline. The error says so if the process died.
func within(ctx context.Context, limit time.Duration, p *instance, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(ctx)
	if err == nil || ctx.Err() != nil || isPermanent(err) {
		return err
	}
	if cause := p.LossCause(ctx); !errors.Is(cause, process.ErrDisconnected) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// bringUpActive brings up the version that is active on disk; for again see bringUp.
func (m *Manager) bringUpActive(ctx context.Context, again bool) (*instance, error) {
	state, err := m.config.Catalogue.LoadState()
	if err == nil && state.Active == "" {
		err = &rpc.PermanentError{Reason: "no version is active"}
	}
	var entry catalogue.Entry
	if err == nil {
		entry, err = m.find(state.Active)
	}
	if err != nil {
		return nil, &StepError{stepFind, state.Active, err}
	}
	return m.bringUp(ctx, entry, catalogue.Manifest{}, nil, again)
}

// activeVersion returns the version that is active on disk, or "" if the state
// cannot be read.
func (m *Manager) activeVersion() string {
	state, _ := m.config.Catalogue.LoadState()
	return state.Active
}

// find returns an installed version that speaks this host's protocol.
func (m *Manager) find(version string) (catalogue.Entry, error) {
	entry, err := m.config.Catalogue.Find(version)
	if err != nil {
		return catalogue.Entry{}, err
	}
	if r := entry.Manifest.Protocol; !r.Contains(rpc.ProtocolVersion) {
		return entry, &rpc.PermanentError{Reason: rpc.ProtocolMismatch(r.Min, r.Max)}
	}
	return entry, nil
}

// start starts the process of p and connects to it.
func (m *Manager) start(ctx context.Context, p *instance, binary string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.limits.StartTimeout)
	defer cancel()
	m.mu.Lock()
	m.generation++
	p.generation = m.generation
	m.mu.Unlock()
	machine, _ := os.Hostname() // containers may have the same, and the same process ids
	env := append(slices.Clip(m.config.Env), fmt.Sprintf("%s=process %d on %s with sockets in %s", rpc.HostEnv, os.Getpid(), machine, m.run.Sockets))
	if m.config.Profiles {
		p.profiles = filepath.Join(m.run.Sockets, fmt.Sprintf("profiles-%d", p.generation))
		env = append(env, rpc.ProfilesEnv+"="+p.profiles)
		release := p.release
		p.release = func() {
			_ = os.Remove(p.profiles) // a process that was killed leaves it
			release()
		}
	}
	p.Process, err = process.Start(ctx, process.Options{
		Binary: binary, Manifest: p.manifest, Generation: p.generation, Host: m.config.Host, Env: env,
		Sockets: m.run.Sockets, StartTimeout: m.limits.StartTimeout, MemoryLimit: m.config.MemoryLimit,
		Log: m.config.Log, TracerProvider: m.config.TracerProvider,
	})
	return err
}

// configure reads the settings and the secret keys and passes them on.
func (m *Manager) configure(ctx context.Context, p *instance, again bool) error {
	settings, err := m.readSettings(ctx)
	if err != nil {
		return err
	}
	keys, err := m.readSecretKeys(ctx, again)
	if err != nil {
		return err
	}
	var locales []string
	if m.config.Locales != nil {
		locales = m.config.Locales()
	}
	if err := p.Configure(ctx, rpc.Configuration{
		DatabaseURL: m.config.DatabaseURL, Settings: settings, SecretKeys: keys, AccountURL: m.config.AccountURL, Locales: locales,
	}); err != nil {
		return err
	}
	m.lastKeys.Store(&keys)
	p.settings = settings
	return nil
}

func (m *Manager) readSettings(ctx context.Context) ([]byte, error) {
	settings, failure, err := await(ctx, m.config.Settings)
	if err != nil {
		return nil, fmt.Errorf("reading the settings: %w", err)
	}
	if failure != nil {
		return nil, &rpc.PermanentError{Reason: "the settings cannot be read: " + failure.Error()}
	}
	return settings, nil
}

// secretKeySize is the size of a secret key in bytes.
const secretKeySize = 32

// readSecretKeys returns the keys for a process. If they cannot be read, a process that
// starts again gets those that one accepted last.
func (m *Manager) readSecretKeys(ctx context.Context, again bool) ([][]byte, error) {
	if m.config.SecretKeys == nil {
		return nil, nil
	}
	keys, failure, err := await(ctx, m.config.SecretKeys)
	for i, key := range keys {
		if len(key) != secretKeySize && failure == nil {
			failure = fmt.Errorf("key %d has %d bytes, not %d", i+1, len(key), secretKeySize)
		}
	}
	last := m.lastKeys.Load()
	switch {
	case err == nil && failure == nil:
		return keys, nil
	case err != nil: // no time is left for the process to start with other keys
		return nil, fmt.Errorf("reading the secret keys: %w", err)
	case again && last != nil:
		m.config.Log.Error("the secret keys cannot be read, those read last are used: repair them, another start of the host or a swap needs them",
			"error", failure)
		return *last, nil
	}
	return nil, &rpc.PermanentError{Reason: "the secret keys cannot be read: " + failure.Error()}
}

// await stops waiting for read when ctx ends, which err is then: a file system may not
// respond.
func await[T any](ctx context.Context, read func() (T, error)) (value T, failure, err error) {
	type result struct {
		value   T
		failure error
	}
	done := make(chan result, 1)
	go func() {
		value, failure := read()
		done <- result{value, failure}
	}()
	select {
	case r := <-done:
		return r.value, r.failure, nil
	case <-ctx.Done():
		return value, nil, ctx.Err()
	}
}

// preflight refuses a version that reports that it cannot run here, and one whose
// schema the old version could not work on. While the database is unavailable the
// other findings are not reliable, and the error is not permanent.
func (m *Manager) preflight(ctx context.Context, p *instance, old catalogue.Manifest, w *swap, again bool) error {
	report, err := p.Preflight(ctx)
	if err != nil {
		return err
	}
	unknown := m.unknownSettings(report)
	m.mu.Lock()
	p.unknown = unknown
	m.mu.Unlock()
	var reasons, warnings []string
	warn := func(check, reason string) {
		warnings = append(warnings, check+": "+reason)
		p.Log().Warn("plugin preflight", "check", check, "reason", reason)
	}
	databaseUnavailable := false
	for _, c := range report.Checks {
		switch {
		case c.Warning, c.Name == checkTemplates && again:
			warn(c.Name, c.Reason)
		default:
			reasons = append(reasons, c.Name+": "+c.Reason)
			databaseUnavailable = databaseUnavailable || c.Name == checkDatabase
		}
	}
	for _, u := range unknown {
		switch {
		case u.KnownBy != "":
			warn(checkSettings, u.String())
		case w != nil && !again:
			reasons = append(reasons, checkSettings+": "+u.String())
		default:
			p.Log().Error("plugin preflight", "check", checkSettings, "reason", u.String())
		}
	}
	if old.Version != "" { // while no version serves, mail is not worth the wait
		if err := m.checkMail(ctx); err != nil {
			warn("mail", err.Error())
		}
	}
	if w != nil && len(warnings) > 0 {
		m.mu.Lock()
		w.status.Steps[len(w.status.Steps)-1].Detail = strings.Join(warnings, "; ")
		m.mu.Unlock()
	}
	if old.Version != "" && report.SchemaCompatible > old.Schema.Max {
		reasons = append(reasons, fmt.Sprintf("schema: plugin %s, which serves now, knows schema %d and could not work on the one after the migration, "+
			"which needs a plugin that knows %d: if another node runs such a version, stop this host and start it with this version; "+
			"if none does, swap to a version in between first, or make a backup and start the host with this version",
			old.Version, old.Schema.Max, report.SchemaCompatible))
	}
	reason := strings.Join(reasons, "; ")
	switch {
	case reason == "":
		return nil
	case databaseUnavailable:
		return errors.New(reason)
	}
	return &rpc.PermanentError{Reason: reason}
}

// unknownSettings returns the keys that a version ignores, each with the highest installed
// version that knows it.
func (m *Manager) unknownSettings(report rpc.PreflightResult) (unknown []UnknownSetting) {
	if len(report.UnknownSettings) == 0 {
		return nil
	}
	installed, err := m.config.Catalogue.List()
	if err != nil {
		m.config.Log.Error("looking which plugin versions know a setting", "error", err)
	}
	for _, u := range report.UnknownSettings {
		found := UnknownSetting{UnknownSetting: u}
		i := slices.IndexFunc(installed, func(e catalogue.Entry) bool { return slices.Contains(e.Manifest.Settings, u.Key) })
		if i >= 0 {
			found.KnownBy = installed[i].Manifest.Version
		}
		unknown = append(unknown, found)
	}
	return unknown
}

// checkMail asks the host whether mails can be sent, if it offers that check. It
// waits for limits.HealthTimeout at most.
func (m *Manager) checkMail(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.limits.HealthTimeout)
	defer cancel()
	host, ok := m.config.Host.(interface{ CheckMail(context.Context) error })
	if !ok {
		return nil
	}
	return host.CheckMail(ctx)
}

// migrate migrates the database. While a process serves, each step has a limit, and the step is ended when
// that process is not healthy any more: what the migration locks, users wait for.
func (m *Manager) migrate(ctx context.Context, p *instance, serving bool) error {
	if !serving {
		return p.Migrate(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	if m.Ready(ctx) == nil {
		watching.Go(func() {
			tick := time.NewTicker(m.limits.HealthInterval)
			defer tick.Stop()
			for ctx.Err() == nil {
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
				if err := m.Ready(ctx); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("the process that serves is not healthy any more, perhaps because of the migration: "+
						"run `personal migrate` in a quiet hour, and then swap: %w", err))
				}
			}
		})
	}
	err := p.Migrate(ctx, m.limits.MigrationStep)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	watching.Wait()
	return err
}

// check waits until the process is healthy, and makes a call that visitors make and
// that changes nothing: a failure after the switch would affect them. For a swap, the process also
// makes sure of its rights in the database, and that it can read a session.
func (m *Manager) check(ctx context.Context, p *instance, database bool) error {
	if err := m.awaitHealth(ctx, p); err != nil {
		return err
	}
	if database {
		if err := p.CheckDatabase(ctx); err != nil {
			return err
		}
	}
	if _, err := rpc.NewClient(p.Conn(), m.config.Host).Fields(ctx); err != nil {
		return fmt.Errorf("a first call, for the fields: %w", err)
	}
	return nil
}

// awaitHealth waits until several health checks in a row have passed. It gives up when ctx
// ends, if the process is lost, if it says that waiting will not help, or if it leaves
// healthFailures checks in a row unanswered, and returns why the last check failed.
func (m *Manager) awaitHealth(ctx context.Context, p *instance) error {
	if m.config.Debug {
		return nil
	}
	silent := 0
	for passed := 0; passed < healthChecks; {
		err := m.checkHealth(ctx, p)
		if err == nil {
			passed, silent = passed+1, 0
			continue
		}
		if silent++; !errors.Is(err, context.DeadlineExceeded) {
			silent = 0
		}
		if isPermanent(err) || silent >= healthFailures {
			return err
		}
		passed = 0
		select {
		case <-time.After(checkPause):
		case <-p.Lost():
			return err
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

// copies are the verified copies of binaries in the run folder.
type copies struct {
	catalogue *catalogue.Catalogue
	dir       string

	mu   sync.Mutex // held while a copy is made or removed
	used []string   // folders of copies in use, one entry per process
}

// stage returns the path of a verified copy, which stays until it is released and
// swept.
func (c *copies) stage(ctx context.Context, e catalogue.Entry) (path string, release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if path, err = c.catalogue.Stage(ctx, e, c.dir); err != nil {
		return "", nil, err
	}
	folder := filepath.Base(filepath.Dir(path))
	c.used = append(c.used, folder)
	return path, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.used, folder)
		c.used = slices.Delete(c.used, i, i+1)
	}), nil
}

// sweep removes the copies that no process uses, including those of earlier managers.
// It keeps the copy of the active version, which the next start verifies and uses.
func (m *Manager) sweep() {
	if m.work.Err() != nil { // Stop must not wait for the catalogue; the next start sweeps
		return
	}
	c := m.copies
	c.mu.Lock()
	defer c.mu.Unlock()
	active, _ := c.catalogue.Find(m.activeVersion())
	folders, err := os.ReadDir(c.dir)
	for _, f := range folders {
		if f.Name() != active.Manifest.SHA256 && !slices.Contains(c.used, f.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, f.Name())))
		}
	}
	if err != nil {
		m.config.Log.Warn("removing unused copies of plugins", "error", err)
	}
}

// saveState changes the state of the catalogue, and removes copies of versions that
// are no longer active.
func (m *Manager) saveState(s catalogue.State) error {
	if err := m.config.Catalogue.SaveState(s); err != nil {
		return err
	}
	m.background.Go(m.sweep)
	return nil
}
