package pluginmanager_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// generous is longer than anything here may take on a busy machine.
const generous = 30 * time.Second

// rig is a manager, its plugin's folder, and the service behind it.
type rig struct {
	*pluginmanager.Manager
	folder  folder
	service personal.Service
	log     *logBuffer
	run     string
	active  plugincatalogue.Entry
}

// newRig returns a manager that is not started, over a plugin of that mode.
func newRig(t *testing.T, mode string, change func(*pluginmanager.Config)) *rig {
	t.Helper()
	f := folder(t.TempDir())
	f.write("mode", mode)
	c, entry, err := configure(f)
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	if change != nil {
		change(&c)
	}
	m, err := pluginmanager.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), generous)
		defer cancel()
		if err := m.Stop(ctx); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return &rig{Manager: m, folder: f, service: pluginrpc.NewService(m, host{}), log: log, run: c.RunDir, active: entry}
}

// configure installs the test binary as the active plugin of a host in f.
func configure(f folder) (pluginmanager.Config, plugincatalogue.Entry, error) {
	catalogue, err := plugincatalogue.Open(filepath.Join(string(f), "plugins"))
	if err != nil {
		return pluginmanager.Config{}, plugincatalogue.Entry{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return pluginmanager.Config{}, plugincatalogue.Entry{}, err
	}
	entry, err := catalogue.Install(context.Background(), binary)
	if err != nil {
		return pluginmanager.Config{}, plugincatalogue.Entry{}, err
	}
	if err := catalogue.SaveState(plugincatalogue.State{Active: entry.Manifest.Version}); err != nil {
		return pluginmanager.Config{}, plugincatalogue.Entry{}, err
	}
	return pluginmanager.Config{
		Catalogue:   catalogue,
		Host:        host{},
		DatabaseURL: "sqlite://" + string(f) + "/personal.db",
		RunDir:      filepath.Join(string(f), "run"),
		Env:         []string{pluginEnv + "=" + string(f)},
		BackoffMax:  50 * time.Millisecond,
		BackoffMin:  time.Millisecond,
	}, entry, nil
}

// start starts the manager and waits until it serves.
func (r *rig) start(t *testing.T) {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if err := r.WaitReady(limited(t)); err != nil {
		t.Fatal(err)
	}
}

// answerer asks which process answers calls.
func (r *rig) answerer(ctx context.Context) (string, error) {
	p, err := r.service.Profile(ctx, personal.Credentials{})
	return p.Login, err
}

// wantServed checks that calls are answered by another process than before.
func (r *rig) wantServed(t *testing.T, before int) int {
	t.Helper()
	pid, err := r.answerer(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if pid == strconv.Itoa(before) {
		t.Fatalf("the process %s still answers", pid)
	}
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	ctx := limited(t)
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// dead reports whether a process is gone, or a zombie that waits for its parent.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(rest, []byte("Z"))
}

func signalProcess(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// wantUnavailable checks for the contract's answer to a lost process.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *personal.Error
	if !errors.As(err, &e) || e.Code != personal.CodeUnavailable || e.RetryAfter <= 0 {
		t.Errorf("got %v, want unavailable and when to try again", err)
	}
}

// host is a host without user fields.
type host struct{}

func (host) UserFields(context.Context) (personal.Schema, error) {
	return personal.Schema{Revision: "1"}, nil
}
func (host) SendMail(context.Context, personal.Mail) error      { return nil }
func (host) PublishEvent(context.Context, personal.Event) error { return nil }

// logBuffer keeps the end of a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var _ io.Writer = (*logBuffer)(nil)

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() > 1<<20 {
		b.text.Reset()
	}
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
