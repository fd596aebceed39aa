// Command dev runs the sample host for development, from the root of the repository:
// whenever a source file changes, it builds plugin and host, and swaps the running host
// to the new plugin, or restarts the host if its own code has changed. If a build fails
// or the swap is refused, what runs goes on. It ends with SIGINT, SIGTERM or SIGHUP
// (a closed terminal).
//
// The host gets its flags from the environment, for example PERSONAL_ADDR. Without
// PERSONAL_BAKE, an old plugin process ends soon after a swap.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	host   = "bin/host-sample"
	plugin = "bin/personal"

	// poll is the time between looks at the source files.
	poll = 300 * time.Millisecond
	// stopTime is how long the host may take to stop: longer than its own limits.
	stopTime = time.Minute
	// builds is the prefix of versions that are not stamped, see ownVersion of the plugin.
	builds = "0.0.0-dev+"
)

// sources are the files and folders that the programs are made of.
var sources = []string{"go.mod", "go.sum", "plugin", "host-sample", "shared/personaloidc", "internal", "shared", "proto"}

func main() {
	ctx, stop := untilSignal()
	defer stop()
	d := &development{out: os.Stdout, errs: os.Stderr}
	d.run(ctx)
}

// untilSignal returns a context that ends with a signal to stop. The host, which has a
// process group of its own, gets no SIGHUP when the terminal is closed.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// development is a host that runs, and what it was made of.
type development struct {
	out, errs io.Writer
	built     string             // build ID of the host that runs
	version   string             // of the plugin that was installed and swapped to last
	stopHost  context.CancelFunc // asks the host to stop
	ended     chan error         // receives how the host ended; nil if none runs
}

// run returns when ctx has ended and the host has stopped.
func (d *development) run(ctx context.Context) {
	for ctx.Err() == nil {
		seen := scan()
		d.update(ctx)
		d.awaitChange(ctx, seen)
	}
	d.stop()
}

// update brings what runs up to date with the source files.
func (d *development) update(ctx context.Context) {
	d.say("building")
	began := time.Now()
	if err := d.build(ctx); err != nil {
		d.failed(ctx, "the build", err)
		return
	}
	d.say("built in %v", time.Since(began).Round(100*time.Millisecond))
	built, err := d.output(ctx, "go", "tool", "buildid", host)
	if err != nil {
		d.failed(ctx, "reading the host's build ID", err)
		return
	}
	version, err := d.output(ctx, host, "plugin", "install", plugin)
	if err != nil {
		d.failed(ctx, "installing the plugin", err)
		return
	}
	switch {
	case built != d.built || d.ended == nil:
		if d.ended != nil {
			d.say("the host has changed, it restarts")
			d.stop()
		}
		if err := d.start(ctx); err != nil {
			d.failed(ctx, "starting the host", err)
			return
		}
		d.built = built
	case version == d.version:
		d.say("the programs have not changed")
		return
	default:
		d.say("swapping to plugin %s", version)
		report, err := d.output(ctx, host, "plugin", "use", version, "--accept-differences")
		if err != nil {
			d.failed(ctx, "the swap", err)
			return
		}
		d.say("%s", report[strings.LastIndex(report, "\n")+1:])
	}
	d.version = version
	d.prune(ctx)
}

// build builds both programs. The plugin is built for a debugger: it has symbols, and
// the project's own code is not optimised. No version control data gets into the
// programs: a commit is no change.
func (d *development) build(ctx context.Context) error {
	if _, err := d.output(ctx, "go", "-C", "host-sample", "build", "-buildvcs=false", "-o", "../"+host, "."); err != nil {
		return err
	}
	_, err := d.output(ctx, "go", "build", "-buildvcs=false", "-gcflags=github.com/cms-personal/personal/...=-N -l", "-o", plugin, "./plugin")
	return err
}

// start starts the host with the plugin that was built.
func (d *development) start(ctx context.Context) error {
	if _, err := d.output(ctx, host, "plugin", "install", "--activate", plugin); err != nil {
		return err
	}
	ctx, d.stopHost = context.WithCancel(context.WithoutCancel(ctx)) // stop ends it
	cmd := exec.CommandContext(ctx, host, "serve")
	cmd.Env = append([]string{"PERSONAL_BAKE=0s", "PERSONAL_DRAIN=5s"}, os.Environ()...) // the last of a name counts
	cmd.Stdout, cmd.Stderr = d.out, d.errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches it through Cancel only: a second signal would kill it
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	if err := cmd.Start(); err != nil {
		d.stopHost()
		return err
	}
	ended := make(chan error, 1)
	d.ended = ended
	go func() { ended <- cmd.Wait() }()
	return nil
}

// stop stops the host, if it runs.
func (d *development) stop() {
	if d.ended == nil {
		return
	}
	d.stopHost()
	<-d.ended
	d.ended = nil
}

// prune removes the builds that earlier ones have replaced. The catalogue keeps the
// active one and the last good one.
func (d *development) prune(ctx context.Context) {
	list, err := d.output(ctx, host, "plugin", "list")
	if err != nil {
		d.failed(ctx, "listing old builds", err)
		return
	}
	for line := range strings.Lines(list) {
		// VERSION SHA256, and STATE if it is in use
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[0], builds) {
			if _, err := d.output(ctx, host, "plugin", "remove", fields[0]); err != nil {
				d.failed(ctx, "removing an old build", err)
			}
		}
	}
}

// awaitChange returns when the source files differ from those seen, and no longer
// change, or when ctx ends.
func (d *development) awaitChange(ctx context.Context, seen map[string]stamp) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	before := seen
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-d.ended:
			d.stopHost()
			d.ended = nil
			if err == nil {
				err = errors.New("exit status 0")
			}
			d.say("the host has ended (%v), it starts again after the next change", err)
		case <-tick.C:
			now := scan()
			if !maps.Equal(now, seen) && maps.Equal(now, before) {
				return
			}
			before = now
		}
	}
}

// stamp changes when a file does.
type stamp struct{ size, modified int64 }

// scan returns the stamps of all source files, except for those of tests, of modules
// nested in sources and of editors.
func scan() map[string]stamp {
	found := map[string]stamp{}
	for _, root := range sources {
		// A file that disappears during the scan shows in the next scan.
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch name := filepath.Base(path); {
			case err != nil:
				return nil
			case entry.IsDir():
				if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root || name == "testdata" {
					return fs.SkipDir
				}
				return nil
			case strings.HasPrefix(name, "."), strings.HasSuffix(name, "~"), strings.HasSuffix(name, "_test.go"):
				return nil
			}
			if info, err := entry.Info(); err == nil {
				found[path] = stamp{info.Size(), info.ModTime().UnixNano()}
			}
			return nil
		})
	}
	return found
}

// output runs a command and returns what it prints. An error contains what the command
// printed to both outputs.
func (d *development) output(ctx context.Context, command ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(command[:min(3, len(command))], " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// failed prints what failed, unless it was interrupted.
func (d *development) failed(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	d.say("%s has failed: %s", what, strings.TrimSpace(err.Error()))
	if d.ended != nil {
		d.say("the old version serves on")
	}
}

func (d *development) say(format string, args ...any) {
	fmt.Fprintf(d.out, "dev: "+format+"\n", args...)
}
