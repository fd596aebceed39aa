package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/bench/harness"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The names of the figures in the tables.
const (
	figureStart      = "start to ready"
	figureMemory     = "idle memory"
	figureBare       = "bare page"
	figureRequire    = "RequireUser page"
	figureMany       = "RequireUser, 10k users"
	figureProfile    = "profile"
	figureRefresh    = "refresh"
	figureSignIn     = "sign-in"
	figureBareSingle = "bare page, 1 caller"
	figureFields     = "fields/, 1 caller"
	figureHop        = "empty RPC, 1 caller"
)

// The names of the subjects in the tables. Those of another commit have a suffix.
const (
	sqlite          = "SQLite"
	postgres        = "PostgreSQL"
	pocketBaseTitle = "PocketBase"
	argon2Title     = "bare Argon2id"
	managerTitle    = "manager and plugin"
	echoTitle       = "go-plugin echo"
	uncached        = ", verify_cache 0s" // suffix
)

// comparison holds everything that is built and started.
type comparison struct {
	options  options
	span     harness.Span
	postgres string // URL of a server; empty if there is none
	dir      string // temporary
	builds   []build
	pocket   string // path of PocketBase; empty: it is not measured
	jobs     harness.Jobs
	idle     harness.Round // the idle memory, measured once
	closers  []func()
}

// build is a build of a commit, or of this tree.
type build struct {
	harness.Personal
	name     string // in file names
	suffix   string // of its subjects
	settings string // path
}

// prepare builds and starts everything. After an error, too, the caller must call
// close.
func prepare(ctx context.Context, o options) (*comparison, error) {
	c := &comparison{
		options: o, span: harness.NewSpan(o.seconds),
		postgres: os.Getenv("PERSONAL_TEST_POSTGRES"), jobs: harness.Jobs{}, idle: harness.Round{},
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "personal-compare-"); err != nil {
		return c, err
	}
	c.onClose(func() { _ = os.RemoveAll(c.dir) })
	for _, step := range []func(context.Context) error{c.build, c.measureIdle, c.startServers, c.startUncached, c.startBare} {
		if err := step(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *comparison) onClose(f func()) { c.closers = append(c.closers, f) }

// close stops and removes everything in reverse order.
func (c *comparison) close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
}

func (c *comparison) build(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	further := []byte{}
	if c.options.settings != "" {
		if further, err = os.ReadFile(c.options.settings); err != nil {
			return err
		}
	}
	if err := c.buildPersonal(ctx, root, "this", "", further); err != nil {
		return err
	}
	if c.options.base != "" {
		if err := c.buildBase(ctx); err != nil {
			return err
		}
	}
	if c.options.pocketBase {
		harness.Progress("building PocketBase")
		c.pocket = filepath.Join(c.dir, "pocketbase")
		return command(ctx, "go", "build", "-C", "bench/pocketbase", "-trimpath", "-o", c.pocket, ".")
	}
	return nil
}

// unthrottled are the settings of all hosts.
const unthrottled = "[throttle]\nenabled = false\n"

// buildPersonal builds a tree with its own Makefile.
func (c *comparison) buildPersonal(ctx context.Context, tree, name, suffix string, settings []byte) error {
	harness.Progress("building %s", tree)
	if err := command(ctx, "make", "-C", tree, "build"); err != nil {
		return err
	}
	b := build{
		Personal: harness.Personal{Host: filepath.Join(tree, "bin", "host-sample"), Plugin: filepath.Join(tree, "bin", "personal")},
		name:     name, suffix: suffix,
		settings: filepath.Join(c.dir, name+".toml"),
	}
	c.builds = append(c.builds, b)
	return os.WriteFile(b.settings, append([]byte(unthrottled), settings...), 0o600)
}

// buildBase builds the other commit in a temporary work tree.
func (c *comparison) buildBase(ctx context.Context) error {
	tree := filepath.Join(c.dir, "base-tree")
	c.onClose(func() { // else the repository would keep a reference to the work tree
		_ = command(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", tree) // it may not exist
	})
	if err := command(ctx, "git", "worktree", "add", "--quiet", "--detach", tree, c.options.base); err != nil {
		return err
	}
	return c.buildPersonal(ctx, tree, "base", c.baseSuffix(), nil)
}

func (c *comparison) baseSuffix() string { return " at " + c.options.base }

// subjects calls a function for every build with every available database.
func (c *comparison) subjects(do func(b build, database, subject string) error) error {
	for _, database := range []string{sqlite, postgres} {
		if database == postgres && c.postgres == "" {
			continue
		}
		for _, b := range c.builds {
			if err := do(b, database, database+b.suffix); err != nil {
				return fmt.Errorf("%s: %w", database+b.suffix, err)
			}
		}
	}
	return nil
}

// program returns a host with an empty data folder and an empty database, and the URL
// of the database.
func (c *comparison) program(ctx context.Context, b build, database, purpose string) (p harness.Program, url string, err error) {
	name := strings.ToLower(purpose + "_" + database + "_" + b.name)
	folder := filepath.Join(c.dir, name)
	if database == sqlite {
		return b.Program(folder, b.settings, ""), "sqlite://" + filepath.Join(folder, "personal.db"), nil
	}
	url, err = c.createDatabase(ctx, fmt.Sprintf("compare_%d_%s", os.Getpid(), name))
	return b.Program(folder, b.settings, url), url, err
}

// measureIdle measures the memory of servers without load, and keeps their folders to
// measure the time of a start. Of one build, only one server runs at a time: several
// would share the memory of the program, and PSS counts a part of that for each.
// Different builds share nothing, so they are measured together.
func (c *comparison) measureIdle(ctx context.Context) error {
	harness.Progress("measuring idle memory")
	together := map[string]map[string]harness.Program{sqlite: {}, postgres: {}}
	err := c.subjects(func(b build, database, subject string) error {
		p, _, err := c.program(ctx, b, database, "idle")
		if err == nil && database == sqlite {
			c.addStart(subject, p)
		}
		together[database][subject] = p
		return err
	})
	if err != nil {
		return err
	}
	if c.pocket != "" {
		p := pocketBase(c.pocket, filepath.Join(c.dir, "idle_pocketbase"))
		c.addStart(pocketBaseTitle, p)
		together[sqlite][pocketBaseTitle] = p
	}
	for _, database := range []string{sqlite, postgres} {
		if err := c.measureMemory(ctx, together[database]); err != nil {
			return err
		}
	}
	return nil
}

// measureMemory measures the memory of programs that run at the same time. It ignores
// their first start, which installs the plugin.
func (c *comparison) measureMemory(ctx context.Context, programs map[string]harness.Program) error {
	if len(programs) == 0 {
		return nil
	}
	servers := map[string]*harness.Process{}
	for subject, p := range programs {
		s, _, err := p.Start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		s.Stop()
		if s, _, err = p.Start(ctx); err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		defer s.Stop()
		servers[subject] = s
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.options.idle):
	}
	for subject, s := range servers {
		found := harness.Nothing()
		var err error
		found.Memory, err = s.Memory(ctx)
		if errors.Is(err, os.ErrNotExist) { // not Linux
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", subject, err)
		}
		c.idle[key(figureMemory, subject)] = found
	}
	return nil
}

// addStart adds the measurement of the time of a start.
func (c *comparison) addStart(subject string, p harness.Program) {
	c.jobs.Add(figureStart, subject, func(ctx context.Context) (harness.Sample, error) {
		found := harness.Nothing()
		s, took, err := p.Start(ctx)
		if err == nil {
			s.Stop()
			found.P50 = harness.Milliseconds(took)
		}
		return found, err
	})
}

// startServers starts the servers for the loads.
func (c *comparison) startServers(ctx context.Context) error {
	harness.Progress("starting servers and registering users")
	err := c.subjects(func(b build, database, subject string) error {
		p, url, err := c.program(ctx, b, database, "load")
		if err != nil {
			return err
		}
		s, err := c.startLoaded(ctx, p)
		if err != nil {
			return err
		}
		if b.suffix == "" { // another commit may have other tables
			many, err := c.manyUsers(ctx, s.Addr, url)
			if err != nil {
				return err
			}
			c.jobs.Add(figureMany, subject, many)
		}
		return c.addLoads(ctx, p, s, subject, personalLoads, func(figure string) bool {
			return database == sqlite || figure != figureBareSingle && figure != figureFields // they use no database
		})
	})
	if err != nil || c.pocket == "" {
		return err
	}
	p := pocketBase(c.pocket, filepath.Join(c.dir, "load_pocketbase"))
	s, err := c.startLoaded(ctx, p)
	if err != nil {
		return err
	}
	return c.addLoads(ctx, p, s, pocketBaseTitle, pocketLoads, func(string) bool { return true })
}

// startUncached starts a host that remembers no profile, and measures a page.
func (c *comparison) startUncached(ctx context.Context) error {
	b := c.builds[0]
	b.name, b.settings = "uncached", filepath.Join(c.dir, "uncached.toml")
	if err := os.WriteFile(b.settings, []byte(unthrottled+"[session]\nverify_cache = \"0s\"\n"), 0o600); err != nil {
		return err
	}
	p, _, err := c.program(ctx, b, sqlite, "load")
	if err != nil {
		return err
	}
	s, err := c.startLoaded(ctx, p)
	if err != nil {
		return err
	}
	return c.addLoads(ctx, p, s, sqlite+uncached, personalLoads, func(figure string) bool { return figure == figureRequire })
}

// startLoaded starts a server that close stops.
func (c *comparison) startLoaded(ctx context.Context, p harness.Program) (*harness.Process, error) {
	s, _, err := p.Start(ctx)
	if err == nil {
		c.onClose(s.Stop)
	}
	return s, err
}

// addLoads adds the measurements of the wanted figures on a server.
func (c *comparison) addLoads(ctx context.Context, p harness.Program, s *harness.Process, subject string,
	loads func(context.Context, string, callers) (map[string]harness.Load, error), wanted func(figure string) bool) error {
	found, err := loads(ctx, s.Addr, c.options.callers)
	if err != nil {
		return p.Explain(ctx, err)
	}
	for figure, l := range found {
		if wanted(figure) {
			c.jobs.Add(figure, subject, func(ctx context.Context) (harness.Sample, error) { return l.Drive(ctx, c.span) })
		}
	}
	return nil
}

// startBare adds the measurements without a server: a bare hash, an RPC that does
// nothing, and an echo whose payload has the size of the RPC's response.
func (c *comparison) startBare(ctx context.Context) error {
	c.jobs.Add(figureSignIn, argon2Title, func(ctx context.Context) (harness.Sample, error) {
		return harness.Repeat(ctx, runtime.GOMAXPROCS(0), c.span, func(int, int) error {
			harness.Argon2id(make([]byte, 16))
			return nil
		})
	})
	folder := filepath.Join(c.dir, "manager")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	manager, stop, err := harness.StartManager(ctx, c.builds[0].Plugin, folder, "sqlite://"+filepath.Join(folder, "personal.db"), unthrottled)
	if err != nil {
		return err
	}
	c.onClose(stop)
	conn := &measuredConn{ClientConnInterface: manager}
	if _, err := rpc.NewClient(conn, harness.CMS{}).Fields(ctx); err != nil {
		return err
	}
	service := rpc.NewClient(manager, harness.CMS{})
	c.jobs.Add(figureHop, managerTitle, c.single(func(ctx context.Context) error {
		_, err := service.Fields(personal.WithCall(ctx, personal.Call{RequestID: "0123456789abcdef"}))
		return err
	}))
	echo, stop, err := startEcho(conn.size)
	if err != nil {
		return err
	}
	c.onClose(stop)
	c.jobs.Add(figureHop, echoTitle, c.single(echo))
	return nil
}

// createDatabase returns the URL of a new database, which close drops.
func (c *comparison) createDatabase(ctx context.Context, name string) (string, error) {
	administer := func(ctx context.Context, statement string) error {
		db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(c.postgres)))
		_, err := db.ExecContext(ctx, statement)
		return errors.Join(err, db.Close())
	}
	if err := administer(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create a database: %w", err)
	}
	c.onClose(func() {
		if err := administer(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			harness.Progress("drop database %s: %v", name, err)
		}
	})
	u, err := url.Parse(c.postgres)
	if err != nil {
		return "", errors.New("the URL in PERSONAL_TEST_POSTGRES is invalid")
	}
	u.Path = "/" + name
	return u.String(), nil
}

// command runs a command. When ctx ends, it stops the command and its children.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS=") { // set by the make that runs this program
			cmd.Env = append(cmd.Env, v)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
