package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// What a release is made of, from the folder in which the command runs.
const (
	changelogFile = "CHANGELOG.md"
	systemsFile   = ".ci/systems"   // a line for each supported system: GOOS/GOARCH
	releasedFile  = ".ci/released"  // the version and the commit of the last release
	toolchainFile = ".ci/toolchain" // the version of Go that builds releases, whatever this machine has: .ci/vulnerabilities checks it
	nestedFile    = "shared/personaloidc/go.mod"
)

// releaseCommand runs in the root of the work tree. It builds in its own work tree, which has the
// files of the commit only. The targets sbom, npm and deb of its Makefile write further files to dist.
type releaseCommand struct {
	recipe
}

// Run makes the files of a release: signed bundles for the supported systems, bills of
// materials, the npm package, Debian packages, and their checksums with a signature. It prints their paths and what to tag.
// It builds nothing unless all checks pass.
func (r *releaseCommand) Run(ctx context.Context, stdout io.Writer) error {
	if err := r.validate(); err != nil {
		return err
	}
	key, err := readKey(r.Key)
	if err != nil {
		return err
	}
	if key == nil {
		return errors.New("KEY: a release is signed: give a minisign secret key")
	}
	systems, err := readSystems(systemsFile)
	if err != nil {
		return err
	}
	toolchain, err := os.ReadFile(toolchainFile)
	if err != nil {
		return err
	}
	r.toolchain = strings.TrimSpace(string(toolchain))
	commit, err := r.check(ctx)
	if err != nil {
		return err
	}
	remove, err := r.checkOut(ctx, commit)
	if err != nil {
		return err
	}
	defer remove()
	if err := r.compareWithLast(ctx); err != nil {
		return err
	}
	further, err := r.furtherFiles(ctx)
	if err != nil {
		return err
	}
	files, err := r.bundles(ctx, key, systems...)
	if err != nil {
		return err
	}
	files = append(files, further...)
	sums, err := r.checksums(files)
	if err != nil {
		return err
	}
	signature, err := r.signer(key)(sums)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"SHA256SUMS", sums}, {"SHA256SUMS.minisig", append(signature, '\n')}} {
		path := filepath.Join(r.Out, f.name)
		if err := os.WriteFile(path, f.text, 0o644); err != nil {
			return err
		}
		files = append(files, path)
	}
	tags, commands := "", ""
	for _, module := range r.modules("", "shared/personaloidc", "host-sample") { // Go finds the version of a nested module by a tag with its folder
		tag := path.Join(module, "v"+r.Version)
		tags += " " + tag
		commands += fmt.Sprintf("\tgit tag -s -m \"personal %s\" %s %s\n", r.Version, tag, commit)
	}
	_, err = fmt.Fprintf(stdout, `%s

Tag the commit, and push the tags:
%s	git push origin%s
Publish the files above. Then commit that this is the last release:
	echo %s %s >%s
`, strings.Join(files, "\n"), commands, tags, r.Version, commit, releasedFile)
	return err
}

// check returns the commit that is checked out, if it can be released as this version.
func (r *releaseCommand) check(ctx context.Context) (commit string, err error) {
	last, _, err := lastRelease()
	if err != nil {
		return "", err
	}
	if semver.Compare("v"+r.Version, "v"+last) <= 0 {
		return "", fmt.Errorf("VERSION: %s is not later than the last release, %s (%s)", r.Version, last, releasedFile)
	}
	changelog, err := os.ReadFile(changelogFile)
	if err != nil {
		return "", err
	}
	changes, err := os.ReadFile(filepath.Join(r.Package, "changes.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := checkChangelog(string(changelog), r.Version, string(changes)); err != nil {
		return "", fmt.Errorf("%s: %w", changelogFile, err)
	}
	if err := r.checkNested(nestedFile); err != nil {
		return "", err
	}
	old, err := os.ReadDir(r.Out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(old) > 0 {
		return "", fmt.Errorf("the folder %s is not empty: remove it", r.Out)
	}
	goEnv := r.tool(ctx, nil, "go", "env", "GOEXPERIMENT")
	goEnv.Stdout = nil
	experiment, err := goEnv.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	if name := strings.TrimSpace(string(experiment)); name != "" {
		return "", fmt.Errorf("GOEXPERIMENT is %s: a release is built without experiments of Go", name)
	}
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", fmt.Errorf("the work tree has changes, commit or remove them:\n%s", changed)
	}
	tags, err := git(ctx, "tag", "--list", "v"+r.Version)
	if err != nil {
		return "", err
	}
	if tags != "" {
		return "", fmt.Errorf("VERSION: the tag %s exists", tags)
	}
	return git(ctx, "rev-parse", "HEAD")
}

// checkNested returns an error unless the module of a file, which CMSes can add, requires the main module in this
// version: Go ignores its replace there.
func (r *releaseCommand) checkNested(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	nested, err := modfile.Parse(file, data, nil)
	if err != nil {
		return err
	}
	for _, required := range nested.Require {
		if strings.HasPrefix(nested.Module.Mod.Path, required.Mod.Path+"/") && required.Mod.Version != "v"+r.Version {
			return fmt.Errorf("%s requires %s, not v%s: change it, and run go mod tidy in the modules that use it",
				file, required.Mod, r.Version)
		}
	}
	return nil
}

// lastRelease returns the version and the commit of the last release; none before the first one.
func lastRelease() (version, commit string, err error) {
	text, err := os.ReadFile(releasedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	version, commit, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	return version, commit, err
}

// checkOut checks a commit out into a temporary folder, from which is built.
func (r *releaseCommand) checkOut(ctx context.Context, commit string) (remove func(), err error) {
	temp, err := os.MkdirTemp("", "personal-release-")
	if err != nil {
		return nil, err
	}
	r.source = filepath.Join(temp, "tree")
	remove = func() {
		_, _ = git(context.WithoutCancel(ctx), "worktree", "remove", "--force", r.source)
		_ = os.RemoveAll(temp)
	}
	if _, err := git(ctx, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", r.source, commit); err != nil {
		remove()
		return nil, err
	}
	if err := r.compare(ctx, commit); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// compare returns an error unless the files are those of the commit: filters and line endings of this
// machine may change them as they are checked out. It checks the modules of others, too.
func (r *releaseCommand) compare(ctx context.Context, commit string) error {
	paths, err := git(ctx, "-c", "core.quotePath=off", "ls-tree", "-r", "--full-tree", "--format=%(path)", commit)
	if err != nil {
		return err
	}
	want, err := git(ctx, "ls-tree", "-r", "--full-tree", "--format=%(objectname)", commit)
	if err != nil {
		return err
	}
	hashed := r.tool(ctx, nil, "git", "hash-object", "--no-filters", "--stdin-paths")
	hashed.Stdin, hashed.Stdout = strings.NewReader(paths+"\n"), nil
	got, err := hashed.Output()
	if err != nil {
		return fmt.Errorf("git hash-object: %w", err)
	}
	if strings.TrimSpace(string(got)) != want {
		return errors.New("git checks out other files than those of the commit: remove its filters and core.autocrlf")
	}
	for _, module := range r.modules(".", "shared/personaloidc", "host-sample", "internal/tools/sbom") { // make sbom builds the last two
		if err := r.tool(ctx, nil, "go", "-C", module, "mod", "verify").Run(); err != nil {
			return fmt.Errorf("go mod verify in %s: %w: run go clean -modcache", module, err)
		}
	}
	return nil
}

// modules returns those of the folders that are modules.
func (r *releaseCommand) modules(folders ...string) []string {
	return slices.DeleteFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(r.source, folder, "go.mod"))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// checkChangelog returns an error unless the first section of a changelog is that of the
// version, with content, and names each of the changes that the manifest declares.
func checkChangelog(text, version, changes string) error {
	_, text, _ = strings.Cut("\n"+text, "\n## ")
	title, rest, _ := strings.Cut(text, "\n")
	if name, _, _ := strings.Cut(title, " "); name != version {
		return fmt.Errorf("the first section is %q, want %q", title, version)
	}
	section, _, _ := strings.Cut("\n"+rest, "\n## ")
	for line := range strings.Lines(changes) {
		if line = strings.TrimSpace(line); !strings.Contains(section, "`"+line+"`") {
			return fmt.Errorf("the section %q does not name the change `%s`", title, line)
		}
	}
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return nil
		}
	}
	return fmt.Errorf("the section %q says nothing", title)
}

// readSystems returns the systems that a file lists.
func readSystems(path string) (systems []system, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.FieldsSeq(string(text)) {
		goos, arch, found := strings.Cut(line, "/")
		if !found {
			return nil, fmt.Errorf("%s: %q is not GOOS/GOARCH", path, line)
		}
		systems = append(systems, system{goos, arch})
	}
	if len(systems) == 0 {
		return nil, fmt.Errorf("%s lists no system", path)
	}
	return systems, nil
}

// furtherFiles makes the bills of materials, of programs that are built as the bundles are, the npm
// package, and the Debian packages. It returns their paths.
func (r *releaseCommand) furtherFiles(ctx context.Context) (paths []string, err error) {
	if err := r.tool(ctx, nil, "make", "sbom", "npm", "deb", "STRIP="+r.linkerFlags()).Run(); err != nil {
		return nil, fmt.Errorf("make sbom npm deb: %w", err)
	}
	made, err := filepath.Glob(filepath.Join(r.source, "dist", "*"))
	if err == nil && len(made) == 0 {
		err = errors.New("make sbom npm deb wrote no file to dist")
	}
	if err == nil {
		err = os.MkdirAll(r.Out, 0o755)
	}
	for _, from := range made {
		if err != nil {
			return nil, err
		}
		var text []byte
		to := filepath.Join(r.Out, filepath.Base(from))
		if text, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, text, 0o644)
		}
		paths = append(paths, to)
	}
	return paths, err
}

// checksums returns the sha256 of files in one folder, as sha256sum -c reads them there.
func (r *releaseCommand) checksums(paths []string) ([]byte, error) {
	var sums bytes.Buffer
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := cmp.Or(err, f.Close()); err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), filepath.Base(path))
	}
	return sums.Bytes(), nil
}

// git runs git and returns its output without the line break at the end.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_NO_REPLACE_OBJECTS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
