package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/mounttest"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// TestChoosePlugin_FullDiskKeepsTheActiveVersion restarts a host whose disk became full.
func TestChoosePlugin_FullDiskKeepsTheActiveVersion(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	program := testBinary(t)
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	mount := mounttest.Tmpfs(t, 0, "size=1m")
	if info.Size() < 1<<20 { // what is left must not hold another copy
		if err := os.WriteFile(filepath.Join(mount, "other"), make([]byte, 1<<20-info.Size()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	versions, err := openCatalogue(mount, quietLog())
	if err != nil {
		t.Fatal(err)
	}
	var full *durable.FullError
	if err := choosePlugin(t.Context(), versions, program, quietLog()); !errors.As(err, &full) {
		t.Errorf("no version is active: got %v, want that the disk is full", err)
	}
	if err := versions.SaveState(catalogue.State{Active: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), versions, program, quietLog()); err != nil {
		t.Errorf("with an active version: got %v, want no error", err)
	}
}
