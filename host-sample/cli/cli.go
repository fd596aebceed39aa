// Package cli is the command line of host-sample, and the CMS that its serve
// command runs: it mounts the API and the pages, owns the schema of user fields,
// delivers mails, logs account events and manages the plugin.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

type commands struct {
	Version versionFlag `short:"V" help:"Print the version of this program."`

	Serve  serveCommand  `cmd:"" help:"Run the CMS."`
	Plugin pluginCommand `cmd:"" help:"Manage the plugin versions: those on disk, and the one that the running host uses."`

	Healthcheck healthcheckCommand `cmd:"" help:"Ask the running host whether it is ready: exit code 0 if its plugin serves, else 1."`

	AdminLink adminLinkCommand `cmd:"" help:"Print a link that opens the admin pages of the running host in a browser. The link is single use and valid for ten minutes."`
}

// output is where commands write.
type output struct{ stdout, stderr io.Writer }

// log returns a logger for commands that have no log level of their own.
func (o output) log() *slog.Logger { return slog.New(slog.NewTextHandler(o.stderr, nil)) }

// Run runs one command until it is done or ctx ends. It returns the exit code: 0,
// or 1 with the reason on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := parseAndRun(ctx, args, output{stdout: stdout, stderr: stderr}); err != nil {
		fmt.Fprintf(stderr, "host-sample: %v\n", err)
		return 1
	}
	return 0
}

func parseAndRun(ctx context.Context, args []string, out output) error {
	exited := false
	parser, err := newParser(ctx, out, kong.Exit(func(code int) { exited = exited || code == 0 }))
	if err != nil {
		return fmt.Errorf("building the command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited {
		return nil // it printed help or the version
	}
	if err != nil {
		return errors.Join(err, errors.New("see host-sample --help"))
	}
	return parsed.Run()
}

func newParser(ctx context.Context, out output, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(&commands{}, append(options,
		kong.Name("host-sample"),
		kong.Description("A sample CMS with personal accounts. The environment variable of each flag is shown beside it."),
		kong.Writers(out.stdout, out.stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(out),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
	)...)
}

// versionFlag prints the version of the module that the program was built from.
type versionFlag bool

// BeforeReset prints the version and exits.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(strings.TrimPrefix(info.Main.Version, "v"), version)
	}
	fmt.Fprintln(app.Stdout, version)
	app.Exit(0)
	return nil
}

// readDuration reads the value of a flag, or of its environment variable, that is a duration.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like 90s, 15m or 24h", text)
	}
	target.SetInt(int64(d))
	return nil
}

// flagError is an invalid flag. It never shows the value of a URL, which may hold
// a password.
type flagError struct {
	flag string
	err  error
}

// Error names the flag and its environment variable, on one line.
func (e *flagError) Error() string {
	variable := "PERSONAL_" + strings.ToUpper(strings.ReplaceAll(e.flag, "-", "_"))
	return fmt.Sprintf("--%s (%s): %s", e.flag, variable, strings.ReplaceAll(e.err.Error(), "\n", ": "))
}

func (e *flagError) Unwrap() error { return e.err }
