package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// healthChecks is how many health checks in a row a process has to pass before
// it serves.
const healthChecks = 3

// checkDatabase is the preflight check that what follows it depends on. It may
// fail today and pass tomorrow.
const checkDatabase = "database"

// StepError says at which step a version could not be brought up.
type StepError struct {
	Step    string // one of those named at [SwapStatus]
	Version string // empty if it never came to light
	Err     error
}

// Error names the version, the step and the reason.
func (e *StepError) Error() string {
	return strings.TrimSpace("plugin "+e.Version) + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *StepError) Unwrap() error { return e.Err }

// bringUp starts a version and takes it through every step up to the one where
// it could serve, each of which is told to progress. There must be a way back
// from it to the old version, if there is one. On an error nothing of the process
// is left.
func (m *Manager) bringUp(ctx context.Context, entry plugincatalogue.Entry, old plugincatalogue.Manifest, progress func(step string)) (*process, error) {
	version := entry.Manifest.Version
	progress("stage")
	copied, err := m.copies.stage(ctx, m.config.Catalogue, entry)
	if err != nil {
		return nil, &StepError{"stage", version, err}
	}
	progress("start")
	p, err := m.start(ctx, entry, copied)
	if err != nil {
		return nil, &StepError{"start", version, err}
	}
	if err := m.prepare(ctx, p, old, progress); err != nil {
		p.end(m.hard, m.config.ShutdownTimeout)
		return nil, err
	}
	return p, nil
}

// bringUpActive brings up the version that is active on disk.
func (m *Manager) bringUpActive(ctx context.Context) (*process, error) {
	state, err := m.config.Catalogue.LoadState()
	if err == nil && state.Active == "" {
		err = &pluginrpc.PermanentError{Reason: "no version is active"}
	}
	if err != nil {
		return nil, &StepError{"find", state.Active, err}
	}
	entry, err := m.find(state.Active)
	if err != nil {
		return nil, &StepError{"find", state.Active, err}
	}
	return m.bringUp(ctx, entry, plugincatalogue.Manifest{}, func(string) {})
}

// find returns an installed version that speaks this host's protocol.
func (m *Manager) find(version string) (plugincatalogue.Entry, error) {
	entry, err := m.config.Catalogue.Find(version)
	if err != nil {
		return plugincatalogue.Entry{}, err
	}
	if r := entry.Manifest.Protocol; !r.Contains(pluginrpc.ProtocolVersion) {
		return entry, &pluginrpc.PermanentError{Reason: fmt.Sprintf("it speaks the protocols %d to %d, this host speaks %d", r.Min, r.Max, pluginrpc.ProtocolVersion)}
	}
	return entry, nil
}

// start starts a process and connects to it.
func (m *Manager) start(ctx context.Context, e plugincatalogue.Entry, c *stagedCopy) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.StartTimeout)
	defer cancel()
	m.mu.Lock()
	m.generation++
	generation := m.generation
	m.mu.Unlock()
	return m.startProcess(ctx, generation, e, c)
}

// prepare takes a new process through its steps.
func (m *Manager) prepare(ctx context.Context, p *process, old plugincatalogue.Manifest, progress func(step string)) error {
	for _, step := range []struct {
		name  string
		limit time.Duration
		do    func(context.Context, *process) error
	}{
		{"configure", m.config.ConfigureTimeout, m.configure},
		{"preflight", m.config.PreflightTimeout, func(ctx context.Context, p *process) error { return m.preflight(ctx, p, old) }},
		{"migrate", m.config.MigrateTimeout, migrate},
		{"check", m.config.CheckTimeout, m.check},
	} {
		progress(step.name)
		if err := within(ctx, step.limit, p, step.do); err != nil {
			return &StepError{step.name, p.version, err}
		}
	}
	return nil
}

// within runs one step. An error tells if the process did not survive it.
func within(ctx context.Context, limit time.Duration, p *process, do func(context.Context, *process) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(ctx, p)
	if err != nil && ctx.Err() == nil && !isFinal(err) && p.child.awaitExited(ctx, deathNotice) {
		return fmt.Errorf("%w (%w: %s)", err, errEnded, p.child.outcome())
	}
	return err
}

// deathNotice is how long the news of a process's end may take after its
// connection broke.
const deathNotice = 100 * time.Millisecond

// configure hands over settings that were read this moment.
func (m *Manager) configure(ctx context.Context, p *process) error {
	settings, err := m.readSettings(ctx)
	if err != nil {
		return err
	}
	return p.conn.Configure(ctx, pluginrpc.Configuration{DatabaseURL: m.config.DatabaseURL, Settings: settings})
}

// readSettings does not wait for ever for a file system that does not answer.
func (m *Manager) readSettings(ctx context.Context) ([]byte, error) {
	type result struct {
		settings []byte
		err      error
	}
	read := make(chan result, 1)
	go func() {
		settings, err := m.config.Settings()
		read <- result{settings, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return nil, &pluginrpc.PermanentError{Reason: "the settings cannot be read: " + r.err.Error()}
		}
		return r.settings, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("reading the settings: %w", ctx.Err())
	}
}

// preflight refuses a version that says it cannot run here, and one whose schema
// the old one could not work on. While the database is away its other findings
// are worth nothing yet.
func (m *Manager) preflight(ctx context.Context, p *process, old plugincatalogue.Manifest) error {
	report, err := p.conn.Preflight(ctx)
	if err != nil {
		return err
	}
	var reasons []string
	databaseAway := false
	for _, c := range report.Checks {
		switch {
		case c.Passed:
		case c.Warning:
			p.warn(c.Name, c.Reason)
		default:
			reasons = append(reasons, c.Name+": "+c.Reason)
			databaseAway = databaseAway || c.Name == checkDatabase
		}
	}
	if old.Version != "" { // while nothing serves, nothing is waited for that need not be
		if err := m.checkMail(ctx); err != nil {
			p.warn("mail", err.Error())
		}
	}
	if old.Version != "" && report.SchemaCompatible > old.Schema.Max {
		reasons = append(reasons, fmt.Sprintf("schema: plugin %s, which serves now, knows schema %d and could not work on the one after the migration, "+
			"which needs a plugin that knows %d: swap to a version in between first, or make a backup and start the host with this version",
			old.Version, old.Schema.Max, report.SchemaCompatible))
	}
	reason := strings.Join(reasons, "; ")
	switch {
	case reason == "":
		return nil
	case databaseAway:
		return errors.New(reason)
	}
	return &pluginrpc.PermanentError{Reason: reason}
}

// checkMail asks the host whether mails can be sent, if it can tell. It does not
// wait for long.
func (m *Manager) checkMail(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.HealthTimeout)
	defer cancel()
	host, ok := m.config.Host.(interface{ CheckMail(context.Context) error })
	if !ok {
		return nil
	}
	return host.CheckMail(ctx)
}

// warn notes a finding of the preflight that is no reason to refuse.
func (p *process) warn(check, reason string) {
	p.warnings = append(p.warnings, check+": "+reason)
	p.log.Warn("plugin preflight", "check", check, "reason", reason)
}

func migrate(ctx context.Context, p *process) error { return p.conn.Migrate(ctx) }

// check asks for the process's health several times, and for an answer that
// visitors get and that changes nothing. Once it serves, a failure would be
// theirs. A version that does not know the operation need not.
func (m *Manager) check(ctx context.Context, p *process) error {
	for range healthChecks {
		if err := m.checkHealth(ctx, p); err != nil {
			return err
		}
	}
	_, err := pluginrpc.NewService(p.conn.Conn(), m.config.Host).Fields(ctx)
	if err != nil && personal.CodeOf(err) != personal.CodeNotFound {
		return fmt.Errorf("a first call, for the fields: %w", err)
	}
	return nil
}
