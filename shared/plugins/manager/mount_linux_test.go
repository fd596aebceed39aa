package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/mounttest"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

func TestStart_WaitsForAFolderThatAllowsExecution(t *testing.T) {
	t.Parallel()
	if !mounttest.Isolated(t) {
		return
	}
	mount := mounttest.Tmpfs(t, syscall.MS_NOEXEC, "size=4m")
	r := newSwapRig(t, func(c *manager.Config) {
		c.RunDir, c.Limits().FailureRetry = filepath.Join(mount, "run"), time.Second
	})
	state := catalogue.State{Active: "1.0.0", LastGood: "2.0.0"}
	if err := r.catalogue.SaveState(state); err != nil {
		t.Fatal(err)
	}
	r.begin(t)
	err := r.WaitReady(limited(t))
	if !errors.Is(err, catalogue.ErrNoExec) || !strings.Contains(err.Error(), mount) ||
		!strings.Contains(err.Error(), "mounted with noexec") {
		t.Errorf("got %v, want that a file below %s may not be run, and noexec as a cause", err, mount)
	}
	r.wantState(t, state) // another version would fail there, too
	if err := syscall.Mount("", mount, "", syscall.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a start after the mount was changed", func() bool { return r.Status().State == manager.StateServing })
	r.wantServing(t, "1.0.0")
}

func TestUse_FullDiskIsRefusedAndTheOldVersionServes(t *testing.T) {
	t.Parallel()
	if !mounttest.Isolated(t) {
		return
	}
	mount := mounttest.Tmpfs(t, 0, "size=4m")
	r := newSwapRig(t, func(c *manager.Config) { c.RunDir, c.Bake = filepath.Join(mount, "run"), -1 })
	r.start(t)
	other := filepath.Join(mount, "other files")
	if err := fillDisk(other); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: got %v, want ENOSPC", err)
	}
	err := r.Use(limited(t), "2.0.0")
	wantSwapError(t, err, "stage")
	staged := filepath.Join(mount, "run", "staged")
	var full *durable.FullError
	if !errors.As(err, &full) || full.Dir != staged {
		t.Errorf("got %v, want that the disk with %s is full", err, staged)
	}
	r.wantServing(t, "1.0.0")
	r.wantOneCopy(t)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	r.use(t, "2.0.0")
	r.wantServing(t, "2.0.0")
}

// fillDisk writes a file until that fails.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(block)
	}
	return err
}
