package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bundler runs the tool that builds bundles and makes keys, in the repository,
// and returns what it prints.
func bundler(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./internal/tools/bundle"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bundle %v: %v\n%s", args, err, &said)
	}
	return strings.TrimSpace(string(out))
}

// bundle builds a version of the plugin, with notes that must not become markup,
// and returns its bundle, signed if key names a secret key.
func bundle(t *testing.T, version, key string) string {
	t.Helper()
	return bundler(t, "build", "--version="+version, "--key="+key, "--notes="+evil[0], "--out="+t.TempDir())
}
