//go:build extended

package system

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestClients_GeneratedFromRunningHost runs the commands of docs/api-tour.md that
// generate a client in Go and one in TypeScript from a running host, compile them and
// run them against the host. Both clients are copied, so that nothing is generated in
// the repository.
func TestClients_GeneratedFromRunningHost(t *testing.T) {
	const page = "docs/api-tour.md"
	blocks := blocksRunBy(t, page, "TestClients_GeneratedFromRunningHost")
	if len(blocks) != 2 {
		t.Fatalf("%s has %d blocks of commands for this test, want one for each language", page, len(blocks))
	}
	s := &sandbox{dir: t.TempDir()}
	s.system = start(t, options{database: testkit.SQLite(t), settings: cheap})
	clients := filepath.Join("docs", "examples", "clients")
	if err := os.CopyFS(filepath.Join(s.dir, clients), os.DirFS(filepath.Join(repository, clients))); err != nil {
		t.Fatal(err)
	}
	for _, generated := range []string{"go/personal", "typescript/personal.d.ts", "typescript/node_modules"} {
		if err := os.RemoveAll(filepath.Join(s.dir, clients, generated)); err != nil { // by hand in this clone
			t.Fatal(err)
		}
	}
	for _, b := range blocks {
		t.Run(b.String(), func(t *testing.T) {
			s.set = nil // each begins in the folder of the clone
			s.play(t, b)
		})
	}
}
