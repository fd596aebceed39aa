// Command compare compares the speed of the sample host and its plugin with that
// of PocketBase, or of another commit of this repository, side by side on this
// machine. README.md of this module explains the output.
//
// Run it in the root of the repository; it leaves only bin there. Set
// PERSONAL_TEST_POSTGRES to the URL of a PostgreSQL server; without it the figures of
// PostgreSQL are left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	base       string
	pocketBase bool
	settings   string
	rounds     int
	seconds    float64
	idle       time.Duration
	callers    callers
}

func parse() options {
	var o options
	flag.StringVar(&o.base, "base", "", "the `commit` to compare this tree with")
	flag.BoolVar(&o.pocketBase, "pocketbase", false, "measure PocketBase also with -base")
	flag.StringVar(&o.settings, "settings", "", "a `file` with more plugin settings for this tree; throttling is always off")
	flag.IntVar(&o.rounds, "rounds", 5, "number of measurements of each figure")
	flag.Float64Var(&o.seconds, "seconds", 2, "duration of one measurement")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "idle time of servers before their memory is read")
	flag.IntVar(&o.callers.all, "callers", 32, "number of concurrent callers")
	flag.IntVar(&o.callers.signIn, "sign-in-callers", 8, "number of concurrent callers of sign-ins")
	flag.Parse()
	o.pocketBase = o.pocketBase || o.base == ""
	if flag.NArg() > 0 || o.rounds < 1 || o.seconds <= 0 || o.idle < 0 || o.callers.all < 1 || o.callers.signIn < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if o.callers.all > manyAccounts {
		fmt.Fprintf(os.Stderr, "compare: -callers: want %d at most: each caller has its own users\n", manyAccounts)
		os.Exit(2)
	}
	return o
}

func main() {
	if slices.Equal(os.Args[1:], []string{echoArgument}) {
		serveEcho()
		return
	}
	o := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// run compares. Before it returns it stops and removes everything that it has made.
func run(ctx context.Context, o options) error {
	c, err := prepare(ctx, o)
	defer c.close()
	if err != nil {
		return err
	}
	rounds, err := c.jobs.Rounds(ctx, o.rounds, figures)
	if err != nil {
		return err
	}
	c.print(os.Stdout, append(rounds, c.idle))
	return nil
}
