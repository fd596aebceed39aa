// Command personal is the plugin binary: the personal-account module of a content
// management system, as a separate process. A host starts it and calls it over
// go-plugin. Run by hand, it offers commands for administrators and does not serve.
package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/idle"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func main() {
	if rpc.UnderHandshake() {
		serve()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "personal: "+err.Error())
		os.Exit(1)
	}
}

// releaseAfter is how long after its start a process gives back what only the start needed.
const releaseAfter = 10 * time.Second

// serve serves the host that started this process. The logger must be made first,
// because go-plugin redirects standard error.
func serve() {
	log := rpc.NewLogger(os.Stderr, rpc.LogLevel())
	serveProfiles(log)
	spans, stopTracing := startTracing(log)
	measured := newMeasurements()
	time.AfterFunc(releaseAfter, idle.Release)
	rpc.Serve(builder(measured, log, spans), rpc.ServeOptions{Logger: log, Observe: measured.operation,
		TracerProvider: spans})
	stopTracing()
}

// commands are the commands for administrators.
type commands struct {
	PrintVersion versionFlag `name:"version" short:"V" help:"Print the version of this binary."`

	Version  versionCommand  `cmd:"" help:"Print the version of this binary."`
	Manifest manifestCommand `cmd:"" help:"Print the manifest of this binary for a catalogue."`
	Settings settingsCommand `cmd:"" help:"Print a settings file with the default and the meaning of every setting."`
	Migrate  migrateCommand  `cmd:"" help:"Migrate a database to the schema of this version. A host does this each time it starts the plugin."`
	Import   importCommand   `cmd:"" help:"Import accounts from another system with their password hashes."`
	Export   exportCommand   `cmd:"" help:"Write all accounts as NDJSON, which import accepts, or the data of one user."`
	Audit    auditCommand    `cmd:"" help:"Print the audit log as NDJSON, the oldest entry first."`
	Status   statusCommand   `cmd:"" help:"Print the state of a database and its pending work."`
	User     userCommand     `cmd:"" help:"Create, list and help users on the database."`
	Mail     mailCommand     `cmd:"" help:"Show the mails that the module sends, for templates of the site."`
	Texts    textsCommand    `cmd:"" help:"Show which texts of the module a language lacks."`
	Backup   backupCommand   `cmd:"" help:"Copy a SQLite database to a new file while hosts use it."`

	RevokeAll revokeAllCommand `cmd:"" help:"End the sessions of all users, void all mailed tokens and drop the waiting mails. Run it after a restore."`
}

// errorWriter is standard error; its type distinguishes it from standard output.
type errorWriter struct{ io.Writer }

const description = `The personal-account module of a content management system.

This program is a plugin: a host loads it (see "host-sample serve --plugin"). It does not serve requests on its own.`

// run runs one command for an administrator.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var exit *int
	parser, err := kong.New(&commands{},
		kong.Name("personal"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = &code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.Bind(errorWriter{stderr}), kong.NamedMapper("filecontent", kong.MapperFunc(readContent)))
	if err != nil {
		return fmt.Errorf("reading the command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit != nil && *exit == 0 {
		return nil // it printed help or the version
	}
	if err != nil {
		return err
	}
	return command.Run()
}

// versionFlag prints the version, whatever else is on the command line.
type versionFlag bool

// BeforeReset prints the version and exits.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if err := (versionCommand{}).Run(app.Stdout); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(w io.Writer) error {
	v, err := ownVersion()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, v)
	return err
}

// readContent reads the file of a flag; "-" is the standard input.
func readContent(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	data, err := readFile(path)
	if err != nil {
		return err
	}
	target.SetBytes(data)
	return nil
}

func readFile(path string) ([]byte, error) {
	if path != "-" {
		return durable.ReadText(kong.ExpandPath(path))
	}
	data, err := io.ReadAll(os.Stdin) // to open /dev/stdin again fails for a socket, and for a file of another user
	if err != nil {
		return nil, err
	}
	return durable.Text(data)
}

// version is set at build time by -ldflags "-X main.version=1.2.3".
var version string

// versionBytes is how many bytes of a development build its version depends on, beside the size.
const versionBytes = 64 << 10

// ownVersion returns the version set at build time, or one derived from the binary. Development
// builds that differ have different versions: near the beginning of a binary Go stores a build id, a
// hash of the whole program, so the beginning and the size are enough. Builds without an id
// (-ldflags=-buildid=) need a version.
func ownVersion() (string, error) {
	if version != "" {
		return version, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintln(sum, info.Size())
	if _, err := io.CopyN(sum, f, versionBytes); err != nil {
		return "", fmt.Errorf("reading this program: %w", err)
	}
	return "0.0.0-dev+" + hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// changes is what this version answers in another way than the one before, a line each; CHANGELOG.md names them.
//
//go:embed changes.txt
var changes string

type manifestCommand struct{}

// Run prints the manifest.
func (manifestCommand) Run(w io.Writer) error {
	v, err := ownVersion()
	if err != nil {
		return err
	}
	return writeJSON(w, catalogue.Manifest{
		Name:     catalogue.Name,
		Version:  v,
		Protocol: catalogue.Range{Min: rpc.ProtocolVersion, Max: rpc.ProtocolVersion},
		Schema:   catalogue.Range{Min: store.SchemaMinimum, Max: store.SchemaTarget},
		OS:       runtime.GOOS,
		Arch:     runtime.GOARCH,
		Settings: knownSettings(),
		Changes:  strings.FieldsFunc(changes, func(r rune) bool { return r == '\n' }),
	})
}

type settingsCommand struct{}

// Run prints the settings file with all defaults.
func (settingsCommand) Run(w io.Writer) error {
	_, err := w.Write(defaultSettings)
	return err
}
