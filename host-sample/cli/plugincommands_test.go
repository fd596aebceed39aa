package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// signingKey returns a new secret key and the path of its public key.
func signingKey(t *testing.T) (minisign.PrivateKey, string) {
	t.Helper()
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(path, []byte(public.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return secret, path
}

// signedBundle returns the path of a bundle of a small plugin, which can be
// installed but not started.
func signedBundle(t *testing.T, version string, key minisign.PrivateKey) string {
	t.Helper()
	one := catalogue.Range{Min: 1, Max: 1}
	m := catalogue.Manifest{
		Name: catalogue.Name, Version: version, Protocol: one, Schema: one, OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "built")
	script := `#!/bin/sh
echo '{"name":"personal","version":"` + version + `","protocol":{"min":1,"max":1},"schema":{"min":1,"max":1},"os":"` + runtime.GOOS + `","arch":"` + runtime.GOARCH + `"}'
`
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "bundle.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = catalogue.WriteBundle(f, binary, m, func(manifest []byte) ([]byte, error) { return minisign.Sign(key, manifest), nil })
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestPluginInstall_WithKeysNeedsSignedBundle(t *testing.T) {
	secret, public := signingKey(t)
	_, other := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	bundle := signedBundle(t, "1.2.3", secret)

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a binary":           {[]string{"install", fake(t, fakeVersion), "--plugin-key", public}, "not signed: a binary alone"},
		"with another key":   {[]string{"install", bundle, "--plugin-key", other}, "not signed by a configured key"},
		"a file with no key": {[]string{"install", bundle, "--plugin-key", bundle}, "--plugin-key (PERSONAL_PLUGIN_KEY)"},
		"a key and no file":  {[]string{"install", bundle, "--plugin-key", public, "--plugin-key", ""}, "--plugin-key"},
	} {
		code, stdout, stderr := runToEnd(t, append([]string{"plugin", "--data", data}, tt.args...)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: got exit code %d, %q, %q, want 1 and %q", name, code, stdout, stderr, tt.want)
		}
	}
	code, stdout, stderr := runToEnd(t, "plugin", "install", "--activate", bundle, "--data", data, "--plugin-key", other, "--plugin-key",
		public)
	if code != 0 || stdout != "1.2.3\n" {
		t.Errorf("install: got exit code %d, %q, %q, want 1.2.3", code, stdout, stderr)
	}
}

func TestPluginList_ShowsUseAndSigner(t *testing.T) {
	secret, public := signingKey(t)
	_, other := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"install", "--activate", signedBundle(t, "1.2.3", secret), "--plugin-key", public},
		{"install", fake(t, fakeVersion)},
	} {
		if code, _, stderr := runToEnd(t, append([]string{"plugin", "--data", data}, args...)...); code != 0 {
			t.Fatalf("%v: got exit code %d, %q, want 0", args, code, stderr)
		}
	}
	keys, err := catalogue.ReadKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("%016X", keys[0].ID()) // one in sixteen begins with a zero

	for name, tt := range map[string]struct {
		keys []string
		want [2]string // how the lines of 1.2.3 and 1.0.0 end
	}{
		"without keys":     {nil, [2]string{"  active", ""}},
		"with the key":     {[]string{"--plugin-key", public}, [2]string{"  active  signed by " + id, "  not signed"}},
		"with another key": {[]string{"--plugin-key", other}, [2]string{"  active  not signed by a configured key", "  not signed"}},
	} {
		code, stdout, stderr := runToEnd(t, append([]string{"plugin", "list", "--data", data}, tt.keys...)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != 0 || len(lines) != 2 {
			t.Errorf("%s: got exit code %d, %q, %q, want two lines", name, code, stdout, stderr)
			continue
		}
		for i, version := range []string{"1.2.3", "1.0.0"} {
			const sum = 64
			rest, ok := strings.CutPrefix(lines[i], version+"  ")
			if !ok || len(rest) < sum || rest[sum:] != tt.want[i] {
				t.Errorf("%s: got line %q, want %s, its sum and %q", name, lines[i], version, tt.want[i])
			}
		}
	}
}

func TestPluginPrune_PrintsRemovedVersions(t *testing.T) {
	secret, _ := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "1.10.0", "2.0.0"} {
		args := []string{"plugin", "install", signedBundle(t, version, secret), "--data", data}
		if version == "1.0.0" {
			args = append(args, "--activate")
		}
		if code, _, stderr := runToEnd(t, args...); code != 0 {
			t.Fatalf("got exit code %d, %q, want 0", code, stderr)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "1.1.0\n"},
		{[]string{"--keep", "3"}, ""},
		{[]string{"--keep", "0"}, "2.0.0\n1.10.0\n1.2.0\n"},
	} {
		code, stdout, stderr := runToEnd(t, append([]string{"plugin", "prune", "--data", data}, tt.args...)...)
		if code != 0 || stdout != tt.want {
			t.Errorf("%v: got exit code %d, %q, %q, want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
	if code, _, stderr := runToEnd(t, "plugin", "prune", "--data", data, "--keep=-1"); code != 1 || stderr == "" {
		t.Errorf("--keep=-1: got exit code %d, %q, want 1", code, stderr)
	}
}

func TestServe_WithKeysRefusesUnsignedPlugin(t *testing.T) {
	_, public := signingKey(t)
	code, _, stderr := runCommand(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--addr", "127.0.0.1:0",
		"--plugin", fake(t, fakeVersion), "--plugin-key", public)
	if code != 1 || !strings.Contains(stderr, "--plugin (PERSONAL_PLUGIN)") || !strings.Contains(stderr, "signed bundle") {
		t.Errorf("got exit code %d, %q, want 1 and the flag", code, stderr)
	}
}

func TestPlugin_EmptyCatalogue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, stdout, stderr := runCommand(t, "plugin", "--data", dir, "list"); code != 0 || stdout != "" {
		t.Errorf("list: got exit code %d, %q, %q, want no lines", code, stdout, stderr)
	}
	if code, _, stderr := runCommand(t, "plugin", "remove", "1.0.0", "--data", dir); code != 1 || !strings.Contains(stderr, "1.0.0") {
		t.Errorf("remove: got exit code %d, %q, want 1 and the version", code, stderr)
	}
	if code, _, stderr := runCommand(t, "plugin", "install", dir, "--data", dir); code != 1 || stderr == "" {
		t.Errorf("install of a folder: got exit code %d, %q, want 1", code, stderr)
	}
}

func TestPlugin_InstallListRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	binary := fake(t, fakeVersion)
	for range 2 { // the same binary again changes nothing
		if code, stdout, stderr := runToEnd(t, "plugin", "install", binary, "--data", dir); code != 0 || stdout != fakeVersion+"\n" {
			t.Fatalf("install: got exit code %d, %q, %q, want the version", code, stdout, stderr)
		}
	}
	if _, stdout, _ := runToEnd(t, "plugin", "list", "--data", dir); !strings.HasPrefix(stdout, fakeVersion+"  ") ||
		strings.Contains(stdout, "active") {
		t.Errorf("list: got %q, want the version, not active", stdout)
	}
	if code, _, stderr := runToEnd(t, "plugin", "remove", fakeVersion, "--data", dir); code != 0 {
		t.Errorf("remove: got exit code %d, %q, want 0", code, stderr)
	}
	if _, stdout, _ := runToEnd(t, "plugin", "list", "--data", dir); stdout != "" {
		t.Errorf("list after remove: got %q, want nothing", stdout)
	}
}

func TestChoosePlugin_ActivatesHighest(t *testing.T) {
	catalogue, err := openCatalogue(t.TempDir(), quietLog())
	if err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), catalogue, "", quietLog()); !errors.Is(err, errNoPlugin) {
		t.Errorf("empty catalogue: got %v, want %v", err, errNoPlugin)
	}
	if _, err := catalogue.Install(t.Context(), fake(t, fakeVersion)); err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), catalogue, "", quietLog()); err != nil {
		t.Fatal(err)
	}
	if state, err := catalogue.LoadState(); err != nil || state.Active != fakeVersion {
		t.Errorf("got active version %q, %v, want %s", state.Active, err, fakeVersion)
	}
}

func TestChoosePlugin_AnotherBuildOfAnInstalledVersion(t *testing.T) {
	versions, err := openCatalogue(t.TempDir(), quietLog())
	if err != nil {
		t.Fatal(err)
	}
	first, err := versions.Install(t.Context(), fake(t, fakeVersion))
	if err != nil {
		t.Fatal(err)
	}
	other := fake(t, fakeVersion)
	script, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, append(script, "# another build"...), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), versions, other, quietLog()); !errors.Is(err, catalogue.ErrConflict) {
		t.Errorf("no version is active: got %v, want %v", err, catalogue.ErrConflict)
	}
	if _, err := versions.ActivateFirst(""); err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), versions, other, quietLog()); err != nil {
		t.Errorf("with an active version: got %v, want no error", err)
	}
	if e, err := versions.Find(fakeVersion); err != nil || e.Manifest.SHA256 != first.Manifest.SHA256 {
		t.Errorf("got %+v, %v, want the first build", e, err)
	}
}

func TestWarnOfNewer_BesideTheProgram(t *testing.T) {
	catalogue, err := openCatalogue(t.TempDir(), quietLog())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.Install(t.Context(), fake(t, fakeVersion)); err != nil {
		t.Fatal(err)
	}
	if _, err := catalogue.ActivateFirst(""); err != nil {
		t.Fatal(err)
	}
	for beside, warned := range map[string]bool{fake(t, "1.1.0"): true, fake(t, fakeVersion): false, fake(t, "0.9.0"): false, "missing": false} {
		var log bytes.Buffer
		warnOfNewer(t.Context(), catalogue, beside, slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.Contains(log.String(), "active="+fakeVersion+" offered=1.1.0"); got != warned {
			t.Errorf("got the log %q, want that it names both versions: %t", log.String(), warned)
		}
	}
}
