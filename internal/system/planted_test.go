package system

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// stranger is a user of the machine who is neither root nor the one of the tests.
const stranger = 54321

// plant makes a data folder in which a plugin is installed and active: a script that
// creates the file whose name is returned.
func plant(t *testing.T) (data, ran string) {
	t.Helper()
	data, ran = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "ran")
	versions, err := catalogue.Open(filepath.Join(data, "plugins", catalogue.Name))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	manifest := fmt.Sprintf(`{"name":"personal","version":"6.6.6","protocol":{"min":1,"max":1},"schema":{"min":1,"max":1},"os":%q,"arch":%q}`,
		runtime.GOOS, runtime.GOARCH)
	text := "#!/bin/sh\n[ \"$1\" = manifest ] && exec echo '" + manifest + "'\ntouch '" + ran + "'\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := versions.Install(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	if err := versions.SaveState(catalogue.State{Active: "6.6.6"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(data, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	return data, ran
}

// give gives a folder and all in it to another user.
func give(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, stranger, stranger))
	})
}

func TestDataFolder_PlantedPluginDoesNotRun(t *testing.T) {
	t.Parallel()
	version := filepath.Join("plugins", catalogue.Name, "6.6.6")
	others := func(path string) error { return os.Chmod(path, 0o777) }
	group := func(path string) error { return os.Chmod(path, 0o770) }
	for name, test := range map[string]struct {
		path   string // in the data folder: what is named
		spoil  func(path string) error
		asRoot bool // needs root
	}{
		"all of another user":         {".", give, true},
		"plugins of another user":     {"plugins", give, true},
		"a version of another user":   {version, give, true},
		"run of another user":         {"run", give, true},
		"data of everyone":            {".", others, false},
		"plugins of everyone":         {"plugins", others, false},
		"a catalogue of everyone":     {filepath.Dir(version), others, false},
		"a version of everyone":       {version, others, false},
		"run of everyone":             {"run", others, false},
		"a state of the group":        {filepath.Join(filepath.Dir(version), "state.json"), group, false},
		"a manifest of the group":     {filepath.Join(version, "manifest.json"), group, false},
		"a binary of the group":       {filepath.Join(version, "personal"), group, false},
		"a binary of another user":    {filepath.Join(version, "personal"), give, true},
		"a secret key of other users": {"secret.key", others, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.asRoot && os.Geteuid() != 0 {
				t.Skip("only root can give files to other users")
			}
			data, ran := plant(t)
			path := filepath.Join(data, test.path)
			if test.path == "secret.key" {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.spoil(path); err != nil {
				t.Fatal(err)
			}
			m, err := personalhost.Open(t.Context(), personalhost.Config{Data: data})
			var untrusted *durable.UntrustedError
			if m != nil || !errors.As(err, &untrusted) || untrusted.Path != path {
				t.Errorf("Open: got module %v, error %v, want that %s is not trusted", m, err, path)
			}
			for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"plugin", "list"}} {
				catalogued := strings.HasPrefix(test.path, "plugins") || test.path == "."
				if args[0] == "plugin" && !catalogued {
					continue
				}
				host := exec.CommandContext(t.Context(), testkit.Binaries(t).Host, append(args, "--data", data)...)
				var out bytes.Buffer
				host.Stdout, host.Stderr = &out, &out
				err := host.Run()
				if err == nil || !strings.Contains(out.String(), path+": ") || !strings.Contains(out.String(), "then run ch") {
					t.Errorf("%v: got %v, %s, want that it names %s and a command", args, err, out.String(), path)
				}
			}
			if _, err := os.Lstat(ran); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want that the planted program did not run", err)
			}
		})
	}
}
