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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// The names of the subjects in the tables. Those of another commit have a suffix.
const (
	sqlite          = "SQLite"
	postgres        = "PostgreSQL"
	pocketBaseTitle = "PocketBase"
	argon2Title     = "bare Argon2id"
	echoTitle       = "go-plugin"
)

// job measures a figure of one subject.
type job struct {
	subject string
	measure func(context.Context) (sample, error)
}

// comparison holds everything that is built and started.
type comparison struct {
	options  options
	span     span
	postgres string // URL of a server; empty if there is none
	dir      string // temporary
	builds   []build
	pocket   string // path of PocketBase; empty: it is not measured
	jobs     map[string][]job
	fields   int   // bytes of the response to fields/
	idle     round // the idle memory, measured once
	closers  []func()
}

// build is a build of a commit, or of this tree.
type build struct {
	personal
	name     string // in file names
	suffix   string // of its subjects
	settings string // path
}

// prepare builds and starts everything. After an error, too, the caller must call
// close.
func prepare(ctx context.Context, o options) (*comparison, error) {
	counted := time.Duration(o.seconds * float64(time.Second))
	c := &comparison{
		options: o, span: span{warmup: counted / 10, counted: counted},
		postgres: os.Getenv("PERSONAL_TEST_POSTGRES"), jobs: map[string][]job{}, idle: round{},
	}
	var err error
	if c.dir, err = os.MkdirTemp("", "personal-compare-"); err != nil {
		return c, err
	}
	c.onClose(func() { _ = os.RemoveAll(c.dir) })
	for _, step := range []func(context.Context) error{c.build, c.measureIdle, c.startServers, c.startBare} {
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
		progress("building PocketBase")
		c.pocket = filepath.Join(c.dir, "pocketbase")
		return command(ctx, "go", "build", "-C", "bench", "-trimpath", "-o", c.pocket, "./pocketbase")
	}
	return nil
}

// buildPersonal builds a tree with its own Makefile.
func (c *comparison) buildPersonal(ctx context.Context, tree, name, suffix string, settings []byte) error {
	progress("building %s", tree)
	if err := command(ctx, "make", "-C", tree, "build"); err != nil {
		return err
	}
	b := build{
		personal: personal{host: filepath.Join(tree, "bin", "host-sample"), plugin: filepath.Join(tree, "bin", "personal")},
		name:     name, suffix: suffix,
		settings: filepath.Join(c.dir, name+".toml"),
	}
	c.builds = append(c.builds, b)
	return os.WriteFile(b.settings, append([]byte("[throttle]\nenabled = false\n"), settings...), 0o600)
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

// program returns a host with an empty data folder and an empty database.
func (c *comparison) program(ctx context.Context, b build, database, purpose string) (program, error) {
	name := strings.ToLower(purpose + "_" + database + "_" + b.name)
	if database == sqlite {
		return b.program(filepath.Join(c.dir, name), b.settings, ""), nil
	}
	database, err := c.createDatabase(ctx, fmt.Sprintf("compare_%d_%s", os.Getpid(), name))
	return b.program(filepath.Join(c.dir, name), b.settings, database), err
}

// measureIdle measures the memory of servers without load, and keeps their folders to
// measure the time of a start. It ignores the first start, which installs the plugin.
// Only one server of a build runs at a time, because several would share memory.
func (c *comparison) measureIdle(ctx context.Context) error {
	progress("measuring idle memory")
	measure := func(p program, subject string) error {
		s, _, err := p.start(ctx)
		if err != nil {
			return err
		}
		s.stop()
		if s, _, err = p.start(ctx); err != nil {
			return err
		}
		defer s.stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(c.options.idle):
		}
		found := nothing
		found.memory, err = s.memory(ctx)
		if errors.Is(err, os.ErrNotExist) { // not Linux
			return nil
		}
		c.idle[key{figureMemory, subject}] = found
		return err
	}
	err := c.subjects(func(b build, database, subject string) error {
		p, err := c.program(ctx, b, database, "idle")
		if err != nil {
			return err
		}
		if database == sqlite {
			c.addStart(subject, p)
		}
		return measure(p, subject)
	})
	if err != nil || c.pocket == "" {
		return err
	}
	p := pocketBase(c.pocket, filepath.Join(c.dir, "idle_pocketbase"))
	c.addStart(pocketBaseTitle, p)
	return measure(p, pocketBaseTitle)
}

// addStart adds the measurement of the time of a start.
func (c *comparison) addStart(subject string, p program) {
	c.add(figureStart, subject, func(ctx context.Context) (sample, error) {
		s, took, err := p.start(ctx)
		if err != nil {
			return nothing, err
		}
		s.stop()
		found := nothing
		found.p50 = milliseconds(took)
		return found, nil
	})
}

func (c *comparison) add(figure, subject string, measure func(context.Context) (sample, error)) {
	c.jobs[figure] = append(c.jobs[figure], job{subject, measure})
}

// startServers starts the servers for the loads.
func (c *comparison) startServers(ctx context.Context) error {
	progress("starting servers and registering users")
	err := c.subjects(func(b build, database, subject string) error {
		p, err := c.program(ctx, b, database, "load")
		if err != nil {
			return err
		}
		s, err := c.underLoad(ctx, p, subject, personalLoads, func(figure string) bool {
			return database != sqlite && (figure == figureBareSingle || figure == figureFields) // they use no database
		})
		if err != nil {
			return err
		}
		fields, err := s.get(ctx, api+"fields/")
		c.fields = len(fields)
		return err
	})
	if err != nil || c.pocket == "" {
		return err
	}
	p := pocketBase(c.pocket, filepath.Join(c.dir, "load_pocketbase"))
	_, err = c.underLoad(ctx, p, pocketBaseTitle, pocketLoads, func(string) bool { return false })
	return err
}

// underLoad starts a server and adds its measurements, except skipped ones.
func (c *comparison) underLoad(ctx context.Context, p program, subject string,
	loads func(context.Context, string, callers) (map[string]load, error), skip func(figure string) bool) (*process, error) {
	s, _, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	c.onClose(s.stop)
	found, err := loads(ctx, s.addr, c.options.callers)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	for figure, l := range found {
		if !skip(figure) {
			c.add(figure, subject, func(ctx context.Context) (sample, error) { return l.drive(ctx, c.span) })
		}
	}
	return s, nil
}

// startBare adds the measurements without a server: a bare hash, and an echo whose
// payload has the size of the response to fields/.
func (c *comparison) startBare(ctx context.Context) error {
	c.add(figureSignIn, argon2Title, func(ctx context.Context) (sample, error) { return argon2id(ctx, c.span) })
	measure, stop, err := startEcho(c.fields)
	if err != nil {
		return err
	}
	c.onClose(stop)
	c.add(figureEcho, echoTitle, func(ctx context.Context) (sample, error) { return measure(ctx, c.span) })
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
			progress("drop database %s: %v", name, err)
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
