package pluginmanager_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// withMemoryEvents gives a manager files of a kernel in which plugins of the mode
// starvesActive count as killed for lack of memory.
func withMemoryEvents(t *testing.T, change func(*pluginmanager.Config)) *swapRig {
	t.Helper()
	root := t.TempDir()
	group := filepath.Join(root, "sys/fs/cgroup/cms")
	for path, text := range map[string]string{
		filepath.Join(root, "proc/self/cgroup"):    "0::/cms\n",
		filepath.Join(group, "cgroup.controllers"): "memory\n",
		filepath.Join(group, "memory.events"):      "oom_kill 0\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		c.Env = append(c.Env, eventsEnv+"="+filepath.Join(group, "memory.events"))
		if change != nil {
			change(c)
		}
	})
	r.ReadKernelFilesBelow(root)
	return r
}

func TestMemory_VersionThatRunsOutOfItAgainAndAgainFallsBack(t *testing.T) {
	t.Parallel()
	r := withMemoryEvents(t, func(c *pluginmanager.Config) { c.CrashWindow = 1 }) // no death is soon enough to be a crash
	if err := r.catalogue.SaveState(plugincatalogue.State{Active: "1.0.0", LastGood: "2.0.0"}); err != nil {
		t.Fatal(err)
	}
	r.folder.write("mode 1.0.0", starvesActive)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last good version", func() bool { s := r.Status(); return s.Version == "2.0.0" && s.State.Serves() })
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
	r.wantState(t, plugincatalogue.State{Active: "2.0.0", LenientSettings: true})
	if s := r.Status(); s.Restarts < 5 || !strings.Contains(s.LastError, "crashed 5 times") || !strings.Contains(s.LastError, "memory ran out") {
		t.Errorf("got status %+v, want at least 5 restarts and memory as the reason", s)
	}
	if got := r.events.count(pluginmanager.EventProcessLost, "memory ran out"); got < 5 { // on a busy machine the news of an exit may come too late to count
		t.Errorf("got %d events of lost processes that name memory, want at least 5", got)
	}
	if r.events.count(pluginmanager.EventFellBack, "memory ran out") != 1 {
		t.Errorf("got events %v, want a fallback that names memory", r.events.types())
	}
}

func TestMemory_WithoutLastGoodVersionIsRestartedAtOnce(t *testing.T) {
	t.Parallel()
	r := withMemoryEvents(t, func(c *pluginmanager.Config) { c.CrashWindow = 1 })
	r.folder.write("mode 1.0.0", starvesActive)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "more restarts than crashes are allowed", func() bool { return r.Status().Restarts > 6 })
	if r.events.has(pluginmanager.EventGaveUp) {
		t.Errorf("got events %v, want no failure", r.events.types())
	}
	r.folder.write("mode 1.0.0", good)
	eventually(t, "a process that stays", func() bool { _, err := r.servingPID(limited(t)); return err == nil })
}

func TestMemory_KillDuringBakeRollsBack(t *testing.T) {
	t.Parallel()
	r := withMemoryEvents(t, nil)
	r.start(t)
	r.folder.write("mode 2.0.0", starvesActive)
	err := r.Use(limited(t), "2.0.0")
	wantSwapError(t, err, "workers")
	r.wantServing(t, "1.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	if s := r.Status(); !strings.Contains(s.LastError, "memory ran out") {
		t.Errorf("got last error %q, want that memory ran out", s.LastError)
	}
	if r.events.count(pluginmanager.EventRolledBack, "memory ran out") != 1 {
		t.Errorf("got events %v, want a rollback that names memory", r.events.types())
	}
}

func TestMemory_LimitReachesThePlugin(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1TiB")
	r := newRig(t, listsEnvironment, func(c *pluginmanager.Config) { c.MemoryLimit = 100 << 20 })
	r.start(t)
	variables := strings.Split(r.folder.read("environment"), "\n")
	for _, want := range []string{"GOMEMLIMIT=83886080", pluginrpc.MemoryLimitEnv + "=104857600"} {
		if !slices.Contains(variables, want) {
			t.Errorf("got the environment %q, want %s in it", variables, want)
		}
	}
	if slices.Contains(variables, "GOMEMLIMIT=1TiB") {
		t.Error("got the host's own GOMEMLIMIT, want the plugin's limit in its place")
	}
}

func TestMemory_SoftLimitIsKeptWithoutCollections(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test reads /proc")
	}
	const limit = 128
	r := newRig(t, makesGarbage, func(c *pluginmanager.Config) {
		c.MemoryLimit = limit << 20
		c.Env = append(c.Env, "GOGC=off") // so that only the limit makes the runtime collect
	})
	r.start(t)
	_, rest, _ := strings.Cut(r.folder.read("status"), "VmHWM:")
	peak, err := strconv.Atoi(strings.Fields(rest + " none")[0])
	if err != nil || peak == 0 || peak > 2*limit<<10 { // twice, for the race detector
		t.Errorf("got a peak of %d KiB (%v), want about the limit of %d MiB", peak, err, limit)
	}
	if !strings.Contains(r.log.String(), "memory has a") {
		t.Errorf("got the log %s, want which kind of limit it is", r.log)
	}
}

func TestNew_RefusesNegativeMemoryLimit(t *testing.T) {
	t.Parallel()
	c := configure(folder(t.TempDir()), sharedCatalogue(t))
	c.MemoryLimit = -1
	if _, err := pluginmanager.New(c); err == nil || !strings.Contains(err.Error(), "MemoryLimit") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}
