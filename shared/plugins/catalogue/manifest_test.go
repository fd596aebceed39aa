package catalogue

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestRetryBusy_RetriesWhileTheFileIsBusy(t *testing.T) {
	busy := &os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ETXTBSY}
	failed := errors.New("failed")
	for name, results := range map[string][]error{
		"started at once":  {nil},
		"started later":    {busy, busy, nil},
		"failed later":     {busy, failed},
		"failed otherwise": {failed},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := RetryBusy(t.Context(), "/x", func() error {
				tries++
				return results[tries-1]
			})
			if tries != len(results) || err != results[len(results)-1] {
				t.Errorf("got %v after %d tries, want %v after %d", err, tries, results[len(results)-1], len(results))
			}
		})
	}
}

func TestRetryBusy_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := RetryBusy(ctx, "/x", func() error {
		tries++
		cancel()
		return syscall.ETXTBSY
	})
	if tries != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after %d tries, want a cancelled context after 1", err, tries)
	}
}

func TestRetryBusy_FailsForAFileThatStaysBusy(t *testing.T) {
	err := RetryBusy(t.Context(), "/x", func() error { return syscall.ETXTBSY })
	if !errors.Is(err, syscall.ETXTBSY) {
		t.Errorf("got %v, want ETXTBSY", err)
	}
}
