package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// doom says what a host does, and at which point of its last swap it kills itself.
type doom struct {
	At   string // a step, or the type of an event
	Bake time.Duration
	Call bool     // a call is under way in the first process
	Do   []string // versions to use one after the other; "" is a rollback
}

// Steps before the switch that leave the same files and processes are tested once: find as stage,
// preflight and check as migrate.
func TestKilledHost_AtAnyStepOfSwapStartsAgain(t *testing.T) {
	t.Parallel()
	up, complete := []string{"2.0.0"}, []string{"2.0.0", "1.0.0"}
	for name, test := range map[string]struct {
		doom
		first, second string // the modes of 1.0.0 and 2.0.0
		active        string // on disk afterwards; "" for either
	}{
		"settle":              {doom: doom{At: "settle", Do: up}, first: silentDuringCheck, second: announcesCheck, active: "1.0.0"},
		"complete a bake":     {doom: doom{At: "settle", Do: complete}},
		"completed":           {doom: doom{At: string(manager.EventSwapSettled), Do: complete}, active: "2.0.0"},
		"stage":               {doom: doom{At: "stage", Do: up}, active: "1.0.0"},
		"start, early":        {doom: doom{At: "start", Do: up}, active: "1.0.0"},
		"start":               {doom: doom{At: "start", Do: up}, second: blocksIn + "start", active: "1.0.0"},
		"configure":           {doom: doom{At: "configure", Do: up}, second: hangsConfiguring, active: "1.0.0"},
		"migrate":             {doom: doom{At: "migrate", Do: up}, second: blocksIn + "migrate", active: "1.0.0"},
		"switch":              {doom: doom{At: "switch", Do: up}, active: "1.0.0"},
		"workers":             {doom: doom{At: "workers", Do: up}, second: blocksIn + "workers", active: "1.0.0"},
		"bake":                {doom: doom{At: "bake", Do: up, Call: true}, active: "1.0.0"},
		"drain":               {doom: doom{At: "retire", Do: up, Call: true, Bake: -1}, active: "2.0.0"},
		"retire":              {doom: doom{At: "retire", Do: up, Bake: -1}, first: ignoresShutdown, active: "2.0.0"},
		"rollback":            {doom: doom{At: string(manager.EventRolledBack), Do: []string{"2.0.0", ""}}, second: quiescesForever, active: "1.0.0"},
		"rollback by a start": {doom: doom{At: "start", Do: []string{"2.0.0", ""}, Bake: -1}, active: "2.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := folder(t.TempDir())
			catalogue := linkedCatalogueIn(t, filepath.Join(string(f), "plugins"))
			f.write("mode", good)
			f.write("mode 1.0.0", test.first)
			f.write("mode 2.0.0", test.second)
			sockets := die(t, f, test.doom)
			wantNoProcesses(t, f)
			if test.first == "" && f.read("closed") == "" {
				t.Error("got no closed module, want that the plugin closed it")
			}

			f.write("mode 1.0.0", good)
			f.write("mode 2.0.0", good)
			state, err := catalogue.LoadState()
			if err != nil || test.active != "" && state.Active != test.active {
				t.Errorf("got state on disk %+v (%v), want that %q is active", state, err, test.active)
			}
			next := newRigIn(t, f, catalogue, nil)
			next.start(t)
			if s := next.Status(); s.Version != state.Active {
				t.Errorf("got status %+v, want that %s serves", s, state.Active)
			}
			if _, err := next.servingPID(limited(t)); err != nil {
				t.Error(err)
			}
			next.wantOneCopy(t)
			if now, err := catalogue.LoadState(); err != nil || now.Baking != "" {
				t.Errorf("got state on disk %+v (%v), want that no version bakes", now, err)
			}
			if _, err := os.Stat(sockets); !os.IsNotExist(err) {
				t.Errorf("sockets of the killed host: got %v, want that they are removed", err)
			}
		})
	}
}

// die runs a host that kills itself, and returns the folder of its sockets.
func die(t *testing.T, f folder, d doom) (sockets string) {
	t.Helper()
	order, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	f.write("doom", string(order))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(limited(t), self)
	cmd.Env = append(os.Environ(), hostEnv+"="+string(f))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	if f.read("died at") != d.At {
		t.Fatalf("got the end of the host (%v), want that it was killed at %s", err, d.At)
	}
	sockets, err = os.Readlink(filepath.Join(string(f), "run", "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	return sockets
}

// wantNoProcesses waits for the end of all plugins that ran in a folder.
func wantNoProcesses(t *testing.T, f folder) {
	t.Helper()
	processes := f.all("pid")
	if len(processes) == 0 {
		t.Fatal("got no plugin process, want one")
	}
	began := time.Now()
	for _, process := range processes {
		pid, err := strconv.Atoi(process)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the plugin", func() bool { return dead(pid) })
	}
	t.Logf("%d plugins ended within %v", len(processes), time.Since(began))
}

// runHost runs a host that kills itself as the note "doom" in its folder says.
func runHost(f folder) {
	var d doom
	if err := json.Unmarshal([]byte(f.read("doom")), &d); err != nil {
		panic(err)
	}
	catalogue, err := catalogue.Open(filepath.Join(string(f), "plugins"))
	if err != nil {
		panic(err)
	}
	var m *manager.Manager
	var armed atomic.Bool
	var dying sync.Mutex
	dieAt := func(step string) {
		if step == d.At && armed.Load() {
			dying.Lock() // and never unlocks
			f.write("died at", step)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			block()
		}
	}
	look := func() {
		if swap := m.Status().Swap; swap != nil {
			dieAt(swap.Step)
		}
	}
	c := patient(configure(f, catalogue))
	c.Bake = d.Bake
	c.OnEvent = func(e manager.Event) {
		dieAt(string(e.Type))
		look()
	}
	if m, err = manager.New(c); err != nil {
		panic(err)
	}
	if err := errors.Join(m.Start(), m.WaitReady(context.Background())); err != nil {
		panic(err)
	}
	if d.Call {
		beginCall(f, m)
	}
	go func() {
		for ; ; time.Sleep(100 * time.Microsecond) { // shorter than any step takes
			look()
		}
	}()
	for i, version := range d.Do {
		for d.Bake < 0 && m.Status().Swap != nil { // until the bake is completed
			time.Sleep(time.Millisecond)
		}
		armed.Store(i == len(d.Do)-1)
		err := do(m, version)
		for err == nil && (d.At == "stage" || d.At == "switch") { // too short to be seen each time
			err = errors.Join(do(m, ""), do(m, version))
		}
		if err != nil {
			panic(err)
		}
	}
	block()
}

// patient sets time limits that no test reaches, so that a step that blocks lasts.
func patient(c manager.Config) manager.Config {
	c.Log = slog.New(slog.DiscardHandler)
	for _, limit := range []*time.Duration{
		&c.Limits().StartTimeout, &c.Limits().ConfigureTimeout, &c.Limits().PreflightTimeout, &c.Limits().MigrateTimeout, &c.Limits().CheckTimeout, &c.Limits().ActivateTimeout,
		&c.Limits().HealthTimeout, &c.Limits().DrainTimeout, &c.Limits().QuiesceTimeout, &c.Limits().ShutdownTimeout, &c.CallTimeout,
	} {
		*limit = time.Hour
	}
	c.Limits().HealthInterval = 5 * time.Millisecond
	return c
}

// beginCall begins a call that does not end, and waits until it is under way.
func beginCall(f folder, m *manager.Manager) {
	go func() {
		_ = rpc.NewClient(m, host{}).Recover(context.Background(), personal.RecoverRequest{Login: "wait"})
	}()
	for len(f.all("waiting")) == 0 {
		time.Sleep(time.Millisecond)
	}
}

// do swaps to a version, or rolls back if it is "".
func do(m *manager.Manager, version string) error {
	if version == "" {
		return m.Rollback(context.Background())
	}
	return m.Use(context.Background(), version)
}
