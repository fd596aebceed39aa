package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestStart_UsesTheCopyOfAnEarlierManager(t *testing.T) {
	t.Parallel()
	first := newRig(t, good, nil)
	first.start(t)
	if err := first.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	before := first.copyOfActive(t)
	if err := os.Mkdir(filepath.Join(first.run, "staged", "another version"), 0o700); err != nil {
		t.Fatal(err)
	}

	second := newRigIn(t, first.folder, sharedCatalogue(t), nil)
	second.start(t)
	if !os.SameFile(before, second.copyOfActive(t)) {
		t.Error("got another copy, want that of the first manager")
	}
	second.wantOneCopy(t)
}

// Swaps are refused for more reasons: TestSwap_BadVersionIsRefusedWithoutFailedCalls.
func TestStart_BadPluginIsNotServedAndStepIsNamed(t *testing.T) {
	t.Parallel()
	for mode, step := range map[string]string{
		exitsConfiguring:    "configure",
		databaseUnavailable: "preflight",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mode, func(c *manager.Config) {
				c.Limits().ShutdownTimeout = 500 * time.Millisecond
				c.Limits().RestartWait = 50 * time.Millisecond
			})
			r.begin(t)
			eventually(t, "a failed start", func() bool { return r.Status().LastError != "" })
			if text := r.Status().LastError; !strings.HasPrefix(text, "plugin 1.0.0: "+step+": ") {
				t.Errorf("got error %q, want that it names the step %q", text, step)
			}
			_, err := r.servingPID(limited(t))
			wantUnavailable(t, err)
			if err := r.Ready(limited(t)); err == nil {
				t.Error("got that the plugin is ready, want an error")
			}

			r.folder.write("mode", good)
			if err := r.WaitReady(limited(t)); err != nil {
				t.Errorf("a good plugin in its place: got %v, want that it serves", err)
			}
			if _, err := r.servingPID(limited(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStart_WaitsForHealthWithinCheckTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, healthySoon, func(c *manager.Config) { c.Limits().CheckTimeout = generous })
	r.start(t)
	if s := r.Status(); s.LastError != "" || s.Generation != 1 {
		t.Errorf("got status %+v, want that the first process serves", s)
	}
}

func TestWaitReady_ReturnsPermanentErrorAtOnce(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		refusesSettings: "[session] idle: no duration",
		failsPreflight:  "schema: the database is newer",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mode, nil)
			r.begin(t)
			err := r.WaitReady(limited(t))
			var refusal *rpc.PermanentError
			if !errors.As(err, &refusal) || refusal.Reason != want {
				t.Errorf("got %v, want the permanent error %q", err, want)
			}
			if s := r.Status(); s.State != manager.StateFailed {
				t.Errorf("got status %+v, want failed", s)
			}
			_, err = r.servingPID(limited(t))
			wantUnavailable(t, err)
		})
	}
}

func TestWaitReady_UnreadableSettingsArePermanentError(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, func(c *manager.Config) {
		c.Settings = func() ([]byte, error) { return nil, os.ErrPermission }
	})
	r.begin(t)
	var refusal *rpc.PermanentError
	if err := r.WaitReady(limited(t)); !errors.As(err, &refusal) {
		t.Errorf("got %v, want a permanent error", err)
	}
}

func TestWaitReady_NoActiveVersionIsPermanentError(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, func(c *manager.Config) {
		empty, err := catalogue.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c.Catalogue = empty
	})
	r.begin(t)
	var refusal *rpc.PermanentError
	if err := r.WaitReady(limited(t)); !errors.As(err, &refusal) {
		t.Errorf("got %v, want a permanent error", err)
	}
}

func TestWaitReady_EndsWithContextAndReason(t *testing.T) {
	t.Parallel()
	r := newRig(t, databaseUnavailable, nil)
	r.begin(t)
	eventually(t, "a failed start", func() bool { return r.Status().LastError != "" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.WaitReady(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want the context's error and the reason", err)
	}
}
