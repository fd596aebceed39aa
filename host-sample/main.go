// Command host-sample is a sample content management system: it shows how a CMS
// takes in the personal-account module, using packages below shared/ alone. It
// mounts the API, owns the schema of user fields, delivers mails, records events
// and runs the plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
)

type commands struct {
	Serve  serveCommand  `cmd:"" help:"Run the CMS."`
	Plugin pluginCommand `cmd:"" help:"Look after the plugin's versions: those on disk, and which one the running host uses."`

	AdminLink adminLinkCommand `cmd:"" help:"Print a link that lets a browser into the running host's admin pages: good once, for ten minutes."`
}

// output is where commands write.
type output struct{ stdout, stderr io.Writer }

// log is for commands that have no log level of their own.
func (o output) log() *slog.Logger { return slog.New(slog.NewTextHandler(o.stderr, nil)) }

func main() {
	unix.Umask(0o077)           // the data folder holds secrets: tokens, mails, accounts
	signal.Ignore(unix.SIGPIPE) // who reads the first line of our output may leave then
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	// The first signal asks for an orderly stop; the second has its usual effect.
	defer context.AfterFunc(ctx, stop)()
	os.Exit(run(ctx, os.Args[1:], output{stdout: os.Stdout, stderr: os.Stderr}))
}

// run runs one command and returns the exit code: 0, or 1 with the reason on
// standard error.
func run(ctx context.Context, args []string, out output) int {
	err := parseAndRun(ctx, args, out)
	if err == nil {
		return 0
	}
	fmt.Fprintf(out.stderr, "host-sample: %v\n", err)
	return 1
}

func parseAndRun(ctx context.Context, args []string, out output) error {
	parser, err := newParser(ctx, out)
	if err != nil {
		return fmt.Errorf("building the command line: %w", err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return errors.Join(err, errors.New("see host-sample --help"))
	}
	return parsed.Run()
}

func newParser(ctx context.Context, out output) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("host-sample"),
		kong.Description("A sample CMS with personal accounts. Each flag has an environment variable, named beside it."),
		kong.Writers(out.stdout, out.stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(out),
	)
}
