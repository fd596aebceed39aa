package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/mod/semver"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The intervals of background work. Every process measures its clock against the
// database's and reads what all share. Active ones also prune, erase
// accounts, count stored hashes, and encrypt secrets again.
const (
	syncEvery  = time.Minute
	learnEvery = time.Minute
	pruneEvery = time.Minute
	eraseEvery = time.Minute // more often if the settings erase accounts sooner
	countEvery = time.Hour   // the store counts hashes once a day
)

// fillLease is short: when a process is killed, the next one continues its filling job
// after that time.
const fillLease = 10 * time.Second

const (
	// longestMail is longer than a relay may take by RFC 5321, section 4.5.3.2, in all.
	longestMail = time.Hour
	// mostMails are how many mails are sent at once if the relay is slow. Relays limit the connections
	// of a client, often to 50 or fewer.
	mostMails = 40
)

// healthTimeout is half of the default timeout of a host's health check.
const healthTimeout = time.Second

// module is a configured plugin process.
type module struct {
	service      *accounts.Service
	store        *store.Store
	lock         io.Closer // of a SQLite file; nil on PostgreSQL
	worker       *outbox.Worker
	hasher       *password.Hasher
	settings     settings
	unknown      []rpc.UnknownSetting // that are ignored
	keys         *seal.Keyring
	host         personal.Host
	mails        *mailtext.Set
	scratch      *scratch    // nil in a process that serves
	invalidTexts []rpc.Check // of the templates of mails; nil if they are valid
	measured     *measurements
	log          *slog.Logger

	learn    wakeUp // of learnShared
	reseal   wakeUp // of resealSecrets
	stopBase func() // stops the work that inactive processes do, too

	mu       sync.Mutex
	active   bool
	stopWork func() // stops the work of an active process; may be called again
}

// baseMemory is what a process needs besides the memory of the hashings that run at
// once, in bytes: for requests, the database, the program itself, and what the garbage
// collector leaves for a moment.
const baseMemory = 96 << 20

// checkMemory refuses a limit of the process's memory, in bytes and 0 for none, that is
// too low for hashing passwords.
func checkMemory(limit, hashing int64) error {
	const mib = 1 << 20
	needed := baseMemory + hashing
	if limit == 0 || limit >= needed {
		return nil
	}
	return &rpc.PermanentError{Reason: fmt.Sprintf("memory: the limit is %d MiB, with these settings the plugin needs %d MiB "+
		"(%d MiB, and %d MiB for the password hashes that run at once, one for each processor): "+
		"raise the limit, or lower password.memory_kib or GOMAXPROCS",
		limit/mib, (needed+mib-1)/mib, baseMemory/mib, (hashing+mib-1)/mib)}
}

// builder returns the function that builds the module of this process. The module counts in
// measured. spans is nil if nothing is traced.
func builder(measured *measurements, log *slog.Logger, spans trace.TracerProvider) rpc.Builder {
	return func(ctx context.Context, c rpc.Configuration, host personal.Host) (rpc.Module, error) {
		s, unknown, err := readSettings(c.Settings)
		if err != nil {
			return nil, &rpc.PermanentError{Reason: err.Error()}
		}
		if unknown != nil {
			log.WarnContext(ctx, "settings that this version does not know are ignored", slog.String("keys", fmt.Sprint(unknown)))
		}
		if err := s.linkTo(c.AccountURL); err != nil {
			return nil, &rpc.PermanentError{Reason: err.Error()}
		}
		keys, err := seal.New(c.SecretKeys)
		if err != nil {
			return nil, &rpc.PermanentError{Reason: "secret keys: " + err.Error()}
		}
		if id := keys.Primary(); id != "" {
			log.InfoContext(ctx, "secret key for new secrets", slog.String("id", id))
		}
		costs := s.password()
		stored := store.Options{Log: log, Observer: measured}
		var apart *scratch
		if c.Scratch != nil {
			apart = &scratch{now: c.Scratch.Now}
			costs, stored.Clock, stored.Scratch = password.LowestParams(), apart.clock, true
		}
		hasher, err := password.New(costs, 0)
		if err != nil {
			return nil, &rpc.PermanentError{Reason: "settings: password." + err.Error()}
		}
		if err := checkMemory(rpc.MemoryLimit(), hasher.Memory()); err != nil {
			return nil, err
		}
		hasher.TuneMemory()
		hasher.ObserveQueue(measured.hashing)
		db, err := store.Open(ctx, c.DatabaseURL, stored)
		if wrong, ok := errors.AsType[*dbconn.URLError](err); ok {
			return nil, &rpc.PermanentError{Reason: "database: " + wrong.Error()}
		}
		if err != nil {
			return nil, setupError(fmt.Errorf("opening the database: %w", err))
		}
		lock, err := dbconn.LockForHost(ctx, c.DatabaseURL, os.Getenv(rpc.HostEnv))
		if err != nil {
			err = errors.Join(err, db.Close())
			if inUse, ok := errors.AsType[*dbconn.InUseError](err); ok {
				err = &rpc.PermanentError{Reason: "database: " + inUse.Error()}
			}
			return nil, setupError(err)
		}
		texts, err := mailtext.Load(s.Mail.Templates, c.Locales...)
		var invalid []rpc.Check
		if err != nil {
			invalid = []rpc.Check{{Name: "mail", Reason: "mail.templates: " + err.Error()}}
		}
		if err := texts.Unknown(); err != nil { // a later version may send such mails
			invalid = append(invalid, rpc.Check{Name: "mail", Warning: true, Reason: "mail.templates: " + err.Error()})
		}
		m := &module{
			store: db, lock: lock, hasher: hasher, keys: keys, host: host, mails: texts, settings: s, unknown: unknown, invalidTexts: invalid,
			measured: measured, log: log, learn: make(wakeUp, 1), reseal: make(wakeUp, 1), scratch: apart,
		}
		m.worker = &outbox.Worker{
			Store: db, Log: log, Observe: measured.job, TracerProvider: spans,
			Groups: jobGroups(), RetriedWhileStored: append([]outbox.Kind{transfer.KindWrap}, accounts.RetriedWhileStored...),
		}
		rules := s.accounts()
		rules.Mails, rules.Keys = texts, keys
		wake := m.worker.Wake
		if apart != nil {
			wake = func() { apart.woken.Store(true) }
		}
		m.service = accounts.New(rules, db, hasher, host, log, wake)
		m.service.CountRejections(measured.rejection)
		m.service.CountSuppressedMails(measured.suppression)
		m.worker.Handlers = m.service.Jobs()
		m.worker.Handlers[transfer.KindWrap] = (&transfer.Wrapping{Store: db, Wrapper: hasher, Log: log}).Do
		m.stopBase = func() {}
		if apart == nil {
			m.stopBase = start(m.syncClock, m.learnShared)
		}
		return m, nil
	}
}

// jobGroups returns the kinds of jobs that must not hold up each other: because the relay or the host may
// hang, or because the jobs take long.
func jobGroups() []outbox.Group {
	return []outbox.Group{
		{Kinds: accounts.MailKinds, Longest: longestMail, Most: mostMails},
		{Kinds: []outbox.Kind{accounts.KindEvent}, OneReceiver: true},
		{Kinds: []outbox.Kind{accounts.KindErasure}, OneReceiver: true},
		{Kinds: []outbox.Kind{transfer.KindWrap}, Parallel: 1},
		{Kinds: []outbox.Kind{accounts.KindFill}, Parallel: 1, Lease: fillLease},
	}
}

// setupError makes an error of the database permanent if it stays until an administrator changes
// something: the host then tells them, and does not wait.
func setupError(err error) error {
	if problem := store.SetupProblem(err); problem != "" {
		return &rpc.PermanentError{Reason: "database: " + problem + " (" + err.Error() + ")"}
	}
	return err
}

func (m *module) syncClock(ctx context.Context) {
	every(ctx, syncEvery, func() { m.logFailure(ctx, "measuring the database's clock", m.store.SyncClock(ctx)) })
}

// learnShared reads now and then what all processes share, once the schema exists.
func (m *module) learnShared(ctx context.Context) {
	m.learn.each(ctx, learnEvery, func() { m.readShared(ctx) })
}

// readShared reads the keys that sign-ins need, and which digests of a login without a password do
// the work of which stored hashes.
func (m *module) readShared(ctx context.Context) {
	m.logFailure(ctx, "reading the keys of the site", m.service.ReadKeys(ctx, true))
	intervals, err := m.store.Classes(ctx)
	if err == nil {
		m.hasher.SetClasses(intervals)
	}
	m.logFailure(ctx, "reading the classes of stored hashes", err)
}

// countHashes counts all hashes by class, once a day.
func (m *module) countHashes(ctx context.Context) error {
	defer m.learn.wake()
	return m.store.UpdateClasses(ctx, m.hasher, false)
}

// Service implements [rpc.Module].
func (m *module) Service() personal.Service { return m.service }

// Administration implements [rpc.Module].
func (m *module) Administration() personal.Administration { return m.service }

// Preflight implements [rpc.Module].
func (m *module) Preflight(ctx context.Context) (rpc.PreflightResult, error) {
	found, compatible, err := m.store.CheckSchema(ctx)
	if store.SetupProblem(err) != "" {
		return rpc.PreflightResult{}, setupError(err) // the other findings need the database
	}
	checks := m.checkSettings(ctx, found)
	if refused, ok := errors.AsType[*store.SchemaError](err); ok {
		checks = append(checks, rpc.Check{Name: "schema", Reason: refused.Error()})
	} else if err != nil {
		checks = append(checks, rpc.Check{Name: "database", Reason: err.Error()})
	}
	checks = slices.Concat(checks, m.invalidTexts, m.checkKeys(ctx, found))
	return rpc.PreflightResult{SchemaCompatible: compatible, Checks: checks, UnknownSettings: m.unknown}, nil
}

// checkSettings is the preflight's check of settings; the values are valid, or there would be
// no module. schema is the version of the database's schema, 0 for none.
func (m *module) checkSettings(ctx context.Context, schema int) []rpc.Check {
	if oldest := m.settings.Site.Requires; oldest != "" {
		own, err := ownVersion()
		if err != nil || semver.Compare("v"+own, "v"+oldest) < 0 {
			return []rpc.Check{{Name: "settings", Reason: fmt.Sprintf("site.requires = %q, and this is version %s: "+
				"install a version that is not older, or remove the setting", oldest, cmp.Or(own, "unknown"))}}
		}
	}
	var warnings []string
	if r := m.settings.Registration; !r.Enabled && r.EmailVerification == personal.VerificationRequired {
		warnings = append(warnings, "registration.email_verification = \"required\" works like \"optional\" without registration.enabled = true")
	}
	if schema > 0 {
		id := m.settings.Passkeys.RPID
		other, err := m.store.OtherRelyingParty(ctx, id) // a failure is that of the database, which has its own check
		if err == nil && other != "" {
			warnings = append(warnings, fmt.Sprintf("passkeys.rp_id = %q, but there are passkeys of %q: these sign no one in", id, other))
		}
	}
	return warn("settings", warnings)
}

// warn returns the failed check of these warnings; nil for none.
func warn(name string, warnings []string) []rpc.Check {
	if len(warnings) == 0 {
		return nil
	}
	return []rpc.Check{{Name: name, Warning: true, Reason: strings.Join(warnings, "; ")}}
}

// Migrate implements [rpc.Module].
func (m *module) Migrate(ctx context.Context, stepLimit time.Duration) error {
	if err := m.store.MigrateSteps(ctx, stepLimit); err != nil {
		return setupError(err)
	}
	m.readShared(ctx)
	m.learn.wake()
	return nil
}

// CheckDatabase implements [rpc.Module].
func (m *module) CheckDatabase(ctx context.Context) error { return setupError(m.store.CheckUse(ctx)) }

// Accepts implements [rpc.Module].
func (m *module) Accepts(ctx context.Context, c personal.Credentials, text []byte) (bool, error) {
	s, _, err := readSettings(text)
	if err != nil {
		return false, err
	}
	return m.service.Accepts(ctx, c, s.accounts())
}

// Settle implements [rpc.Module].
func (m *module) Settle(context.Context) error {
	m.reseal.wake()
	return nil
}

// Activate implements [rpc.Module].
func (m *module) Activate(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active {
		return nil
	}
	var work []func(context.Context)
	if m.scratch == nil { // its work is done in Turn
		work = append(work, m.worker.Run)
		for _, p := range m.periodic() {
			work = append(work, p.run)
		}
	}
	m.active, m.stopWork = true, start(work...)
	return nil
}

// periodic is work of an active process that is repeated.
type periodic struct {
	run   func(context.Context) // repeats it until the context ends
	round func(context.Context)
}

// periodic returns all periodic work.
func (m *module) periodic() []periodic {
	at := func(interval time.Duration, doing string, do func(context.Context) error) periodic {
		round := func(ctx context.Context) { m.logFailure(ctx, doing, do(ctx)) }
		return periodic{func(ctx context.Context) { every(ctx, interval, func() { round(ctx) }) }, round}
	}
	soonest := min(time.Duration(m.settings.Deletion.Grace), time.Duration(m.settings.Registration.UnverifiedLifetime))
	count := at(countEvery, "counting stored hashes by class", m.countHashes)
	repeat := count.run
	count.run = func(ctx context.Context) {
		count.round(ctx)
		repeat(ctx)
	}
	return []periodic{
		at(pruneEvery, "removing expired data", func(ctx context.Context) error {
			return m.store.Prune(ctx, m.settings.prune(m.store.Now()))
		}),
		at(min(eraseEvery, soonest), "erasing accounts", m.service.EraseDue),
		count,
		{m.resealSecrets, m.resealOnce},
	}
}

// Quiesce implements [rpc.Module].
func (m *module) Quiesce(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopWork == nil {
		return nil
	}
	m.active = false // even if running jobs take longer: no further ones are claimed
	if err := within(ctx, m.stopWork); err != nil {
		return fmt.Errorf("stopping background work: %w", err)
	}
	return nil
}

// Health implements [rpc.Module]. It returns before the host's timeout, so that
// a database that hangs does not look like a process that hangs. The error is permanent if
// the database refuses this version: another start of it then fails in the preflight.
func (m *module) Health(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	var warnings []string
	if held := m.store.DeletionHeld(); held > 0 {
		warnings = append(warnings, fmt.Sprintf("clocks disagree: one has jumped, or no plugin has run for an hour; removing and erasing go on in %d minutes, even if the time is still wrong: "+
			"correct the time of this machine or of the database before that", int(math.Ceil(held.Minutes()))))
	}
	if !m.service.HasLoginKey() {
		reason := "the secret key that encrypts the login key is missing"
		if m.keys.Primary() == "" {
			reason = "the host has no secret key"
		}
		warnings = append(warnings, "logins are counted under a key of this process, because "+reason+
			": limits of passwords begin again with each start, and each node has its own")
	}
	if codes := m.service.RefusedSite(); codes != "" {
		warnings = append(warnings, "the mail relay refuses mails of this site with "+codes+": mails wait, and are lost after a day")
	}
	err := m.store.Health(ctx)
	if refused, ok := errors.AsType[*store.SchemaError](err); ok {
		err = &rpc.PermanentError{Reason: refused.Error()}
	}
	return warnings, err
}

// Close implements [rpc.Module].
func (m *module) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	quiesced := m.Quiesce(ctx)
	m.stopBase()
	err := errors.Join(quiesced, m.store.Close())
	if m.lock != nil {
		err = errors.Join(err, m.lock.Close())
	}
	return err
}

// logFailure logs an error of background work, which is repeated later.
func (m *module) logFailure(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		m.log.WarnContext(ctx, doing+" failed", slog.Any("error", err))
	}
}

// start runs each function in its own goroutine. stop cancels their context and
// waits until they have returned.
func start(functions ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// every calls f at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
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

// wakeUp starts work that is repeated from then on. It holds one value at most.
type wakeUp chan struct{}

func (w wakeUp) wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// each calls f when it is woken, and from then on an interval after each call, until ctx ends.
func (w wakeUp) each(ctx context.Context, interval time.Duration, f func()) {
	var tick <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w:
		case <-tick:
		}
		f()
		tick = time.After(interval)
	}
}

// within waits for f until ctx ends. It does not interrupt f.
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
