package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// signingKey makes a key, and returns the path of the public one.
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

// signedBundle returns the path of a bundle of a small plugin, which is good for
// installing alone.
func signedBundle(t *testing.T, version string, key minisign.PrivateKey) string {
	t.Helper()
	one := plugincatalogue.Range{Min: 1, Max: 1}
	m := plugincatalogue.Manifest{
		Name: plugincatalogue.Name, Version: version, Protocol: one, Schema: one, OS: runtime.GOOS, Arch: runtime.GOARCH,
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
	err = plugincatalogue.WriteBundle(f, binary, m, func(manifest []byte) ([]byte, error) { return minisign.Sign(key, manifest), nil })
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestWithKeysThePluginCommandTakesSignedBundlesOnly(t *testing.T) {
	secret, public := signingKey(t)
	_, other := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	bundle := signedBundle(t, "1.2.3", secret)

	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a binary":            {[]string{"install", testBinary(t), "--plugin-key", public}, "not signed: a binary alone bears no signature"},
		"a stranger's bundle": {[]string{"install", bundle, "--plugin-key", other}, "not signed by a key configured"},
		"a key that is none":  {[]string{"install", bundle, "--plugin-key", bundle}, "--plugin-key (PERSONAL_PLUGIN_KEY)"},
		"one key and no key":  {[]string{"install", bundle, "--plugin-key", public, "--plugin-key", ""}, "--plugin-key"},
	} {
		code, stdout, stderr := runCommandToTheEnd(t, append([]string{"plugin", "--data", data}, tt.args...)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
	}
	code, stdout, stderr := runCommandToTheEnd(t, "plugin", "install", "--activate", bundle, "--data", data, "--plugin-key", other, "--plugin-key", public)
	if code != 0 || stdout != "1.2.3\n" {
		t.Errorf("install: exit code %d, %q, %q", code, stdout, stderr)
	}
}

func TestThePluginListTellsUseAndSigner(t *testing.T) {
	secret, public := signingKey(t)
	_, other := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{
		{"install", "--activate", signedBundle(t, "1.2.3", secret), "--plugin-key", public},
		{"install", testBinary(t)},
	} {
		if code, _, stderr := runCommandToTheEnd(t, append([]string{"plugin", "--data", data}, args...)...); code != 0 {
			t.Fatalf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	keys, err := plugincatalogue.ReadKeys(public)
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
		"with another key": {[]string{"--plugin-key", other}, [2]string{"  active  not signed by a key configured", "  not signed"}},
	} {
		code, stdout, stderr := runCommandToTheEnd(t, append([]string{"plugin", "list", "--data", data}, tt.keys...)...)
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		if code != 0 || len(lines) != 2 {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
			continue
		}
		for i, version := range []string{"1.2.3", "1.0.0"} {
			const sum = 64
			rest, ok := strings.CutPrefix(lines[i], version+"  ")
			if !ok || len(rest) < sum || rest[sum:] != tt.want[i] {
				t.Errorf("%s: line %q, want %s, its sum and %q", name, lines[i], version, tt.want[i])
			}
		}
	}
}

func TestPruningPrintsWhatItRemoves(t *testing.T) {
	secret, _ := signingKey(t)
	data := filepath.Join(t.TempDir(), "data")
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "1.10.0", "2.0.0"} {
		args := []string{"plugin", "install", signedBundle(t, version, secret), "--data", data}
		if version == "1.0.0" {
			args = append(args, "--activate")
		}
		if code, _, stderr := runCommandToTheEnd(t, args...); code != 0 {
			t.Fatalf("exit code %d, %q", code, stderr)
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
		code, stdout, stderr := runCommandToTheEnd(t, append([]string{"plugin", "prune", "--data", data}, tt.args...)...)
		if code != 0 || stdout != tt.want {
			t.Errorf("%v: exit code %d, %q, %q; want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
	if code, _, stderr := runCommandToTheEnd(t, "plugin", "prune", "--data", data, "--keep=-1"); code != 1 || stderr == "" {
		t.Errorf("to less than nothing: exit code %d, %q", code, stderr)
	}
}

func TestWithKeysAHostStartsNoUnsignedPlugin(t *testing.T) {
	_, public := signingKey(t)
	code, _, stderr := runCommand(t, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--addr", "127.0.0.1:0",
		"--plugin", testBinary(t), "--plugin-key", public)
	if code != 1 || !strings.Contains(stderr, "--plugin (PERSONAL_PLUGIN)") || !strings.Contains(stderr, "signed bundle") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
