//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func TestImport_MemoryDoesNotGrowWithRows(t *testing.T) {
	memory := func(url string, n int) int64 {
		importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", write(t, "users.csv", accountRows(n, importedBcrypt)))
		importing.Env = append(importing.Environ(), "PERSONAL_DATABASE="+url)
		if out, err := importing.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return importing.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	}
	testdb.Database(t, func(t *testing.T, url string) {
		few, many := memory(url, 2_000), memory(url, 20_000) // the first 2,000 are there already
		if t.Logf("%d and %d", few, many); many > few*3/2 {
			t.Errorf("got %d for 2,000 rows and %d for 20,000, want at most half more", few, many)
		}
	})
}
