package manager_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// users is the lowest and the highest id of the users of a database: more than a page.
const users = "1 11"

// rehearseRig is a rig whose version 2.0.0 rehearses in a mode, on a database with users.
func rehearseRig(t *testing.T, mode string, change func(*manager.Config)) *swapRig {
	t.Helper()
	r := newSwapRig(t, change)
	r.folder.write("accounts", users)
	r.folder.write("mode 2.0.0", mode)
	r.start(t)
	return r
}

func lenient(c *manager.Config) { c.Rehearse = manager.RehearseWarn }

// wantCheck checks the outcome of a check of the last rehearsal.
func (r *swapRig) wantCheck(t *testing.T, name string, want rpc.RehearsalOutcome) rpc.RehearsalCheck {
	t.Helper()
	rehearsal := r.Status().Rehearsal
	if rehearsal == nil || rehearsal.Version != "2.0.0" || rehearsal.Outcome == "" || rehearsal.Time.IsZero() {
		t.Fatalf("got rehearsal %+v, want one of 2.0.0", rehearsal)
	}
	i := slices.IndexFunc(rehearsal.Checks, func(c rpc.RehearsalCheck) bool { return c.Name == name })
	if i < 0 || rehearsal.Checks[i].Outcome != want {
		t.Fatalf("got checks %+v, want %s %s", rehearsal.Checks, name, want)
	}
	return rehearsal.Checks[i]
}

// wantRehearsed checks the outcomes of all rehearsals.
func (r *swapRig) wantRehearsed(t *testing.T, want ...rpc.RehearsalOutcome) {
	t.Helper()
	metrics := map[string]string{}
	for _, outcome := range []rpc.RehearsalOutcome{
		rpc.RehearsalPassed, rpc.RehearsalSkipped, rpc.RehearsalDiffers, rpc.RehearsalFailed,
	} {
		n := 0
		for _, o := range want {
			if o == outcome {
				n++
			}
		}
		if got := r.events.count(manager.EventRehearsed, string(outcome)); got != n {
			t.Errorf("got %d events of a rehearsal that %s, want %d", got, outcome, n)
		}
		metrics[fmt.Sprintf("personal_plugin_rehearsals_total{outcome=%q}", outcome)] = fmt.Sprint(n)
	}
	r.wantOwn(t, metrics)
}

// wantNoValues checks that nothing that the host shows has a value of an account.
func (r *swapRig) wantNoValues(t *testing.T) {
	t.Helper()
	r.events.mu.Lock()
	shown, err := json.Marshal([]any{r.Status(), r.events.list})
	r.events.mu.Unlock()
	if err != nil || strings.Contains(string(shown)+r.log.String(), secretValue) {
		t.Errorf("got a value of an account (%v) in %s, or in the log", err, shown)
	}
}

func TestRehearse_FailureRefusesTheSwapWithoutFailedCalls(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, good, nil)
	for mode, want := range map[string]string{
		failsRehearsal:    "rehearse: sign_in failed in Authorize.error_code (internal instead of success)",
		differsRehearsing: "rehearse: profile differs in Profile.email (another value)",
		cannotRehearse:    "rehearse: rehearsal failed (the version that serves cannot play the script)",
		exitsAnswering:    "the new process was lost before the switch",
		losesEmail:        "same_answers differs in Explain.user.email, User.email (1, 1 of 34 answers)",
		refusesToAnswer:   "same_answers failed in Explain.error_code, User.error_code, UserSessions.error_code (1, 1, 1 of 34 answers)",
	} {
		t.Run(mode, func(t *testing.T) {
			r.folder.write("mode 2.0.0", mode)
			before := r.Status()
			calls, stop := r.hammer(t, 2)
			eventually(t, "calls", func() bool { return calls.Load() > 0 })
			err := r.Use(limited(t), "2.0.0")
			var refused *manager.SwapError
			if !errors.As(err, &refused) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
			if failed := stop(); failed != 0 {
				t.Errorf("got %d failed calls, want none", failed)
			}
			if s := r.Status(); s.PID != before.PID || s.Swap != nil || s.Rehearsal == nil || s.Rehearsal == before.Rehearsal {
				t.Errorf("got status %+v, want that process %d serves, and the rehearsal", s, before.PID)
			}
			r.wantNoValues(t)
			r.wantOneCopy(t)
		})
	}
}

func TestRehearse_AdministratorAccepts(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, failsRehearsal, nil)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "rehearse")
	r.wantCheck(t, "register", rpc.RehearsalPassed)
	r.wantCheck(t, "sign_in", rpc.RehearsalFailed)
	if err := r.Use(limited(t), "2.0.0", manager.AcceptDifferences); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "2.0.0")
	r.wantCheck(t, "same_answers", rpc.RehearsalPassed)
	if swap := r.Status().Swap; len(swap.Rehearsal) != 3 || swap.Rehearsal[1].Outcome != rpc.RehearsalFailed {
		t.Errorf("got swap %+v, want the rehearsal with three checks", swap)
	}
	if n := r.events.count(manager.EventAccepted, "sign_in failed in Authorize.error_code (internal instead of success)"); n == 0 {
		t.Errorf("got events %v, want one that names what was accepted", r.events.types())
	}
}

func TestRehearse_ScratchIsRemoved(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, cannotRehearse, nil)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "rehearse")
	r.folder.write("mode 2.0.0", good)
	r.use(t, "2.0.0")
	if _, err := os.Stat(filepath.Join(r.run, "scratch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the folder of the rehearsals is gone", err)
	}
}

func TestRehearse_PolicyWarns(t *testing.T) {
	t.Parallel()
	for mode, names := range map[string]string{differsRehearsing: "Profile.email", losesEmail: "User.email"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := rehearseRig(t, mode, lenient)
			r.use(t, "2.0.0")
			if !strings.Contains(r.log.String(), names) {
				t.Errorf("got log %s, want %s in it", r.log, names)
			}
			r.wantNoValues(t)
		})
	}
	r := rehearseRig(t, failsRehearsal, lenient)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "rehearse")
	r.folder.write("mode 2.0.0", refusesToAnswer)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "same_answers")
}

func TestRehearse_NoiseAndNewFieldsAreNoDifference(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{answersByTheClock, knowsNames} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, nil)
			r.folder.write("accounts", users)
			r.folder.write("mode 2.0.0", mode)
			if mode == answersByTheClock {
				r.folder.write("mode 1.0.0", mode)
			}
			r.start(t)
			r.use(t, "2.0.0")
			if got := r.wantCheck(t, "same_answers", rpc.RehearsalPassed); got.Count != 34 {
				t.Errorf("got %+v, want 34 comparisons", got)
			}
		})
	}
}

// losesEmail differs in two answers about one user: the old process is asked again.
func TestSameAnswers_AsksTheOldProcessAgainWhereTheNewOneDiffers(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, losesEmail, lenient)
	r.use(t, "2.0.0")
	var asked []string
	ids := map[string]bool{}
	for _, call := range r.folder.all("asked") {
		if !strings.HasPrefix(call, "1.0.0 FindUsers ") {
			asked = append(asked, call)
		}
	}
	if len(asked) != 6*11+2 {
		t.Fatalf("got %d calls, want %d", len(asked), 6*11+2)
	}
	for len(asked) > 0 {
		question := strings.TrimPrefix(asked[0], "1.0.0 ")
		if asked[1] != "2.0.0 "+question {
			t.Fatalf("got calls %q, want the old process, then the new one", asked[:2])
		}
		if asked = asked[2:]; question == "User 10" || question == "Explain 10" {
			if asked[0] != "1.0.0 "+question {
				t.Fatalf("got call %q, want the old process again", asked[0])
			}
			asked = asked[1:]
		}
		ids[question[strings.LastIndexByte(question, ' '):]] = true
	}
	if len(ids) != 11 {
		t.Errorf("got questions about %d users, want 11", len(ids))
	}
}

func TestRehearse_TimeoutRefuses(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, hangsRehearsing, func(c *manager.Config) { c.Limits().RehearseTimeout = 100 * time.Millisecond })
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "rehearse")
}

func TestRehearse_NothingBlocksTheWayBack(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, good, func(c *manager.Config) { c.MinAge = time.Hour })
	r.backdate(t, "2.0.0")
	r.use(t, "2.0.0")
	r.folder.write("mode 1.0.0", failsRehearsal)
	r.folder.write("mode 2.0.0", failsRehearsal)
	r.rollBack(t) // to the warm process
	r.wantServing(t, "1.0.0")
	r.use(t, "1.0.0") // a restart
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "rehearse")

	r.folder.write("mode 2.0.0", good)
	r.use(t, "2.0.0")
	r.use(t, "1.0.0") // it is active while 2.0.0 bakes, and the last good one afterwards
	r.wantServing(t, "1.0.0")
	r.rollBack(t)
}

func TestRehearse_OffSkipsTheStep(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, failsRehearsal, func(c *manager.Config) { c.Rehearse = manager.RehearseOff })
	wantSwapError(t, r.Rehearse(limited(t), "2.0.0"), "rehearse") // because that was asked for
	r.use(t, "2.0.0")
	r.wantRehearsed(t, rpc.RehearsalFailed)
}

func TestNew_UnknownRehearsePolicyIsRefused(t *testing.T) {
	t.Parallel()
	c := configure(folder(t.TempDir()), sharedCatalogue(t))
	c.Rehearse = "sometimes"
	if _, err := manager.New(c); err == nil || !strings.Contains(err.Error(), "refuse, warn or off") {
		t.Errorf("got %v, want the policies", err)
	}
}

func TestRehearse_LostOldProcessSkipsTheComparison(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("accounts", users)
	r.folder.write("mode 1.0.0", exitsAnswering)
	r.start(t)
	r.use(t, "2.0.0")
	r.wantServing(t, "2.0.0")
	r.wantCheck(t, "register", rpc.RehearsalPassed)
	if got := r.wantCheck(t, "same_answers", rpc.RehearsalSkipped); !strings.Contains(got.Reason, "lost") {
		t.Errorf("got %+v, want that the old process was lost", got)
	}
}

func TestManagerRehearse_SwapsNothing(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, good, nil)
	before := r.Status()
	calls, stop := r.hammer(t, 2)
	eventually(t, "calls", func() bool { return calls.Load() > 0 })
	if err := r.Rehearse(limited(t), "2.0.0"); err != nil {
		t.Fatal(err)
	}
	if failed := stop(); failed != 0 {
		t.Errorf("got %d failed calls, want none", failed)
	}
	r.wantCheck(t, "register", rpc.RehearsalPassed)
	if s := r.Status(); s.PID != before.PID || s.Swap != nil || s.State != manager.StateServing {
		t.Errorf("got status %+v, want %+v", s, before)
	}
	if types := r.events.types(); !slices.Equal(types, []manager.EventType{manager.EventRehearsed}) {
		t.Errorf("got events %v, want that of the rehearsal", types)
	}
	r.wantOneCopy(t)

	err := r.Rehearse(limited(t), "3.0.0")
	wantSwapError(t, err, "find")
	if !strings.HasPrefix(fmt.Sprint(err), "rehearsing plugin 3.0.0: find: ") {
		t.Errorf("got %v, want that it was a rehearsal", err)
	}
	r.wantOwn(t, map[string]string{`personal_plugin_swaps_total{outcome="refused"}`: "0"})
}

func TestManagerRehearse_RollbackEndsIt(t *testing.T) {
	t.Parallel()
	r := rehearseRig(t, good, nil)
	r.use(t, "2.0.0")
	r.folder.write("mode 1.0.0", hangsRehearsing)
	result := make(chan error, 1)
	go func() { result <- r.Rehearse(limited(t), "1.0.0") }()
	eventually(t, "a rehearsal", func() bool { return r.exists("rehearsing 1.0.0") })
	var busy *manager.BusyError
	if err := r.Use(limited(t), "1.0.0"); !errors.As(err, &busy) || !busy.Swap.RehearsalOnly ||
		!strings.Contains(busy.Error(), "a rehearsal of plugin 1.0.0") {
		t.Errorf("got %v, want that the rehearsal is under way", err)
	}
	r.rollBack(t)
	r.wantServing(t, "1.0.0")
	if err := <-result; err == nil || !strings.Contains(err.Error(), "a rollback was requested") {
		t.Errorf("got %v, want why the rehearsal ended", err)
	}
}

func TestRehearse_RollbackEndsASwapThatRehearses(t *testing.T) {
	t.Parallel()
	for mode, note := range map[string]string{hangsRehearsing: "rehearsing 2.0.0", hangsAnswering: "asked"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := rehearseRig(t, mode, nil)
			result := make(chan error, 1)
			go func() { result <- r.Use(limited(t), "2.0.0") }()
			eventually(t, "a rehearsal", func() bool { return r.exists(note) })
			wantSwapError(t, r.Rollback(limited(t)), "find") // there is nothing to return to
			if err := <-result; err == nil || !strings.Contains(err.Error(), "a rollback was requested") {
				t.Errorf("got %v, want why the swap ended", err)
			}
			r.wantServing(t, "1.0.0")
			if s := r.Status(); s.Swap != nil {
				t.Errorf("got the swap %+v, want none", s.Swap)
			}
		})
	}
}

// backdate makes the catalogue have a version for a year.
func (r *swapRig) backdate(t *testing.T, version string) {
	t.Helper()
	entry, err := r.catalogue.Find(version)
	if err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(filepath.Dir(entry.Dir), "seen")
	eventually(t, "the host has noted it", func() bool { _, err := os.Stat(filepath.Join(seen, entry.Manifest.SHA256)); return err == nil })
	old := time.Now().AddDate(-1, 0, 0).UTC().Format(time.RFC3339)
	if err := os.WriteFile(filepath.Join(seen, entry.Manifest.SHA256), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMinAge_YoungVersionIsRefusedUnlessIgnored(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.MinAge = 72 * time.Hour })
	r.start(t)
	for _, use := range []func() error{
		func() error { return r.Use(limited(t), "2.0.0") },
		func() error { return r.Use(limited(t), "2.0.0", manager.AcceptDifferences) },
		func() error { return r.Rehearse(limited(t), "2.0.0") },
	} {
		err := use()
		wantSwapError(t, err, "find")
		var young *manager.AgeError
		if !errors.As(err, &young) || young.MinAge != 72*time.Hour || time.Since(young.Since) > time.Hour {
			t.Errorf("got %v, want the age", err)
		}
	}
	r.use(t, "1.0.0") // a restart
	if err := r.Use(limited(t), "2.0.0", manager.IgnoreMinAge); err != nil {
		t.Fatal(err)
	}
	if text := r.log.String(); !strings.Contains(text, "younger than the minimum age") || !strings.Contains(text, "version=2.0.0") {
		t.Errorf("got log %s, want a warning", text)
	}
	r.wantServing(t, "2.0.0")
}

func TestMinAge_OldVersionAndReturnAreAllowed(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.MinAge = 72 * time.Hour; c.Bake = -1 })
	r.start(t)
	r.backdate(t, "2.0.0")
	r.use(t, "2.0.0")
	r.use(t, "1.0.0") // the last good one
	r.wantServing(t, "1.0.0")
	if err := r.catalogue.SaveState(catalogue.State{Active: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	r.use(t, "2.0.0")
	wantSwapError(t, r.Use(limited(t), "3.0.0"), "find")
}
