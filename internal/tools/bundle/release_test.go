package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// foreign is a system on which nothing of this machine runs.
const foreign = "plan9/386"

// releaseTree makes the working directory a work tree with one commit, from which 1.2.0
// can be released, and returns its secret key.
func releaseTree(t *testing.T) (key string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"CHANGELOG.md":       "# Changelog\n\n## 1.2.0 (2026-11-30)\n\n- Faster.\n\n## 1.1.0\n\n- First.\n",
		".ci/systems":        runtime.GOOS + "/" + runtime.GOARCH + "\n" + foreign + "\n",
		".gitignore":         "/dist/\n/plugin/local.go\n",
		"Makefile":           "sbom:\n\t@mkdir -p dist\n\t@echo '{\"linker\": \"$(STRIP)\", \"environment\": \"$(GOFLAGS) $(GOWORK) $(GOAMD64) $(MINISIGN_PASSWORD).\"}' >dist/sbom-personal.json\nnpm:\n\t@echo x >dist/client-1.2.0.tgz\ndeb:\n\t@echo x >dist/personal_1.2.0_amd64.deb\n",
		".ci/toolchain":      "local\n",
		"go.mod":             "module example.com/sample\n\ngo 1.26\n",
		"host-sample/go.mod": "module example.com/sample/host-sample\n\ngo 1.26\n",
		nestedFile:           nestedModule("1.2.0"),
		"plugin/main.go":     sample,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	inTree(t, "git", "init", "--quiet")
	commit(t)
	key = filepath.Join(t.TempDir(), "release.key")
	if _, err := bundleCommand(t, "keygen", key); err != nil {
		t.Fatal(err)
	}
	return key
}

// nestedModule is one that requires a version of the main module.
func nestedModule(version string) string {
	return "module example.com/sample/shared/personaloidc\n\ngo 1.26\n\nrequire example.com/sample v" + version + "\n\nreplace example.com/sample => ../..\n"
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T) {
	t.Helper()
	inTree(t, "git", "add", "--all")
	inTree(t, "git", "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--allow-empty", "--message=x")
}

func inTree(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestRelease_FilesAreSignedAndTheTagIsNamed(t *testing.T) {
	key := releaseTree(t)
	write(t, "plugin/local.go", "this is in no commit")
	t.Setenv("GOWORK", "on this machine")
	t.Setenv("GOFLAGS", "-tags=local")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOTOOLCHAIN", "go1.20")
	machine := filepath.Join(t.TempDir(), "machine.mk")
	write(t, machine, "override STRIP := machine\n")
	t.Setenv("MAKEFILES", machine)
	evil := filepath.Join(t.TempDir(), "evil")
	inTree(t, "git", "worktree", "add", "--quiet", "--detach", evil)
	write(t, filepath.Join(evil, "plugin", "main.go"), "this does not compile")
	inTree(t, "git", "-C", evil, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--all", "--message=evil")
	inTree(t, "git", "replace", "HEAD", inTree(t, "git", "-C", evil, "rev-parse", "HEAD"))
	inTree(t, "git", "worktree", "remove", "--force", evil)
	t.Setenv(passwordKey, "secret")
	out, err := bundleCommand(t, "release", "--version", "1.2.0", "--key", key, "--notes", "Faster.")
	if err != nil {
		t.Fatal(err)
	}
	here := "personal-1.2.0-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	for _, want := range []string{
		"dist/" + here, "dist/personal-1.2.0-plan9-386.tar.gz", "dist/client-1.2.0.tgz", "dist/personal_1.2.0_amd64.deb", "dist/sbom-personal.json", "dist/SHA256SUMS", "dist/SHA256SUMS.minisig",
		`git tag -s -m "personal 1.2.0" v1.2.0 ` + inTree(t, "git", "rev-parse", "HEAD"),
		`git tag -s -m "personal 1.2.0" host-sample/v1.2.0 ` + inTree(t, "git", "rev-parse", "HEAD"),
		"git push origin v1.2.0 shared/personaloidc/v1.2.0 host-sample/v1.2.0",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("the output has no line that ends with %q:\n%s", want, out)
		}
	}

	sums, err := os.ReadFile("dist/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile("dist/SHA256SUMS.minisig")
	if err != nil {
		t.Fatal(err)
	}
	public, err := minisign.PublicKeyFromFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if !minisign.Verify(public, sums, signature) {
		t.Error("the signature of SHA256SUMS is not one of the key")
	}
	if n := strings.Count(string(sums), "\n"); n != 5 {
		t.Errorf("got checksums of %d files, want 5:\n%s", n, sums)
	}
	inTree(t, "sh", "-c", "cd dist && sha256sum --check --strict SHA256SUMS")

	bom, err := os.ReadFile("dist/sbom-personal.json")
	if err != nil || !strings.Contains(string(bom), "main.version=1.2.0") || !strings.Contains(string(bom), `"-trimpath -buildvcs=false off v1 ."`) {
		t.Errorf("got a bill of materials of %s, %v, want one of a program of version 1.2.0 without settings of this machine", bom, err)
	}
	if trees := inTree(t, "git", "worktree", "list"); strings.Contains(trees, "\n") {
		t.Errorf("got the work trees %s, want the one for the release removed", trees)
	}
	keys, err := catalogue.ReadKeys(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalogue.Open(t.TempDir(), catalogue.WithKeys(keys))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Install(t.Context(), "dist/"+here); err != nil || e.Manifest.Notes != "Faster." {
		t.Errorf("install: got %v, %v, want version 1.2.0 with its notes", e, err)
	}
	manifest := inTree(t, "tar", "-xOf", "dist/personal-1.2.0-plan9-386.tar.gz", "manifest.json")
	if !strings.Contains(manifest, `"os": "plan9"`) || !strings.Contains(manifest, `"arch": "386"`) {
		t.Errorf("got the manifest %s, want one for %s", manifest, foreign)
	}
}

func TestRelease_RefusesBeforeItBuilds(t *testing.T) {
	for name, tt := range map[string]struct {
		args   []string // instead of --version 1.2.0 --key KEY, where KEY is the key's path
		change func(t *testing.T)
		want   string
	}{
		"no key":            {args: []string{"--version", "1.2.0"}, want: "KEY"},
		"no SemVer version": {args: []string{"--version", "v1.2.0", "--key", "KEY"}, want: "VERSION"},
		"the last release": {change: func(t *testing.T) {
			write(t, ".ci/released", "1.2.0 0123456789abcdef0123456789abcdef01234567\n")
			commit(t)
		}, want: "not later"},
		"another version": {args: []string{"--version", "1.3.0", "--key", "KEY"}, want: `the first section is "1.2.0 (2026-11-30)", want "1.3.0"`},
		"changes unreleased": {change: func(t *testing.T) {
			write(t, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- x\n\n## 1.2.0\n\n- x\n")
			commit(t)
		}, want: `"Unreleased"`},
		"an empty section": {change: func(t *testing.T) {
			write(t, "CHANGELOG.md", "# Changelog\n\n## 1.2.0\n\n### Fixes\n\n## 1.1.0\n\n- x\n")
			commit(t)
		}, want: "says nothing"},
		"a change that CHANGELOG does not name": {change: func(t *testing.T) {
			write(t, "CHANGELOG.md", "# Changelog\n\n## 1.2.0\n\n- `Leave mail`: says when.\n\n## 1.1.0\n\n- `Profile.name`\n")
			write(t, "plugin/changes.txt", "Leave mail\nProfile.name\n")
			commit(t)
		}, want: "does not name the change `Profile.name`"},
		"a nested module of another version": {change: func(t *testing.T) {
			write(t, nestedFile, nestedModule("1.1.0"))
			commit(t)
		}, want: "requires example.com/sample@v1.1.0, not v1.2.0"},
		"a changed file": {change: func(t *testing.T) { write(t, "plugin/main.go", sample+"\n") }, want: "plugin/main.go"},
		"an old file": {change: func(t *testing.T) {
			if err := os.Mkdir("dist", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, "dist/sbom-old.json", "{}")
		}, want: "the folder dist is not empty"},
		"an experiment": {change: func(t *testing.T) { t.Setenv("GOEXPERIMENT", "jsonv2") }, want: "GOEXPERIMENT is jsonv2"},
		"a filter of this machine": {change: func(t *testing.T) {
			if err := os.MkdirAll(".git/info", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, ".git/info/attributes", "plugin/main.go filter=x\n")
			inTree(t, "git", "config", "filter.x.clean", "sed s/packages/package/")
			inTree(t, "git", "config", "filter.x.smudge", "sed s/package/packages/")
		}, want: "git checks out other files than those of the commit"},
		"an untracked file":  {change: func(t *testing.T) { write(t, "new.go", "package x\n") }, want: "new.go"},
		"an existing tag":    {change: func(t *testing.T) { inTree(t, "git", "tag", "v1.2.0") }, want: "the tag v1.2.0 exists"},
		"a malformed system": {change: func(t *testing.T) { write(t, ".ci/systems", "linux\n"); commit(t) }, want: `"linux" is not GOOS/GOARCH`},
	} {
		t.Run(name, func(t *testing.T) {
			key := releaseTree(t)
			if tt.change != nil {
				tt.change(t)
			}
			args := []string{"release", "--version", "1.2.0", "--key", "KEY"}
			if tt.args != nil {
				args = append([]string{"release"}, tt.args...)
			}
			if last := len(args) - 1; args[last] == "KEY" {
				args[last] = key
			}
			if out, err := bundleCommand(t, args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want an error with %q", out, err, tt.want)
			}
			if files, err := filepath.Glob("dist/personal-*"); err != nil || len(files) > 0 {
				t.Errorf("got %v, %v, want nothing built", files, err)
			}
		})
	}
}
