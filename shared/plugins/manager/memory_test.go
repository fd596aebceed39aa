package manager_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestMemory_KilledProcessNamesItAsUsualCause(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	const want = "killed from outside, usually by the kernel because memory ran out"
	eventually(t, "an event that names memory", func() bool { // on a busy machine the news of an exit may come too late
		r.restart(t)
		return r.events.count(manager.EventProcessLost, want) > 0
	})
	if got := r.Status().LastError; !strings.Contains(got, want) {
		t.Errorf("got the last error %q, want one with %q", got, want)
	}
}

func TestMemory_LimitAndEnvironmentReachThePlugin(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1TiB")
	t.Setenv("OTEL_SERVICE_NAME", "cms")
	r := newRig(t, listsEnvironment, func(c *manager.Config) { c.MemoryLimit = 100 << 20 })
	r.start(t)
	variables := strings.Split(r.folder.read("environment"), "\n")
	for _, want := range []string{"GOMEMLIMIT=83886080", rpc.MemoryLimitEnv + "=104857600", "OTEL_SERVICE_NAME=cms"} {
		if !slices.Contains(variables, want) {
			t.Errorf("got the environment %q, want %s in it", variables, want)
		}
	}
	if slices.Contains(variables, "GOMEMLIMIT=1TiB") {
		t.Error("got the host's own GOMEMLIMIT, want the plugin's limit in its place")
	}
}

func TestNew_RefusesNegativeLimits(t *testing.T) {
	t.Parallel()
	c := configure(folder(t.TempDir()), sharedCatalogue(t))
	c.MemoryLimit = -1
	if _, err := manager.New(c); err == nil || !strings.Contains(err.Error(), "MemoryLimit") {
		t.Errorf("got %v, want an error that names the field", err)
	}
	c.MemoryLimit, c.MinAge = 0, -1
	if _, err := manager.New(c); err == nil || !strings.Contains(err.Error(), "MinAge") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}
