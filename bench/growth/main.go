// Command growth measures how the speed of the sample host and its plugin depends on
// the number of accounts in the database. README.md of this module explains the output.
//
// Run it in the root of the repository after make build.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cms-personal/personal/bench/harness"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// options are the flags.
type options struct {
	data                   string
	accounts               []int64 // ascending
	databases              []dbconn.Kind
	rounds                 int
	seconds                float64
	callers, signInCallers int
}

func parse() (options, error) {
	var o options
	var accounts, databases string
	flag.StringVar(&o.data, "data", "", "the `folder` that keeps the databases (default personal-growth in the user's cache folder; root: in /var/cache)")
	flag.StringVar(&accounts, "accounts", "1000,100000,1000000", "`numbers` of accounts, with 10 sessions each")
	flag.StringVar(&databases, "databases", "sqlite,postgres", "the database `systems`, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "number of measurements of each figure")
	flag.Float64Var(&o.seconds, "seconds", 2, "duration of one measurement")
	flag.IntVar(&o.callers, "callers", 32, "number of concurrent callers")
	flag.IntVar(&o.signInCallers, "sign-in-callers", 8, "number of concurrent callers of sign-ins")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.seconds <= 0 || o.callers < 1 || o.signInCallers < 1 {
		return o, errors.New("-rounds, -seconds, -callers and -sign-in-callers must be positive, without further arguments: see -h")
	}
	for text := range strings.SplitSeq(accounts, ",") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1000 {
			return o, fmt.Errorf("-accounts: got %q, want a number of at least 1000", text)
		}
		o.accounts = append(o.accounts, n)
	}
	slices.Sort(o.accounts)
	o.accounts = slices.Compact(o.accounts)
	if most := maxCallers(o.accounts[0]); max(o.callers, o.signInCallers) > most {
		return o, fmt.Errorf("-callers and -sign-in-callers: want %d at most with %d accounts", most, o.accounts[0])
	}
	for name := range strings.SplitSeq(databases, ",") {
		kind := dbconn.Kind(name)
		if kind != dbconn.SQLite && kind != dbconn.PostgreSQL {
			return o, fmt.Errorf("-databases: %q is neither sqlite nor postgres", name)
		}
		o.databases = append(o.databases, kind)
	}
	var err error
	if o.data == "" {
		o.data, err = defaultFolder()
	}
	return o, errors.Join(err, checkBuilt())
}

// defaultFolder returns a folder outside the repository, which survives make clean. For
// root it is /var/cache: PostgreSQL runs as another user, which may not enter root's
// home.
func defaultFolder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/personal-growth", nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "personal-growth"), err
}

func checkBuilt() error {
	for _, path := range []string{build.Host, build.Plugin} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("run make build in the root of the repository first: %w", err)
		}
	}
	return nil
}

// build is the build that is measured.
var build = harness.Personal{Host: "bin/host-sample", Plugin: "bin/personal"}

func main() {
	o, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		err = run(ctx, o)
		err = cmp.Or(context.Cause(ctx), err)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// run measures the database systems one after the other.
func run(ctx context.Context, o options) error {
	for _, kind := range o.databases {
		rounds, err := measure(ctx, o, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		print(os.Stdout, o, kind, rounds)
	}
	return nil
}

// measure measures one database system. All sizes run at the same time, and their
// measurements take turns.
func measure(ctx context.Context, o options, kind dbconn.Kind) ([]harness.Round, error) {
	var closers closers
	defer closers.close()
	keeper, err := openKeeper(ctx, o.data, kind)
	if err != nil {
		return nil, err
	}
	closers.add(keeper.close)
	dir, err := os.MkdirTemp("", "personal-growth-")
	if err != nil {
		return nil, err
	}
	closers.add(func() { _ = os.RemoveAll(dir) })
	jobs := harness.Jobs{}
	for _, n := range o.accounts {
		d := harness.Data{Accounts: n, SessionsEach: sessionsEach}
		url, err := keeper.database(ctx, d)
		if err != nil {
			return nil, err
		}
		s := subject{options: o, name: name(n), data: d, url: url, folder: filepath.Join(dir, name(n)), jobs: jobs}
		if err := s.start(ctx, &closers); err != nil {
			return nil, fmt.Errorf("%d accounts: %w", n, err)
		}
	}
	return jobs.Rounds(ctx, o.rounds, figures)
}

// name returns the name of a size in tables.
func name(accounts int64) string { return strconv.FormatInt(accounts, 10) }

// closers are functions to call at the end.
type closers []func()

func (c *closers) add(f func()) { *c = append(*c, f) }

// close calls the functions in reverse order.
func (c *closers) close() {
	for _, f := range slices.Backward(*c) {
		f()
	}
}
