package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

type buildCommand struct {
	Version string `required:"" placeholder:"1.2.3" help:"The version to stamp, as SemVer 2.0.0 writes it, without a leading v."`
	Key     string `placeholder:"FILE" help:"The minisign secret key to sign with; without one the bundle is not signed."`
	Notes   string `placeholder:"TEXT" help:"What changed, for administrators."`
	Out     string `default:"dist" placeholder:"DIR" help:"Where to put the bundle (${default})."`
	Package string `arg:"" default:"./plugin" help:"The plugin's main package (${default})."`
}

// Run prints the path of the bundle.
func (b *buildCommand) Run(ctx context.Context, stdout io.Writer) error {
	// Checked before it becomes a part of a command line and of a path.
	if !plugincatalogue.ValidVersion(b.Version) {
		return fmt.Errorf("VERSION: %.100q is no version as SemVer 2.0.0 writes it, such as 1.2.3 or 2.0.0-rc.1", b.Version)
	}
	sign, err := signer(b.Key, b.Version)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "personal-bundle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	binary := filepath.Join(temp, plugincatalogue.Name)
	if err := compile(ctx, b.Package, b.Version, binary); err != nil {
		return err
	}
	path, err := b.pack(ctx, binary, sign)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, path)
	return err
}

// compile builds a binary that depends on the source and the toolchain alone:
// no path of this machine, no C library.
func compile(ctx context.Context, pkg, version, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-X main.version="+version, "-o", binary, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", pkg, err)
	}
	return nil
}

// pack makes a bundle of the binary and returns its path. The bundle bears its
// name only when it is whole.
func (b *buildCommand) pack(ctx context.Context, binary string, sign func([]byte) ([]byte, error)) (string, error) {
	m, err := plugincatalogue.ManifestOf(ctx, binary)
	if err != nil {
		return "", err
	}
	if m.Version != b.Version {
		return "", fmt.Errorf("the binary calls itself %s: is main.version a string variable without a value?", m.Version)
	}
	m.Notes = b.Notes
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(b.Out, fmt.Sprintf("%s-%s-%s-%s.tar.gz", m.Name, m.Version, m.OS, m.Arch))
	draft, err := os.CreateTemp(b.Out, ".bundle-")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name())
	err = errors.Join(plugincatalogue.WriteBundle(draft, binary, m, sign), draft.Chmod(0o644), draft.Sync(), draft.Close())
	if err != nil {
		return "", err
	}
	return path, os.Rename(draft.Name(), path)
}
