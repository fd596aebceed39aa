// Command personal is the plugin binary: the personal-account module of a
// content management system, as a process of its own. A host starts it and
// speaks to it over go-plugin; run by hand it offers an administrator a few
// commands and never serves.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

func main() {
	if pluginrpc.UnderHandshake() {
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

// serve answers the host that started this process. The log must be made first:
// go-plugin lends standard error another meaning.
func serve() {
	log := pluginrpc.NewLogger(os.Stderr, pluginrpc.LogLevel())
	v, err := ownVersion()
	if err != nil {
		log.Error("the plugin can't tell its version", slog.Any("error", err))
		os.Exit(1)
	}
	pluginrpc.Serve(builder(v, log), pluginrpc.ServeOptions{Logger: log})
}

// commands are what an administrator may run by hand.
type commands struct {
	Version  versionCommand  `cmd:"" help:"Print the version of this binary."`
	Manifest manifestCommand `cmd:"" help:"Print the manifest of this binary, as a catalogue keeps it."`
	Settings settingsCommand `cmd:"" help:"Print every setting with its default and what it means, as a settings file."`
	Migrate  migrateCommand  `cmd:"" help:"Bring a database to the schema this version needs. A host does so by itself at start."`
	Import   importCommand   `cmd:"" help:"Bring accounts in from elsewhere, with their password hashes."`
	Export   exportCommand   `cmd:"" help:"Write all accounts as NDJSON, which import takes back, or one user's data."`
	Audit    auditCommand    `cmd:"" help:"Print what happened to accounts as NDJSON, the oldest first."`
	Status   statusCommand   `cmd:"" help:"Print what is in a database, and what is still to be done."`
}

// errorWriter is standard error, where it is told from standard output.
type errorWriter struct{ io.Writer }

const description = `The personal-account module of a content management system.

This program is a plugin: a host loads it (see "host-sample serve --plugin"), it does not serve by itself.`

// run does one command of an administrator's.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var exit *int
	parser, err := kong.New(&commands{},
		kong.Name("personal"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = &code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(stdout, (*io.Writer)(nil)),
		kong.Bind(errorWriter{stderr}))
	if err != nil {
		return fmt.Errorf("reading the command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit != nil && *exit == 0 {
		return nil // help was asked for and printed
	}
	if err != nil {
		return err
	}
	return command.Run()
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

type manifestCommand struct{}

// Run prints the manifest.
func (manifestCommand) Run(w io.Writer) error {
	m, err := ownManifest()
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(m)
}

type settingsCommand struct{}

// Run prints the documented defaults.
func (settingsCommand) Run(w io.Writer) error {
	_, err := w.Write(defaultSettings)
	return err
}
