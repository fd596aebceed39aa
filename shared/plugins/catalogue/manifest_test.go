package catalogue

import (
	"context"
	"errors"
	"os"
	"strings"
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

func TestManifest_ChangesHaveAForm(t *testing.T) {
	for change, valid := range map[string]bool{
		"Profile.name": true, "Authorize.fields[].value": true, "Leave mail": true, "FindUsers statements": true,
		"rows.accounts": true, "mail.recovery.de": true, "command user show": true, "event.user.left": true, // a form of a later version
		"": false, "Profile": false, "Profile.": false, ".name": false, "Profile.name\n": false, " Profile.name": false, "Profile.näme": false,
		"Profile." + strings.Repeat("n", maxChange-8): true, "Profile." + strings.Repeat("n", maxChange-7): false,
	} {
		m := manifestOf("1.0.0")
		m.Changes = []string{change}
		if err := m.Validate(); valid && err != nil {
			t.Errorf("%q: got %v, want it to be valid", change, err)
		} else if !valid {
			wantRefused(t, err, ErrInvalid)
		}
	}
	m := manifestOf("1.0.0")
	for range maxChanges + 1 {
		m.Changes = append(m.Changes, "Profile.name")
	}
	wantRefused(t, m.Validate(), ErrInvalid)
}

func TestChangesBetween_CountsEachVersionAboveTheLowerOne(t *testing.T) {
	c := open(t)
	for _, version := range []string{"1.0.0", "1.1.0+a", "1.1.0+b", "1.2.0", "1.10.0", "0.0.0-dev+a"} {
		m := manifestOf(version)
		m.Changes = []string{"rows." + version}
		if _, err := c.Install(t.Context(), binary(t, m, "")); err != nil {
			t.Fatal(err)
		}
	}
	for versions, want := range map[[2]string]string{
		{"1.0.0", "1.0.0"}:             "rows.1.0.0", // another build of it
		{"1.0.0", "1.2.0"}:             "rows.1.2.0 rows.1.1.0+b rows.1.1.0+a",
		{"1.1.0+b", "1.1.0+a"}:         "rows.1.1.0+b rows.1.1.0+a",
		{"1.1.0+a", "1.10.0"}:          "rows.1.10.0 rows.1.2.0",
		{"0.1.0", "1.0.0"}:             "rows.1.0.0",
		{"1.2.0", "0.0.0-dev+a"}:       "rows.1.10.0 rows.0.0.0-dev+a",
		{"0.0.0-dev+a", "0.0.0-dev+b"}: "rows.0.0.0-dev+a",
	} {
		for _, v := range [][2]string{versions, {versions[1], versions[0]}} {
			got, err := c.ChangesBetween(v[0], v[1])
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("between %s and %s: got %q, %v, want %q", v[0], v[1], got, err, want)
			}
		}
	}
}
