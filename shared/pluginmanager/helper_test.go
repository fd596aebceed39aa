package pluginmanager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
}

// newRig returns a manager that is not started, over a plugin of that mode. It
// shares a catalogue with others, unless change puts another in its place.
func newRig(t *testing.T, mode string, change func(*pluginmanager.Config)) *rig {
	t.Helper()
	f := folder(t.TempDir())
	f.write("mode", mode)
	return newRigIn(t, f, sharedCatalogue(t), change)
}

// newRigIn returns a manager that is not started, over a folder that is there.
func newRigIn(t *testing.T, f folder, catalogue *plugincatalogue.Catalogue, change func(*pluginmanager.Config)) *rig {
	t.Helper()
	c := configure(f, catalogue)
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
	return &rig{Manager: m, folder: f, service: pluginrpc.NewService(m, host{}), log: log, run: c.RunDir}
}

// shared is a catalogue that TestMain removes.
var shared struct {
	once      sync.Once
	dir       string
	catalogue *plugincatalogue.Catalogue
	err       error
}

// sharedCatalogue returns a catalogue that holds the test binary as its active
// plugin. Installing takes a while, so one serves all who do not change it.
func sharedCatalogue(t *testing.T) *plugincatalogue.Catalogue {
	t.Helper()
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "pluginmanager-test-"); shared.err == nil {
			shared.catalogue, shared.err = newCatalogue(shared.dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.catalogue
}

// newCatalogue installs the test binary as the active plugin of a catalogue in
// dir.
func newCatalogue(dir string) (*plugincatalogue.Catalogue, error) {
	catalogue, err := plugincatalogue.Open(dir)
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	entry, err := catalogue.Install(context.Background(), binary)
	if err != nil {
		return nil, err
	}
	return catalogue, catalogue.SaveState(plugincatalogue.State{Active: entry.Manifest.Version})
}

func configure(f folder, catalogue *plugincatalogue.Catalogue) pluginmanager.Config {
	return pluginmanager.Config{
		Catalogue:   catalogue,
		Host:        host{},
		DatabaseURL: "sqlite://" + string(f) + "/personal.db",
		RunDir:      filepath.Join(string(f), "run"),
		Env:         []string{pluginEnv + "=" + string(f)},
		BackoffMax:  50 * time.Millisecond,
		BackoffMin:  time.Millisecond,
	}
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

// callUnderWay begins a call that does not end by itself.
func (r *rig) callUnderWay(t *testing.T) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- r.service.Recover(limited(t), personal.RecoverRequest{Login: "wait"}) }()
	eventually(t, "a call under way", func() bool {
		_, err := os.Stat(filepath.Join(string(r.folder), "waiting"))
		return err == nil
	})
	return result
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

// freeze stops a process and waits until all of its threads have stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	signalProcess(t, pid, syscall.SIGSTOP)
	eventually(t, "a stopped process", func() bool {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, stat := range stats {
			data, _ := os.ReadFile(stat)
			if !bytes.Contains(data, []byte(") T ")) {
				return false
			}
		}
		return true
	})
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
