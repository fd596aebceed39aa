package pluginmanager_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

func TestSettings_DependOnTheVersion(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		c.Settings = func(m plugincatalogue.Manifest) ([]byte, error) { return []byte("# of " + m.Version), nil }
	})
	r.start(t)
	if got := r.folder.read("settings"); got != "# of 1.0.0" {
		t.Errorf("start of 1.0.0: got settings %q", got)
	}
	r.use(t, "2.0.0")
	if got := r.folder.read("settings"); got != "# of 2.0.0" {
		t.Errorf("swap to 2.0.0: got settings %q", got)
	}
}

func TestSettings_UnknownOnesAreErrorsInWhatAnAdministratorAskedFor(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("mode 1.0.0", knowsFewerSettings)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	var refusal *pluginrpc.PermanentError
	if err := r.WaitReady(limited(t)); !errors.As(err, &refusal) || refusal.Reason != "unknown key: mail.notices" {
		t.Errorf("first start: got %v, want that it names the unknown key", err)
	}
	r.use(t, "2.0.0")
	wantSwapError(t, r.Use(limited(t), "1.0.0"), "configure")
	r.wantServing(t, "2.0.0")
}

func TestSettings_UnknownOnesAreWarningsInRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	r.folder.write("mode 1.0.0", knowsFewerSettings)
	before := r.Status().PID
	signalProcess(t, before, syscall.SIGKILL)
	r.awaitRestart(t, before)
	if !strings.Contains(r.log.String(), "check=settings reason=\"unknown key: mail.notices\"") {
		t.Error("got no warning in the log, want one that names the unknown key")
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
}

func TestSettings_UnknownOnesAreWarningsInFallBackAndLaterStarts(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, atFirstCrash)
	r.folder.write("mode 1.0.0", knowsFewerSettings)
	r.wantFallBack(t, exitsBefore)
	r.wantStartsAgain(t)
}

// atFirstCrash makes a version fail at its first crash.
func atFirstCrash(c *pluginmanager.Config) { c.Limits().CrashLimit = 1 }

// wantStartsAgain stops the manager, as a host does that restarts, and checks that
// another one serves 1.0.0 with settings that it does not know, until an administrator
// asks for a version again.
func (r *swapRig) wantStartsAgain(t *testing.T) {
	t.Helper()
	wantStopped(t, r.rig)
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", LenientSettings: true})
	next := newRigIn(t, r.folder, r.catalogue, func(c *pluginmanager.Config) { c.Bake = -1 })
	next.start(t)
	if s := next.Status(); s.Version != "1.0.0" {
		t.Errorf("got status %+v, want that 1.0.0 serves", s)
	}
	wantSwapError(t, next.Use(limited(t), "1.0.0"), "configure")
	r.folder.write("mode 2.0.0", good)
	if err := next.Use(limited(t), "2.0.0"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the swap", func() bool { return next.Status().Swap == nil })
	r.wantState(t, plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0"})
}

func TestSettings_UnknownOnesAreWarningsInRollbackBySwap(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = -1 })
	r.start(t)
	r.use(t, "2.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	r.folder.write("mode 1.0.0", knowsFewerSettings)
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
	r.wantStartsAgain(t)
}

// Version 0.1.0 refuses unknown settings always.
func TestSettings_VersionThatRefusesThemRestartsWithThoseItAccepted(t *testing.T) {
	t.Parallel()
	settings := "old"
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		c.Bake = -1
		c.Settings = func(plugincatalogue.Manifest) ([]byte, error) { return []byte(settings), nil }
	})
	r.folder.write("mode 1.0.0", refusesNewSettings)
	r.start(t)
	settings = "new"
	before := r.Status().PID
	signalProcess(t, before, syscall.SIGKILL)
	r.awaitRestart(t, before)
	wantSwapError(t, r.Use(limited(t), "1.0.0"), "configure")

	r.use(t, "2.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	if got := r.folder.read("settings"); got != "new" {
		t.Errorf("2.0.0: got settings %q, want the new ones", got)
	}
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
	if got := r.folder.read("settings"); got != "old" {
		t.Errorf("1.0.0: got settings %q, want those that it accepts", got)
	}
}

func TestSettings_AcceptedOnesOutliveTheHost(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, next *rig){
		"rollback": func(t *testing.T, next *rig) {
			next.start(t)
			if err := next.Rollback(limited(t)); err != nil {
				t.Fatal(err)
			}
		},
		"fall-back": func(t *testing.T, next *rig) {
			next.folder.write("mode 2.0.0", exitsConfiguring)
			next.start(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := "old"
			of := func(c *pluginmanager.Config) {
				atFirstCrash(c)
				c.Bake = -1
				c.Settings = func(plugincatalogue.Manifest) ([]byte, error) { return []byte(settings), nil }
			}
			r := newSwapRig(t, of)
			r.folder.write("mode 1.0.0", refusesNewSettings)
			r.start(t)
			settings = "new"
			r.use(t, "2.0.0")
			eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
			wantStopped(t, r.rig)
			file := filepath.Join(r.run, "settings", "1.0.0")
			before, err := os.Stat(file)
			if err != nil || before.Mode() != 0o600 {
				t.Fatalf("got file %v (%v), want one of mode 0600", before, err)
			}
			next := newRigIn(t, r.folder, r.catalogue, of)
			leave(t, next)
			if s := next.Status(); s.Version != "1.0.0" || r.folder.read("settings") != "old" {
				t.Errorf("got status %+v with settings %q, want that 1.0.0 serves with the old ones", s, r.folder.read("settings"))
			}
			if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
				t.Errorf("got another file (%v), want that the same settings are not written again", err)
			}
		})
	}
}

func TestSettings_AcceptedOnesOfRemovedVersionAreRemoved(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	settings := filepath.Join(r.run, "settings")
	if err := os.MkdirAll(settings, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.5.0", "2.0.0", durable.DraftPrefix + "1"} {
		if err := os.WriteFile(filepath.Join(settings, name), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.start(t)
	eventually(t, "files of installed versions only", func() bool {
		files, err := os.ReadDir(settings)
		return err == nil && len(files) == 2 && files[0].Name() == "1.0.0" && files[1].Name() == "2.0.0"
	})
}

// A host that ends during a bake returns to the old version at its next start: the
// settings may be those of the new one.
func TestSettings_UnknownOnesAreWarningsAfterInterruptedBake(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(r *swapRig){
		"stopped host": func(r *swapRig) {
			r.start(t)
			r.use(t, "2.0.0")
			wantStopped(t, r.rig)
		},
		"killed host": func(r *swapRig) {
			if err := r.catalogue.SaveState(plugincatalogue.State{Active: "1.0.0", Baking: "2.0.0"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, nil)
			interrupt(r)
			r.folder.write("mode 1.0.0", knowsFewerSettings)
			next := newRigIn(t, r.folder, r.catalogue, nil)
			next.start(t)
			r.wantState(t, plugincatalogue.State{Active: "1.0.0", LenientSettings: true})
		})
	}
}

// A version that is too old to ignore unknown settings, or that the database no longer
// supports, is no help: the version that failed is tried again.
func TestFallBack_RefusedVersionDoesNotReplaceTheOther(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{refusesSettings, failsPreflight} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, func(c *pluginmanager.Config) { atFirstCrash(c); c.Limits().FailureRetry = 100 * time.Millisecond })
			r.folder.write("mode 1.0.0", mode)
			r.folder.write("mode 2.0.0", exitsConfiguring)
			if err := r.catalogue.SaveState(plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "two fall-backs", func() bool { return r.events.count(pluginmanager.EventFellBack, "") == 2 })
			r.wantState(t, plugincatalogue.State{Active: "2.0.0", LenientSettings: true})
			r.folder.write("mode 2.0.0", good)
			if err := r.WaitReady(limited(t)); err != nil {
				t.Fatal(err)
			}
			r.wantServing(t, "2.0.0")
			if n := r.events.count(pluginmanager.EventFellBack, ""); n != 2 {
				t.Errorf("got %d fall-backs, want 2", n)
			}
		})
	}
}

func TestAccountURL_IsPassedToEveryProcess(t *testing.T) {
	t.Parallel()
	const url = "https://example.com/account"
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.AccountURL = url })
	want := func(process string) {
		t.Helper()
		if got := r.folder.read("account URL"); got != url {
			t.Errorf("%s has the URL %q, want %q", process, got, url)
		}
		r.folder.write("account URL", "")
	}
	r.start(t)
	want("the first process")
	pid := r.Status().PID
	signalProcess(t, pid, syscall.SIGKILL)
	r.awaitRestart(t, pid)
	want("another process")
	r.use(t, "2.0.0")
	want("another version")
}
