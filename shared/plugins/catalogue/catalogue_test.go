package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func manifestOf(version string) Manifest {
	return Manifest{
		Name: Name, Version: version, Protocol: Range{1, 1}, Schema: Range{0, 1},
		OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
}

// binary writes a program that prints the manifest. Another comment makes another
// build of the same version.
func binary(t *testing.T, m Manifest, comment string) string {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return script(t, fmt.Sprintf("# %s\n[ \"$1\" = manifest ] && echo '%s'", comment, data))
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "built")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T) *Catalogue {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "plugins", Name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func install(t *testing.T, c *Catalogue, version string) Entry {
	t.Helper()
	e, err := c.Install(t.Context(), binary(t, manifestOf(version), ""))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func versions(t *testing.T, c *Catalogue) []string {
	t.Helper()
	entries, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Manifest.Version)
	}
	return list
}

// wantRefused checks that err is a refusal of that kind.
func wantRefused(t testing.TB, err, kind error) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, kind) {
		t.Fatalf("got %v, want a refusal: %v", err, kind)
	}
}

func TestList_HighestFirst(t *testing.T) {
	c := open(t)
	for _, v := range []string{"1.2.0", "1.10.0", "0.0.0-dev+b", "2.0.0-rc.1", "0.0.0-dev+a", "2.0.0"} {
		install(t, c, v)
	}
	want := []string{"2.0.0", "2.0.0-rc.1", "1.10.0", "1.2.0", "0.0.0-dev+b", "0.0.0-dev+a"}
	if diff := cmp.Diff(want, versions(t, c)); diff != "" {
		t.Error(diff)
	}
}

func TestInstall_VersionCanBeFoundAndRemoved(t *testing.T) {
	c := open(t)
	installed := install(t, c, "1.0.0")
	found, err := c.Find("1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(installed, found); diff != "" {
		t.Error(diff)
	}
	if sum, err := sumOf(t.Context(), found.Binary()); err != nil || sum != found.Manifest.SHA256 {
		t.Errorf("got a binary with the sum %s (%v), want %s", sum, err, found.Manifest.SHA256)
	}
	if err := c.Remove("1.0.0"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Find("1.0.0")
	wantRefused(t, err, ErrNotFound)
	wantRefused(t, c.Remove("1.0.0"), ErrNotFound)
	wantEmpty(t, c)
}

// wantEmpty checks that the catalogue's folder has no more than when binaries were seen.
func wantEmpty(t testing.TB, c *Catalogue) {
	t.Helper()
	left, err := os.ReadDir(c.dir)
	left = slices.DeleteFunc(left, func(f os.DirEntry) bool { return f.Name() == seenDir })
	if err != nil || len(left) != 0 {
		t.Errorf("got files %v in the catalogue (%v), want none", left, err)
	}
}

func TestRemove_RefusesVersionsInUse(t *testing.T) {
	c := open(t)
	for _, v := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		install(t, c, v)
	}
	if err := c.SaveState(State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c.Remove("1.0.0"), ErrInUse)
	wantRefused(t, c.Remove("2.0.0"), ErrInUse)
	if err := c.Remove("3.0.0"); err != nil {
		t.Error(err)
	}
}

func TestInstall_RunsNoInstalledBinaryAgain(t *testing.T) {
	c, marker := open(t), filepath.Join(t.TempDir(), "ran")
	built := binary(t, manifestOf("1.0.0"), "\necho >>"+marker)
	for range 2 {
		if e, err := c.Install(t.Context(), built); err != nil || e.Manifest.Version != "1.0.0" {
			t.Fatalf("got %+v, %v", e, err)
		}
	}
	if got := c.Newer(t.Context(), built, "0.9.0"); got != "1.0.0" {
		t.Errorf("got %q, want the newer version", got)
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "\n" {
		t.Errorf("got %q, %v, want that the binary ran once", ran, err)
	}
}

func TestInstall_RefusesOtherContentsOfAVersion(t *testing.T) {
	c := open(t)
	want := install(t, c, "1.0.0")
	_, err := c.Install(t.Context(), binary(t, manifestOf("1.0.0"), "another build"))
	wantRefused(t, err, ErrConflict)
	if got, err := c.Find("1.0.0"); err != nil || got.Manifest.SHA256 != want.Manifest.SHA256 {
		t.Errorf("got %v (%v), want the first build", got, err)
	}
}

func TestInstall_RefusesWhatIsNotThisPlugin(t *testing.T) {
	with := func(change func(*Manifest)) func(*testing.T) string {
		return func(t *testing.T) string {
			m := manifestOf("1.0.0")
			change(&m)
			return binary(t, m, "")
		}
	}
	prints := func(body string) func(*testing.T) string {
		return func(t *testing.T) string { return script(t, body) }
	}
	for name, build := range map[string]func(*testing.T) string{
		"another name":         with(func(m *Manifest) { m.Name = "other" }),
		"another system":       with(func(m *Manifest) { m.OS = "plan9" }),
		"another architecture": with(func(m *Manifest) { m.Arch = "z80" }),
		"no protocol":          with(func(m *Manifest) { m.Protocol = Range{} }),
		"protocols reversed":   with(func(m *Manifest) { m.Protocol = Range{2, 1} }),
		"schemas reversed":     with(func(m *Manifest) { m.Schema = Range{2, 1} }),
		"no version":           with(func(m *Manifest) { m.Version = "" }),
		"a path":               with(func(m *Manifest) { m.Version = "../1.0.0" }),
		"a path in the build":  with(func(m *Manifest) { m.Version = "1.0.0+../x" }),
		"a leading v":          with(func(m *Manifest) { m.Version = "v1.0.0" }),
		"a short version":      with(func(m *Manifest) { m.Version = "1.0" }),
		"prints nothing":       prints(":"),
		"prints garbage":       prints("echo '[1, {'"),
		"prints another type":  prints("echo '[]'"),
		"prints null":          prints("echo null"),
		"prints endlessly":     prints("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done"),
		"fails":                prints("exit 3"),
		"cannot be run":        prints("\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			_, err := c.Install(t.Context(), build(t))
			wantRefused(t, err, ErrInvalid)
			wantEmpty(t, c)
		})
	}
}

func TestInstall_RefusesAllButRegularFiles(t *testing.T) {
	c := open(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(binary(t, manifestOf("1.0.0"), ""), link); err != nil {
		t.Fatal(err)
	}
	_, err := c.Install(t.Context(), link)
	wantRefused(t, err, ErrInvalid)
	_, err = c.Install(t.Context(), t.TempDir())
	wantRefused(t, err, ErrInvalid)
	_, err = c.Install(t.Context(), filepath.Join(t.TempDir(), "nothing"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such file", err)
	}
	wantEmpty(t, c)
}

func TestManifestOf_BinaryGetsNoEnvironment(t *testing.T) {
	t.Setenv("PERSONAL_SECRET", "hunter2")
	data, err := json.Marshal(manifestOf("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	path := script(t, fmt.Sprintf(`[ -z "$PERSONAL_SECRET" ] && [ -z "$(echo *.go)" -o "$(echo *)" = "*" ] && echo '%s'`, data))
	if _, err := open(t).Install(t.Context(), path); err != nil {
		t.Error(err)
	}
}

func TestInstall_EndsWithContext(t *testing.T) {
	c := open(t)
	started := filepath.Join(t.TempDir(), "started")
	path := script(t, fmt.Sprintf("mkfifo %[1]s.wait; : > %[1]s; read line < %[1]s.wait", started))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel()
			}
		}
	}()
	if _, err := c.Install(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	wantEmpty(t, c)
}

func TestFind_ExplainsUnusableFolders(t *testing.T) {
	c := open(t)
	install(t, c, "1.0.0")
	for version, manifest := range map[string]string{
		"2.0.0": `{"name":`,
		"3.0.0": `{"name":"personal","version":"1.0.0","protocol":{"min":1,"max":1},"os":"` + runtime.GOOS + `","arch":"` + runtime.GOARCH + `"}`,
		"4.0.0": string(make([]byte, maxSmall+1)),
	} {
		dir := filepath.Join(c.dir, version)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := c.Find(version)
		wantRefused(t, err, ErrInvalid)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "5.0.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := c.Find("5.0.0")
	wantRefused(t, err, ErrInvalid)
	_, err = c.Find("../" + Name)
	wantRefused(t, err, ErrNotFound)

	if diff := cmp.Diff([]string{"1.0.0"}, versions(t, c)); diff != "" {
		t.Error(diff)
	}
	if err := c.Remove("2.0.0"); err != nil {
		t.Error(err)
	}
}

func FuzzParseManifest_RefusesGarbage(f *testing.F) {
	f.Add([]byte(`{"name":"personal","version":"1.0.0-rc.1+x","protocol":{"min":1,"max":2},"os":"linux","arch":"amd64"}`))
	f.Add([]byte(`{"version":"../../etc"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			wantRefused(t, err, ErrInvalid)
			return
		}
		if filepath.Base(m.Version) != m.Version || m.Version == "." || m.Version == ".." {
			t.Errorf("got version %q, want a plain folder name", m.Version)
		}
	})
}
