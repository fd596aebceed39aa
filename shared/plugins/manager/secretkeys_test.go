package manager_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func keysFor(start int32) [][]byte {
	return [][]byte{fmt.Appendf(nil, "KeyThatMustBeSeenNowhereAtStart%d", start), []byte("KeyThatMustBeSeenNowhereAndIsOld")}
}

func TestSecretKeys_AreReadAtEveryStartAndShownNowhere(t *testing.T) {
	t.Parallel()
	var starts atomic.Int32
	r := newSwapRig(t, func(c *manager.Config) {
		c.SecretKeys = func() ([][]byte, error) { return keysFor(starts.Add(1)), nil }
	})
	r.folder.write("mode 1.0.0", listsEnvironment)
	wantKeys := func(start int32) {
		t.Helper()
		keys := keysFor(start)
		if got, want := r.folder.read("keys"), string(keys[0])+" "+string(keys[1]); got != want || starts.Load() != start {
			t.Errorf("start %d of %d: the plugin has the keys %q, want %q", start, starts.Load(), got, want)
		}
	}
	r.start(t)
	wantKeys(1)
	pid := r.Status().PID
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) { // not on Linux
		t.Error(err)
	}
	r.restart(t)
	wantKeys(2)
	r.use(t, "2.0.0")
	wantKeys(3)
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	seen := strings.Join([]string{
		r.log.String(), string(command), r.folder.read("environment"), fmt.Sprintf("%+v %+v", r.events.list, r.Status()),
	}, "\n")
	if strings.Contains(seen, "KeyThatMust") {
		t.Error("log, command line, environment, events or status show a key")
	}
}

func TestSecretKeys_ThatCannotBeReadRefuseTheStart(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	failure := errors.New("/data/secret.key:3: the line is not a key")
	r := newRig(t, good, func(c *manager.Config) {
		c.SecretKeys = func() ([][]byte, error) { calls.Add(1); return nil, failure }
	})
	r.begin(t)
	err := r.WaitReady(limited(t))
	var refusal *rpc.PermanentError
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "configure: the secret keys cannot be read: "+failure.Error()) {
		t.Errorf("got %v, want a permanent error with the reason", err)
	}
}

// No administrator watches a restart after a crash: it uses the keys that were read last.
func TestSecretKeys_ThatCannotBeReadRefuseSwapNotRestart(t *testing.T) {
	t.Parallel()
	var damaged atomic.Bool
	var settings atomic.Value
	settings.Store("first")
	r := newSwapRig(t, func(c *manager.Config) {
		c.Settings = func() ([]byte, error) { return []byte(settings.Load().(string)), nil }
		c.SecretKeys = func() ([][]byte, error) {
			if damaged.Load() {
				return nil, errors.New("the line is not a key")
			}
			return keysFor(1), nil
		}
	})
	r.start(t)
	damaged.Store(true)
	settings.Store("second")
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "configure")
	r.wantServing(t, "1.0.0")

	r.restart(t)
	r.wantServing(t, "1.0.0")
	if log := r.log.String(); !strings.Contains(log, "the secret keys cannot be read, those read last are used") ||
		strings.Contains(log, "refuses the settings") {
		t.Error("the log does not name the keys, or blames the settings")
	}
}
