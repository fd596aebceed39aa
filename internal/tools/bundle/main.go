// Command bundle builds bundles of the plugin for catalogues, signs them if it is
// given a key, makes releases and creates keys. The keys are minisign keys; the environment variable
// MINISIGN_PASSWORD holds the password of an encrypted secret key.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"aead.dev/minisign"
	"github.com/alecthomas/kong"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// commands are the commands for developers.
type commands struct {
	Build   buildCommand   `cmd:"" help:"Build the plugin from source and make a bundle of it."`
	Release releaseCommand `cmd:"" help:"Make the files of a release from the commit that is checked out, and say what to tag."`
	Compare compareCommand `cmd:"" help:"Rehearse a plugin against one of an older version, and say what it does not declare."`
	Keygen  keygenCommand  `cmd:"" help:"Create a key pair: the secret key in FILE, the public one in FILE.pub."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bundle: "+err.Error())
		os.Exit(1)
	}
}

// run runs one command, which prints the path of its result to stdout.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	parser, err := kong.New(&commands{}, kong.Name("bundle"),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(stdout, (*io.Writer)(nil)))
	if err != nil {
		return fmt.Errorf("reading the command line: %w", err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return err
	}
	return command.Run()
}

// recipe is what bundles are made from.
type recipe struct {
	Version string `required:"" placeholder:"1.2.3" help:"The version, in the form of SemVer 2.0.0 without a leading v."`
	Key     string `placeholder:"FILE" help:"The minisign secret key; without one the bundle is not signed."`
	Notes   string `placeholder:"TEXT" help:"What has changed, for administrators."`
	Out     string `default:"dist" placeholder:"DIR" help:"The directory of the bundle (${default})."`
	Package string `arg:"" default:"./plugin" help:"The plugin's main package (${default})."`

	source    string // the folder with the source; "": the working directory
	toolchain string // the version of Go, such as go1.26.10; "": that of this machine
}

// tool returns a command that builds in the folder with the source. Neither settings of Go on this
// machine nor a workspace change what it builds: a variable that is not
// empty also overrides go env -w. Those that have no value for the default are refused by check.
func (r recipe) tool(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), append([]string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "GOTOOLCHAIN=" + cmp.Or(r.toolchain, "local"),
		"MAKEFLAGS=", "MAKEFILES=", "GNUMAKEFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off"}, env...)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd
}

// validate checks the version, which becomes part of a command line and of a path.
func (r recipe) validate() error {
	if !catalogue.ValidVersion(r.Version) {
		return fmt.Errorf("VERSION: %.100q is not a SemVer 2.0.0 version, such as 1.2.3 or 2.0.0-rc.1", r.Version)
	}
	return nil
}

type buildCommand struct {
	recipe
}

// Run builds a bundle and prints its path.
func (b *buildCommand) Run(ctx context.Context, stdout io.Writer) error {
	if err := b.validate(); err != nil {
		return err
	}
	key, err := readKey(b.Key)
	if err != nil {
		return err
	}
	paths, err := b.bundles(ctx, key, system{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, paths[0])
	return err
}

// system is what a binary is built for.
type system struct{ os, arch string }

// bundles makes bundles for systems, signed with the key unless it is nil, and returns
// their paths in the same order.
func (r recipe) bundles(ctx context.Context, key *minisign.PrivateKey, systems ...system) (paths []string, err error) {
	temp, err := os.MkdirTemp("", "personal-bundle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	// The binary of this machine prints the manifest, also for those that cannot run here.
	here := system{runtime.GOOS, runtime.GOARCH}
	own, err := r.build(ctx, temp, here)
	if err != nil {
		return nil, err
	}
	m, err := catalogue.ManifestOf(ctx, own)
	if err != nil {
		return nil, err
	}
	if m.Version != r.Version {
		return nil, fmt.Errorf("the binary reports version %s: is main.version a string variable without a value?", m.Version)
	}
	m.Notes = r.Notes
	for _, s := range systems {
		binary := own
		if s != here {
			if binary, err = r.build(ctx, temp, s); err != nil {
				return nil, err
			}
		}
		m.OS, m.Arch = s.os, s.arch
		path, err := r.pack(binary, m, key)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// linkerFlags are those of a released program of this version: without symbols; panics
// still show functions and lines.
func (r recipe) linkerFlags() string { return "-s -w -X main.version=" + r.Version }

// build builds the plugin for a system and returns its path below dir. The binary depends
// on the source and the toolchain only: not on paths of this machine, nor on a C library.
func (r recipe) build(ctx context.Context, dir string, s system) (binary string, err error) {
	binary = filepath.Join(dir, s.os+"-"+s.arch)
	cmd := r.tool(ctx, []string{"GOOS=" + s.os, "GOARCH=" + s.arch}, "go", "build", "-ldflags", r.linkerFlags(), "-o", binary, r.Package)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s for %s/%s: %w", r.Package, s.os, s.arch, err)
	}
	return binary, nil
}

// pack makes a bundle of the binary and returns its path. The bundle gets its name
// when it is complete.
func (r recipe) pack(binary string, m catalogue.Manifest, key *minisign.PrivateKey) (string, error) {
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(r.Out, fmt.Sprintf("%s-%s-%s-%s.tar.gz", m.Name, m.Version, m.OS, m.Arch))
	draft, err := os.CreateTemp(r.Out, ".bundle-")
	if err != nil {
		return "", err
	}
	defer os.Remove(draft.Name())
	err = errors.Join(catalogue.WriteBundle(draft, binary, m, r.signer(key)), draft.Chmod(0o644), draft.Sync(), draft.Close())
	if err != nil {
		return "", err
	}
	return path, os.Rename(draft.Name(), path)
}

// signer returns a function that signs files of this version, or nil without a key. The
// signed comment holds the version and no time, so that the same source gives the same
// files.
func (r recipe) signer(key *minisign.PrivateKey) func([]byte) ([]byte, error) {
	if key == nil {
		return nil
	}
	return func(file []byte) ([]byte, error) {
		return minisign.SignWithComments(*key, file, "personal "+r.Version,
			fmt.Sprintf("signature from minisign secret key %016X", key.ID())), nil
	}
}

// passwordKey is the environment variable with the secret key's password.
const passwordKey = "MINISIGN_PASSWORD"

// readKey returns the secret key in a file, or nil if file is empty. It removes the password from the
// environment, so that no program that is run afterwards gets it.
func readKey(file string) (*minisign.PrivateKey, error) {
	password, given := os.LookupEnv(passwordKey)
	if err := os.Unsetenv(passwordKey); err != nil {
		return nil, err
	}
	if file == "" {
		return nil, nil
	}
	key, err := readSecretKey(file, password, given)
	if err != nil {
		return nil, fmt.Errorf("KEY: reading the secret key %s: %w", file, err)
	}
	return &key, nil
}

func readSecretKey(file, password string, given bool) (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return key, err
	}
	if !minisign.IsEncrypted(text) {
		return key, key.UnmarshalText(text)
	}
	if !given {
		return key, errors.New("it is encrypted: set its password in " + passwordKey)
	}
	return minisign.DecryptKey(password, text)
}

type keygenCommand struct {
	File string `arg:"" help:"The file of the secret key. If MINISIGN_PASSWORD is set, the key is encrypted with it."`
}

// Run creates a key pair and prints the paths of the keys. It never overwrites a file.
func (k *keygenCommand) Run(stdout io.Writer) error {
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("creating a key: %w", err)
	}
	encode := secret.MarshalText
	if password := os.Getenv(passwordKey); password != "" {
		encode = func() ([]byte, error) { return minisign.EncryptKey(password, secret) }
	}
	secretText, err := encode()
	if err != nil {
		return fmt.Errorf("creating a key: %w", err)
	}
	publicText, err := public.MarshalText()
	if err != nil {
		return fmt.Errorf("creating a key: %w", err)
	}
	if err := create(k.File, 0o600, secretText); err != nil {
		return err
	}
	if err := create(k.File+".pub", 0o644, publicText); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "secret key: %s\npublic key: %s.pub\n", k.File, k.File)
	return err
}

// create writes a file that must not exist yet.
func create(path string, mode os.FileMode, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}
