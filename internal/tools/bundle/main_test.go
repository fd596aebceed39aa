package main

import (
	"bytes"
	"debug/elf"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// sample is the source of a program with the manifest of a plugin.
const sample = `package main

import (
	"fmt"
	"runtime"
)

var version string

func main() {
	fmt.Printf("{\"name\":\"personal\",\"version\":%q,\"protocol\":{\"min\":1,\"max\":1},\"schema\":{\"min\":1,\"max\":1},\"os\":%q,\"arch\":%q}\n",
		version, runtime.GOOS, runtime.GOARCH)
}
`

// source writes a program and returns its file.
func source(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bundleCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return strings.TrimSpace(out.String()), err
}

func TestBuild_SignedBundleCanBeInstalled(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "release.key")
	if _, err := bundleCommand(t, "keygen", secret); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	args := []string{"build", "--version", "1.2.3-rc.1", "--key", secret, "--notes", "Faster.", "--out", out, source(t, sample)}
	path, err := bundleCommand(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := catalogue.ReadKeys(secret + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalogue.Open(t.TempDir(), catalogue.WithKeys(keys))
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Install(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if e.Manifest.Version != "1.2.3-rc.1" || e.Manifest.Notes != "Faster." {
		t.Errorf("got manifest %v, want version 1.2.3-rc.1 with its notes", e.Manifest)
	}
	if runtime.GOOS == "linux" {
		wantStripped(t, e.Binary())
	}

	// A later build gives the same bundle.
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundleCommand(t, args...); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the second build: got another bundle than the first, %v", err)
	}
	wantOnly(t, out, filepath.Base(path))
}

func wantStripped(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if symbols, err := f.Symbols(); !errors.Is(err, elf.ErrNoSymbols) {
		t.Errorf("got %d symbols (%v), want none", len(symbols), err)
	}
}

func wantOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(want) {
		t.Fatalf("got files %v (%v), want %v", list, err, want)
	}
	for i, f := range list {
		if f.Name() != want[i] {
			t.Errorf("got files %v, want %v", list, want)
		}
	}
}

func TestBuild_FailureLeavesNoBundle(t *testing.T) {
	good := source(t, sample)
	secret := filepath.Join(t.TempDir(), "release.key")
	if _, err := bundleCommand(t, "keygen", secret); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no version":                {[]string{"--version", "", good}, "VERSION"},
		"a leading v":               {[]string{"--version", "v1.2.3", good}, "VERSION"},
		"flags for the linker":      {[]string{"--version", "1.2.3 -X main.x=y", good}, "VERSION"},
		"a missing key":             {[]string{"--version", "1.2.3", "--key", "/does/not/exist", good}, "KEY"},
		"a public key to sign with": {[]string{"--version", "1.2.3", "--key", secret + ".pub", good}, "KEY"},
		"no source":                 {[]string{"--version", "1.2.3", "/does/not/exist.go"}, "building"},
		"a version that is not set": {[]string{"--version", "1.2.3", source(t, strings.Replace(sample, "var version string", `var version = fmt.Sprint("9.9.9")`, 1))}, "9.9.9"},
		"another program":           {[]string{"--version", "1.2.3", source(t, "package main\n\nfunc main() {}\n")}, "manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			stdout, err := bundleCommand(t, append([]string{"build", "--out", out}, tt.args...)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || stdout != "" {
				t.Errorf("got %q, %v, want an error with %q", stdout, err, tt.want)
			}
			wantOnly(t, out)
		})
	}
}

func TestKeygen_DoesNotOverwriteFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "release.key")
	if _, err := bundleCommand(t, "keygen", secret); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bundleCommand(t, "keygen", secret); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	if after, err := os.ReadFile(secret); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key has changed, %v", err)
	}
	if info, err := os.Stat(secret); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestReadKey_EncryptedKeyNeedsPassword(t *testing.T) {
	t.Setenv(passwordKey, "") // restores it after the test
	if err := os.Unsetenv(passwordKey); err != nil {
		t.Fatal(err)
	}
	// In the format of minisign: the algorithms Ed, Sc (scrypt) and B2, and 152 bytes.
	text := base64.StdEncoding.EncodeToString(append([]byte("EdScB2"), make([]byte, 152)...))
	path := filepath.Join(t.TempDir(), "encrypted.key")
	if err := os.WriteFile(path, []byte("untrusted comment: x\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readKey(path); err == nil || !strings.Contains(err.Error(), passwordKey) {
		t.Errorf("got %v, want an error that names %s", err, passwordKey)
	}
}
