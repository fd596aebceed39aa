package plugincatalogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	askTimeout = 10 * time.Second      // for a binary to print its manifest
	askGrace   = time.Second           // for its output to end after it
	busyPause  = 20 * time.Millisecond // between attempts to start a busy file
	busyTries  = 50
)

// errNotEmpty is what renaming onto a folder with files in it gives; it is not
// among those that count as fs.ErrExist on every system.
var errNotEmpty error = syscall.ENOTEMPTY

// ManifestOf returns the manifest that a binary has of itself, without sum and
// notes. It runs the binary, so only a trusted one may be given. What is no
// plugin for this machine is a [*RefusedError] of kind [ErrInvalid].
func ManifestOf(ctx context.Context, binary string) (Manifest, error) {
	printed, err := askManifest(ctx, binary)
	if err != nil {
		return Manifest{}, err
	}
	return parseManifest(printed)
}

// askManifest runs a binary as "BINARY manifest" with an empty environment in
// an empty folder and returns what it prints. Every way to fail but the end of
// ctx is the binary's fault, and so a refusal.
func askManifest(ctx context.Context, binary string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "personal-manifest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	var printed []byte
	err = RetryBusy(ctx, binary, func() error {
		printed, err = runManifest(ctx, binary, dir)
		return err
	})
	return printed, err
}

// RetryBusy calls start, which starts a binary that was written a moment ago,
// and returns its error. While that is syscall.ETXTBSY it calls start again, for a
// second at most, or until ctx ends: a goroutine that forks while the file is being
// written lends its child a writable descriptor for an instant, see
// https://go.dev/issue/22315.
func RetryBusy(ctx context.Context, binary string, start func() error) error {
	for range busyTries {
		if err := start(); !errors.Is(err, syscall.ETXTBSY) {
			return err
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("starting %s: %w", binary, syscall.ETXTBSY)
}

func runManifest(ctx context.Context, binary, dir string) ([]byte, error) {
	out := &limitedBuffer{}
	cmd := exec.CommandContext(ctx, binary, "manifest")
	cmd.Env = []string{}
	cmd.Dir = dir
	cmd.Stdout = out
	cmd.WaitDelay = askGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	switch {
	case err == nil:
		return out.buf.Bytes(), nil
	case errors.Is(err, syscall.ETXTBSY):
		return nil, err
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case ctx.Err() != nil:
		return nil, refuse(ErrInvalid, "", "it did not print its manifest within "+askTimeout.String())
	}
	return nil, refuse(ErrInvalid, "", "it did not print its manifest: "+err.Error())
}

// limitedBuffer takes 64 KiB and refuses the rest, which ends the writer. The
// buffer is not embedded: its ReadFrom would know no limit.
type limitedBuffer struct{ buf bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > maxSmall {
		return 0, errTooLarge
	}
	return b.buf.Write(p)
}
