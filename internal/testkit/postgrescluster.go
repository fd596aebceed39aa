package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// PostgresCluster is a primary with a synchronous standby: what the primary acknowledges, the
// standby has. They have two fixed ports and change their roles.
type PostgresCluster struct {
	bin     string
	owner   *syscall.Credential
	primary *member
	standby *member // nil from a failover until Rebuild
	failed  *member // the former primary, until Rebuild
}

type member struct {
	*PostgresServer
	folder string
	port   int
}

// Failure is a way in which a primary fails.
type Failure string

// The failures of a primary. Then its standby is promoted.
const (
	Killed  Failure = "killed"    // connections end
	Frozen  Failure = "frozen"    // connections stay, and swallow what is sent
	Demoted Failure = "read-only" // connections stay, and refuse to write
)

// Failures returns all of them.
func Failures() []Failure { return []Failure{Killed, Frozen, Demoted} }

// StartPostgresCluster starts both servers. They run until Stop, or until this process ends.
func StartPostgresCluster(ctx context.Context) (_ *PostgresCluster, err error) {
	c := &PostgresCluster{}
	if c.bin, err = postgresBinaries(ctx); err != nil {
		return nil, err
	}
	if c.owner, err = serverOwner(); err != nil {
		return nil, err
	}
	if c.primary, err = c.newMember(); err != nil {
		return nil, err
	}
	if c.failed, err = c.newMember(); err != nil { // it becomes the standby
		return nil, errors.Join(err, c.Stop())
	}
	err = errors.Join(initDatabase(ctx, c.bin, c.primary.folder, c.owner), c.run(ctx, c.primary))
	if err == nil {
		err = c.Rebuild(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop stops all servers and removes their files.
func (c *PostgresCluster) Stop() error {
	var errs []error
	for _, m := range []*member{c.primary, c.standby, c.failed} {
		if m != nil {
			errs = append(errs, c.kill(m, syscall.SIGKILL), os.RemoveAll(m.folder))
		}
	}
	return errors.Join(errs...)
}

// Primary returns the URL of a database on the present primary.
func (c *PostgresCluster) Primary(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.primary.port, database)
}

// Port returns the port of the present primary.
func (c *PostgresCluster) Port() int { return c.primary.port }

// URL returns the URL of a database by which clients find the primary, whichever it is.
func (c *PostgresCluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?target_session_attrs=read-write&sslmode=disable",
		c.primary.port, c.standby.port, database)
}

// FailOver makes the primary fail and promotes the standby.
func (c *PostgresCluster) FailOver(ctx context.Context, how Failure) error {
	var err error
	switch how {
	case Killed:
		err = c.kill(c.primary, syscall.SIGKILL)
	case Frozen:
		err = c.kill(c.primary, syscall.SIGSTOP)
	case Demoted:
		err = c.execute(ctx, c.primary, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	}
	if err != nil {
		return err
	}
	c.failed, c.primary, c.standby = c.primary, c.standby, nil
	return c.execute(ctx, c.primary, "SELECT pg_promote()")
}

// Rebuild makes the former primary a synchronous standby of the present one.
func (c *PostgresCluster) Rebuild(ctx context.Context) error {
	m := c.failed
	data := filepath.Join(m.folder, "data")
	if err := errors.Join(c.kill(m, syscall.SIGKILL), os.RemoveAll(data)); err != nil {
		return err
	}
	copying := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", c.primary.port))
	copying.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner}
	copying.Dir = m.folder
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := c.run(ctx, m); err != nil {
		return err
	}
	c.standby, c.failed = m, nil
	return c.execute(ctx, c.primary, "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
}

func (c *PostgresCluster) newMember() (*member, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	folder, err := serverFolder("", c.owner)
	return &member{folder: folder, port: port}, err
}

// run starts the server on its files.
func (c *PostgresCluster) run(ctx context.Context, m *member) (err error) {
	if err := errors.Join(os.Remove(filepath.Join(m.folder, certFile)), os.Remove(filepath.Join(m.folder, keyFile))); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeCertificate(m.folder, c.owner); err != nil {
		return err
	}
	if m.PostgresServer, err = startKeeper(c.bin, m.folder, m.port, m.folder, c.owner, durable); err != nil {
		return err
	}
	return waitUntilUp(ctx, m.URL, m.ended)
}

// kill sends a signal to the server and all its processes; with SIGKILL it waits for their end.
func (c *PostgresCluster) kill(m *member, signal syscall.Signal) error {
	if m.PostgresServer == nil {
		return nil
	}
	file, err := os.ReadFile(filepath.Join(m.folder, "data", "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(file), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return fmt.Errorf("reading postmaster.pid: %w", err)
	}
	children, _ := exec.Command("pgrep", "-P", first).Output() // it fails if there are none
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, signal) // it may have ended
		}
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	if signal == syscall.SIGKILL {
		_ = m.lifeline.Close()
		<-m.ended
		m.PostgresServer = nil
	}
	return nil
}

func (c *PostgresCluster) execute(ctx context.Context, m *member, statements ...string) error {
	pools, err := openServer(m.URL)
	if err != nil {
		return err
	}
	defer pools.Close()
	for _, s := range statements {
		if _, err := pools.Write.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}
