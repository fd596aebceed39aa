package manager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// generous is a time limit that no test reaches, even on a busy machine.
const generous = 2 * time.Minute

// rig is a manager, its plugin's folder, and the service behind it.
type rig struct {
	*manager.Manager
	folder  folder
	service personal.Service
	log     *logBuffer
	run     string
}

// newRig returns a manager that is not started, over a plugin of that mode. It
// shares a catalogue with other tests, unless change replaces it.
func newRig(t *testing.T, mode string, change func(*manager.Config)) *rig {
	t.Helper()
	f := folder(t.TempDir())
	f.write("mode", mode)
	return newRigIn(t, f, sharedCatalogue(t), change)
}

// newRigIn returns a manager that is not started, over an existing folder.
func newRigIn(t *testing.T, f folder, catalogue *catalogue.Catalogue, change func(*manager.Config)) *rig {
	t.Helper()
	c := configure(f, catalogue)
	log := &logBuffer{}
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	if change != nil {
		change(&c)
	}
	m, err := manager.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), generous)
		defer cancel()
		if err := m.Stop(ctx); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), "undeclared transition") {
			t.Error("got an undeclared transition, want none")
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return &rig{Manager: m, folder: f, service: rpc.NewClient(m, host{}), log: log, run: c.RunDir}
}

// unwatched is the folder of a test binary without the race detector, which TestMain removes.
var unwatched string

// pluginBinary returns the program that is the plugin: this test binary, or, if that has the race
// detector, one without it, whose processes start several times as fast. What the plugin's side of
// the connection does is watched in the tests of package rpc.
var pluginBinary = sync.OnceValues(func() (binary string, err error) {
	if !race.Enabled {
		return os.Executable()
	}
	if unwatched, err = os.MkdirTemp("", "manager-test-"); err != nil {
		return "", err
	}
	binary = filepath.Join(unwatched, "plugin.test")
	if out, err := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	return binary, nil
})

// install adds a version of the test's plugin to a catalogue: a script that becomes the program. A
// catalogue and a manager read all of a plugin whenever they verify it, which is much for a test
// binary.
func install(versions *catalogue.Catalogue, version string) error {
	binary, err := pluginBinary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "manager-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, catalogue.Name)
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' %s%s \"$@\"\n", binary, versionFlag, version)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		return err
	}
	_, err = versions.Install(context.Background(), script)
	return err
}

func configure(f folder, catalogue *catalogue.Catalogue) manager.Config {
	c := manager.Config{
		Catalogue:   catalogue,
		Host:        host{},
		DatabaseURL: "sqlite://" + string(f) + "/personal.db",
		RunDir:      filepath.Join(string(f), "run"),
		Options:     manager.Options{Env: []string{pluginEnv + "=" + string(f)}},
	}
	c.Limits().BackoffMin, c.Limits().BackoffMax = time.Millisecond, 50*time.Millisecond
	c.Limits().RestartWait = generous
	c.SetScript(f.rehearse)
	return c
}

// begin starts the manager.
func (r *rig) begin(t *testing.T) {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
}

// start starts the manager and waits until it serves.
func (r *rig) start(t *testing.T) {
	t.Helper()
	r.begin(t)
	if err := r.WaitReady(limited(t)); err != nil {
		t.Fatal(err)
	}
}

// servingPID returns the process ID that the plugin responds with.
func (r *rig) servingPID(ctx context.Context) (string, error) {
	p, err := r.service.Profile(ctx, personal.Credentials{})
	return p.Login, err
}

// callUnderWay begins a call that does not end by itself.
func (r *rig) callUnderWay(t *testing.T) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- r.service.Recover(limited(t), personal.RecoverRequest{Login: "wait"}) }()
	eventually(t, "a call under way", func() bool { return r.exists("waiting") })
	return result
}

// exists reports whether a process has written a note of that name.
func (r *rig) exists(name string) bool { return len(r.folder.all(name)) > 0 }

// wantServedByOther checks that calls go to another process than before.
func (r *rig) wantServedByOther(t *testing.T, before int) int {
	t.Helper()
	pid, err := r.servingPID(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if pid == strconv.Itoa(before) {
		t.Fatalf("got a response from process %s, want one from another process", pid)
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

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx := limited(t)
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
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
	if pid <= 0 { // would be a process group, such as that of the test
		t.Fatalf("got process %d, want one that runs", pid)
	}
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

// wantUnavailable checks for the contract's error for a lost process.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	var e *personal.Error
	if !errors.As(err, &e) || e.Code != personal.CodeUnavailable || e.RetryAfter <= 0 {
		t.Errorf("got %v, want unavailable with a time to retry", err)
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

// swapRig is a rig over its own catalogue with the versions 1.0.0, which is
// active, and 2.0.0. The note "mode VERSION" sets the mode of one version.
type swapRig struct {
	*rig
	catalogue *catalogue.Catalogue
	events    *events
}

func newSwapRig(t *testing.T, change func(*manager.Config)) *swapRig {
	t.Helper()
	catalogue, seen := linkedCatalogue(t), &events{}
	f := folder(t.TempDir())
	f.write("mode", good)
	r := newRigIn(t, f, catalogue, func(c *manager.Config) {
		c.OnEvent = seen.add
		c.Limits().ShutdownTimeout = time.Second
		if change != nil {
			change(c)
		}
	})
	return &swapRig{rig: r, catalogue: catalogue, events: seen}
}

// source is a catalogue of both versions that TestMain removes. To install runs the plugin, so
// tests share the files.
var source struct {
	once      sync.Once
	dir       string
	catalogue *catalogue.Catalogue
	err       error
}

func makeSource() (err error) {
	if source.dir, err = os.MkdirTemp("", "manager-test-"); err != nil {
		return err
	}
	if source.catalogue, err = catalogue.Open(source.dir); err != nil {
		return err
	}
	return errors.Join(install(source.catalogue, "1.0.0"), install(source.catalogue, "2.0.0"),
		source.catalogue.SaveState(catalogue.State{Active: "1.0.0"}))
}

// sharedCatalogue returns the source, for tests that do not change the catalogue. Version 1.0.0 is
// active in it.
func sharedCatalogue(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	source.once.Do(func() { source.err = makeSource() })
	if source.err != nil {
		t.Fatal(source.err)
	}
	return source.catalogue
}

// linkedCatalogue returns a catalogue that shares the files of the source.
func linkedCatalogue(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	return linkedCatalogueIn(t, t.TempDir())
}

func linkedCatalogueIn(t *testing.T, dir string) *catalogue.Catalogue {
	t.Helper()
	_ = sharedCatalogue(t)
	for _, version := range []string{"1.0.0", "2.0.0"} {
		err := filepath.WalkDir(filepath.Join(source.dir, version), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			target := filepath.Join(dir, version, d.Name())
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(dir, version), 0o700)
			}
			return os.Link(path, target)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	versions, err := catalogue.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := versions.SaveState(catalogue.State{Active: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	return versions
}

// events collects the events of a manager.
type events struct {
	mu   sync.Mutex
	list []manager.Event
}

func (r *events) add(e manager.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

func (r *events) types() []manager.EventType {
	r.mu.Lock()
	defer r.mu.Unlock()
	var types []manager.EventType
	for _, e := range r.list {
		types = append(types, e.Type)
	}
	return types
}

// count returns how many events of that type have the text in their reason.
func (r *events) count(e manager.EventType, reason string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.list {
		if event.Type == e && strings.Contains(event.Reason, reason) {
			n++
		}
	}
	return n
}

func (r *events) has(e manager.EventType) bool { return slices.Contains(r.types(), e) }

func (r *swapRig) use(t *testing.T, version string) {
	t.Helper()
	if err := r.Use(limited(t), version); err != nil {
		t.Fatal(err)
	}
}

func (r *swapRig) rollBack(t *testing.T) {
	t.Helper()
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
}

func (r *swapRig) wantState(t *testing.T, want catalogue.State) {
	t.Helper()
	if got, err := r.catalogue.LoadState(); err != nil || got != want {
		t.Errorf("got state on disk %+v (%v), want %+v", got, err, want)
	}
}

func (r *swapRig) wantServing(t *testing.T, version string) {
	t.Helper()
	if s := r.Status(); !s.State.Serves() || s.Version != version {
		t.Errorf("got status %+v, want that %s serves", s, version)
	}
}

// detail returns the detail of a step of the swap under way.
func (r *rig) detail(step string) string {
	if swap := r.Status().Swap; swap != nil {
		for _, s := range swap.Steps {
			if s.Name == step {
				return s.Detail
			}
		}
	}
	return ""
}

// hammer calls until stop is called, which returns how many calls failed. All callers together
// make at most 100 calls per second, so that what they call and the machine are not busy.
func (r *rig) hammer(t *testing.T, callers int) (calls *atomic.Int64, stop func() int64) {
	t.Helper()
	return r.callBetween(t, callers, func() { time.Sleep(time.Duration(callers) * time.Second / 100) })
}

// flood is hammer without a pause between the calls of a caller.
func (r *rig) flood(t *testing.T, callers int) (calls *atomic.Int64, stop func() int64) {
	t.Helper()
	return r.callBetween(t, callers, func() {})
}

func (r *rig) callBetween(t *testing.T, callers int, pause func()) (calls *atomic.Int64, stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var failed atomic.Int64
	calls = &atomic.Int64{}
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.servingPID(context.WithoutCancel(ctx)); err != nil {
					failed.Add(1)
				}
				calls.Add(1)
				pause()
			}
		})
	}
	return calls, func() int64 {
		cancel()
		group.Wait()
		return failed.Load()
	}
}

func wantSwapError(t *testing.T, err error, step string) {
	t.Helper()
	var refused *manager.SwapError
	if !errors.As(err, &refused) || refused.Step != step || refused.Err == nil {
		t.Errorf("got %v, want a refusal at step %s", err, step)
	}
}

// copyOfActive returns the copy of the only version that was staged.
func (r *rig) copyOfActive(t *testing.T) os.FileInfo {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.run, "staged", "*", catalogue.Name))
	if err != nil || len(paths) != 1 {
		t.Fatalf("got copies %v (%v), want one", paths, err)
	}
	info, err := os.Stat(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (r *rig) wantOneCopy(t *testing.T) {
	t.Helper()
	eventually(t, "one copy left", func() bool {
		copies, err := os.ReadDir(filepath.Join(r.run, "staged"))
		return err == nil && len(copies) == 1
	})
}
