package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// How often a node measures its clock against the database's, and how often an
// active one removes what has expired and looks for what an import has left.
const (
	syncEvery  = time.Minute
	pruneEvery = time.Minute
	wrapEvery  = 10 * time.Second
)

// How often a node looks for formats of hashes that an import elsewhere has noted,
// and an active one whether the daily scan for them is due.
const (
	formatsEvery = time.Minute
	scanEvery    = time.Hour
)

// healthTime is half of what a host grants a health check by default.
const healthTime = time.Second

// module is the whole of a configured plugin process.
type module struct {
	version string
	service *accounts.Service
	store   *store.Store
	worker  *outbox.Worker
	wrapper *outbox.Worker // apart, so that no mail waits behind a million hashes
	hasher  *password.Hasher
	rules   settings
	log     *slog.Logger

	learn     chan struct{} // wakes the goroutine that learns which formats of hashes are stored
	stopClock func()        // ends the clock's and that goroutine and waits for them

	mu       sync.Mutex
	active   bool
	stopWork func() // ends background work and waits for it; may be called again
}

// builder returns the function that makes the module of this process.
func builder(version string, log *slog.Logger) pluginrpc.Builder {
	return func(ctx context.Context, c pluginrpc.Configuration, host personal.Host) (pluginrpc.Module, error) {
		s, err := readSettings(c.Settings)
		if err != nil {
			return nil, &pluginrpc.PermanentError{Reason: err.Error()}
		}
		hasher, err := password.New(s.password(), 0)
		if err != nil {
			return nil, &pluginrpc.PermanentError{Reason: "settings: password." + err.Error()}
		}
		db, err := store.Open(ctx, c.DatabaseURL, store.Options{Log: log})
		var wrong *store.URLError
		if errors.As(err, &wrong) {
			return nil, &pluginrpc.PermanentError{Reason: "database: " + wrong.Error()}
		}
		if err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
		return newModule(version, s, db, hasher, host, log), nil
	}
}

var _ pluginrpc.ModuleWithAdministration = (*module)(nil)

func newModule(version string, s settings, db *store.Store, hasher *password.Hasher, host personal.Host, log *slog.Logger) *module {
	m := &module{version: version, store: db, hasher: hasher, rules: s, log: log, learn: make(chan struct{}, 1)}
	m.worker = &outbox.Worker{Store: db, Log: log, KeepTrying: []outbox.Kind{accounts.KindEvent}}
	m.service = accounts.New(s.accounts(), db, hasher, host, log, m.worker.Wake)
	m.worker.Handlers = m.service.Jobs()
	m.wrapper = newWrapper(db, hasher, log)
	stopSync := start(func(ctx context.Context) {
		every(ctx, syncEvery, func() { m.report(ctx, "measuring the database's clock", db.SyncClock(ctx)) })
	})
	stopLearning := start(m.learnFormats)
	m.stopClock = func() { stopSync(); stopLearning() }
	return m
}

// learnFormats keeps the hasher informed which formats of hashes are stored, so that
// the time of a failed sign-in does not reveal the format of the account's hash. It
// begins when the schema is there, and measures in the background: the plugin serves
// meanwhile.
func (m *module) learnFormats(ctx context.Context) {
	var tick <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.learn:
		case <-tick:
		}
		formats, err := m.store.Formats(ctx)
		if err != nil {
			m.report(ctx, "reading the formats of stored hashes", err)
		} else {
			m.hasher.Measure(ctx, formats)
		}
		tick = time.After(formatsEvery)
	}
}

func (m *module) wakeLearning() {
	select {
	case m.learn <- struct{}{}:
	default:
	}
}

// scanFormats notes the formats of stored hashes, once a day.
func (m *module) scanFormats(ctx context.Context) {
	m.report(ctx, "scanning stored hashes for their formats", m.store.ScanFormats(ctx, m.rules.password().Format(), password.Format))
	m.wakeLearning()
}

// newWrapper wraps the MD5 hashes of an import, one at a time, for as long as it takes.
func newWrapper(db *store.Store, hasher *password.Hasher, log *slog.Logger) *outbox.Worker {
	wrapping := &transfer.Wrapping{Store: db, Wrapper: hasher}
	return &outbox.Worker{
		Store: db, Log: log, Parallel: 1, Poll: wrapEvery, KeepTrying: []outbox.Kind{transfer.KindWrap},
		Handlers: map[outbox.Kind]outbox.Handler{transfer.KindWrap: wrapping.Do},
	}
}

// Service implements [pluginrpc.Module].
func (m *module) Service() personal.Service { return m.service }

// Administration implements [pluginrpc.ModuleWithAdministration].
func (m *module) Administration() personal.Administration { return m.service }

// Preflight implements [pluginrpc.Module].
func (m *module) Preflight(ctx context.Context) (pluginrpc.Report, error) {
	report := pluginrpc.Report{
		Version:       m.version,
		SchemaMinimum: store.SchemaMinimum,
		SchemaTarget:  store.SchemaTarget,
		// Whoever asks speaks the protocol, and a module exists only of good settings.
		Checks: []pluginrpc.Check{{Name: "protocol", Passed: true}, {Name: "settings", Passed: true}},
	}
	found, compatible, err := m.store.CheckSchema(ctx)
	report.SchemaFound, report.SchemaCompatible = found, compatible
	var refused *store.SchemaError
	switch {
	case err == nil:
		report.Checks = append(report.Checks, passed("database"), passed("schema"))
	case errors.As(err, &refused):
		report.Checks = append(report.Checks, passed("database"), pluginrpc.Check{Name: "schema", Reason: refused.Error()})
	default:
		report.Checks = append(report.Checks, pluginrpc.Check{Name: "database", Reason: err.Error()})
	}
	return report, nil
}

func passed(name string) pluginrpc.Check { return pluginrpc.Check{Name: name, Passed: true} }

// Migrate implements [pluginrpc.Module].
func (m *module) Migrate(ctx context.Context) error {
	err := m.store.Migrate(ctx)
	if err == nil {
		m.wakeLearning()
	}
	return err
}

// Activate implements [pluginrpc.Module].
func (m *module) Activate(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active {
		return nil
	}
	stopJobs, stopWrapping := start(m.worker.Run), start(m.wrapper.Run)
	stopPruning := start(func(ctx context.Context) {
		every(ctx, pruneEvery, func() { m.report(ctx, "removing what has expired", m.prune(ctx)) })
	})
	stopScanning := start(func(ctx context.Context) {
		m.scanFormats(ctx)
		every(ctx, scanEvery, func() { m.scanFormats(ctx) })
	})
	m.active, m.stopWork = true, func() { stopJobs(); stopWrapping(); stopPruning(); stopScanning() }
	return nil
}

// prune removes what is of no use any more.
func (m *module) prune(ctx context.Context) error {
	return m.store.Prune(ctx, m.rules.keep(m.store.Now()))
}

// Quiesce implements [pluginrpc.Module].
func (m *module) Quiesce(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopWork == nil {
		return nil
	}
	m.active = false // even if what was begun takes longer: no more is claimed
	if err := within(ctx, m.stopWork); err != nil {
		return fmt.Errorf("stopping background work: %w", err)
	}
	return nil
}

// Health implements [pluginrpc.Module]. It answers before the host loses its
// patience: a database that hangs must not look like a process that does.
func (m *module) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	return m.store.Health(ctx)
}

// Close implements [pluginrpc.Module].
func (m *module) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	quiesced := m.Quiesce(ctx)
	m.stopClock()
	return errors.Join(quiesced, m.store.Close())
}

// report logs what background work could not do; it will try again.
func (m *module) report(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, doing+" failed", slog.Any("error", err))
	}
}

// start runs f in a goroutine of its own until stop is called; stop waits for
// its end.
func start(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// every calls f now and then until ctx ends.
func every(ctx context.Context, pause time.Duration, f func()) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

// within waits for f as long as ctx allows; f goes on to its end all the same.
func within(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
