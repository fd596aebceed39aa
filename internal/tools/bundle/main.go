// Command bundle builds bundles of the plugin for catalogues, signed if a key is given,
// and generates keys. The keys have minisign's format. The password of a secret key is
// read from the environment variable MINISIGN_PASSWORD.
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

// commands are the subcommands.
type commands struct {
	Build  buildCommand  `cmd:"" help:"Build the plugin from source and bundle it."`
	Keygen keygenCommand `cmd:"" help:"Generate a key pair: the secret key in FILE, the public one in FILE.pub."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bundle: "+err.Error())
		os.Exit(1)
	}
}

// run runs one command, which prints its result to stdout.
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
