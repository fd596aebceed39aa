//go:build extended

package system

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestClients_GeneratedFromRunningHost runs the commands of docs/api-tour.md that generate a client from a running host,
// compile it and run it against the host. The client is copied, so that nothing is generated in the repository.
func TestClients_GeneratedFromRunningHost(t *testing.T) {
	const page = "docs/api-tour.md"
	blocks := blocksRunBy(t, page, "TestClients_GeneratedFromRunningHost")
	if len(blocks) != 1 {
		t.Fatalf("%s has %d blocks of commands for this test, want one", page, len(blocks))
	}
	s := &sandbox{dir: t.TempDir()}
	s.system = start(t, options{database: testkit.SQLite(t), settings: cheap})
	clients := filepath.Join("docs", "examples", "clients")
	if err := os.CopyFS(filepath.Join(s.dir, clients), os.DirFS(filepath.Join(repository, clients))); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, clients, "go", "personal")); err != nil { // by hand in this clone
		t.Fatal(err)
	}
	s.play(t, blocks[0])
}

// TestClients_CompilersRefuseWrongCalls generates Go clients from the document, and compiles a call with each. The types of
// TypeScript are checked in shared/personalclient/typescript.
func TestClients_CompilersRefuseWrongCalls(t *testing.T) {
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(root, "shared", "personalhttp", "openapi.json")
	for _, generator := range []struct{ name, generate, call string }{
		{
			"oapi-codegen", "go tool -C " + filepath.Join(root, "docs", "examples", "clients", "go") + " oapi-codegen -package api -generate types,client -o $PWD/api/api.go ",
			`api.RecoverParameters{Login: new("anna")}`,
		},
		{
			"ogen", "go run github.com/ogen-go/ogen/cmd/ogen@v1.25.0 --target api --package api ",
			`api.RecoverParameters{Login: api.NewOptNilString("anna")}`,
		},
	} {
		t.Run(generator.name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(command string) (string, error) {
				cmd := exec.Command("bash", "-c", "set -e; "+command)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			program := func(call string) {
				text := "package main\n\nimport \"example.com/client/api\"\n\nfunc main() { _ = " + call + " }\n"
				if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			program(generator.call)
			if out, err := in("go mod init example.com/client; mkdir -p api; " + generator.generate + document + "; go mod tidy; go build -o /dev/null ."); err != nil {
				t.Fatalf("the right call: %v\n%s", err, out)
			}
			for _, wrong := range []string{
				strings.Replace(generator.call, "Login:", "Nonsense:", 1),
				strings.Replace(generator.call, `"anna"`, "1", 1),
			} {
				program(wrong)
				if out, err := in("go build -o /dev/null ."); err == nil || !strings.Contains(out, "main.go:5") {
					t.Errorf("%s: got %v, want that the compiler refuses it\n%s", wrong, err, out)
				}
			}
		})
	}
}
