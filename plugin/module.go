package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/moving"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
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

// healthTime is half of what a host grants a health check by default.
const healthTime = time.Second

// module is the whole of a configured plugin process.
type module struct {
	version string
	service *accounts.Service
	store   *store.Store
	worker  *outbox.Worker
	wrapper *outbox.Worker // apart, so that no mail waits behind a million hashes
	rules   settings
	log     *slog.Logger

	stopClock func() // ends the clock's goroutine and waits for it

	mu       sync.Mutex
	active   bool
	stopWork func() // ends background work and waits for it; may be called again
}

// builder returns the function that makes the module of this process.
func builder(version string, log *slog.Logger) pluginrpc.Builder {
	return func(ctx context.Context, c pluginrpc.Configuration, host personal.Host) (pluginrpc.Module, error) {
		s, err := readSettings(c.Settings)
		if err != nil {
			return nil, &pluginrpc.Refusal{Reason: err.Error()}
		}
		hasher, err := password.New(s.password(), 0)
		if err != nil {
			return nil, &pluginrpc.Refusal{Reason: "settings: password." + err.Error()}
		}
		db, err := store.Open(ctx, c.DatabaseURL, store.Options{Log: log})
		var wrong *store.URLError
		if errors.As(err, &wrong) {
			return nil, &pluginrpc.Refusal{Reason: "database: " + wrong.Error()}
		}
		if err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
		return newModule(version, s, db, hasher, host, log), nil
	}
}

var _ pluginrpc.AdministrableModule = (*module)(nil)

func newModule(version string, s settings, db *store.Store, hasher *password.Hasher, host personal.Host, log *slog.Logger) *module {
	m := &module{version: version, store: db, rules: s, log: log}
	m.worker = &outbox.Worker{Store: db, Log: log, Insist: []outbox.Kind{accounts.KindEvent}}
	m.service = accounts.New(s.accounts(), db, hasher, host, log, m.worker.Wake)
	m.worker.Handlers = m.service.Jobs()
	m.wrapper = newWrapper(db, hasher, log)
	m.stopClock = start(func(ctx context.Context) {
		every(ctx, syncEvery, func() { m.report(ctx, "measuring the database's clock", db.SyncClock(ctx)) })
	})
	return m
}

// newWrapper wraps the MD5 hashes of an import, one at a time, for as long as it takes.
func newWrapper(db *store.Store, hasher *password.Hasher, log *slog.Logger) *outbox.Worker {
	wrapping := &moving.Wrapping{Store: db, Wrapper: hasher}
	return &outbox.Worker{
		Store: db, Log: log, Parallel: 1, Poll: wrapEvery, Insist: []outbox.Kind{moving.KindWrap},
		Handlers: map[outbox.Kind]outbox.Handler{moving.KindWrap: wrapping.Do},
	}
}

// Service implements [pluginrpc.Module].
func (m *module) Service() personal.Service { return m.service }

// Administration implements [pluginrpc.AdministrableModule].
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
func (m *module) Migrate(ctx context.Context) error { return m.store.Migrate(ctx) }

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
	m.active, m.stopWork = true, func() { stopJobs(); stopWrapping(); stopPruning() }
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
