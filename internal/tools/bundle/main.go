// Command bundle builds bundles of the plugin for catalogues, signed if given a
// key, and makes keys. The keys are minisign's; a secret key with a password
// needs it in the environment, as MINISIGN_PASSWORD.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands are what a developer may run.
type commands struct {
	Build  buildCommand  `cmd:"" help:"Build the plugin from source and make a bundle of it."`
	Keygen keygenCommand `cmd:"" help:"Make a key pair: the secret key in FILE, the public one in FILE.pub."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bundle: "+err.Error())
		os.Exit(1)
	}
}

// run does one command and prints what it made to stdout.
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
