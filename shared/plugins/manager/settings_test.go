package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// typo is a key of the settings file that no version knows.
const typo = "session.idel"

// wantUnknown checks the unknown settings of the live process; key is empty for none.
func (r *swapRig) wantUnknown(t *testing.T, key, knownBy string) {
	t.Helper()
	var want []manager.UnknownSetting
	if key != "" {
		want = append(want, manager.UnknownSetting{
			UnknownSetting: rpc.UnknownSetting{Key: key, Meant: "session.idle"}, KnownBy: knownBy,
		})
	}
	if got := r.Status().UnknownSettings; !slices.Equal(got, want) {
		t.Errorf("got unknown settings %+v, want %+v", got, want)
	}
}

func TestSettings_KeyThatNoVersionKnowsRefusesWhatAnAdministratorAsksFor(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	r.folder.write("unknown 1.0.0", typo)
	r.folder.write("unknown 2.0.0", typo)
	for what, err := range map[string]error{
		"swap":             r.Use(limited(t), "2.0.0"),
		"rehearsal":        r.Rehearse(limited(t), "2.0.0"),
		"the same version": r.Use(limited(t), "1.0.0"),
	} {
		wantSwapError(t, err, "preflight")
		if !strings.Contains(fmt.Sprint(err), "settings: unknown key: session.idel (did you mean session.idle?)") {
			t.Errorf("%s: got %v, want that it names the key and what may be meant", what, err)
		}
	}
	r.wantServing(t, "1.0.0")
	r.wantUnknown(t, "", "")
}

func TestSettings_KeyThatNoVersionKnowsIsAnErrorInStarts(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("unknown 1.0.0", typo)
	r.start(t)
	r.wantUnknown(t, typo, "")
	r.restart(t)
	r.wantUnknown(t, typo, "")
	const line = `level=ERROR msg="plugin preflight"`
	if got := strings.Count(r.log.String(), line); got != 2 || !strings.Contains(r.log.String(), "unknown key: "+typo) {
		t.Errorf("got %d errors in the log, want one for each start that names the key", got)
	}
	r.folder.write("unknown 1.0.0", "")
	r.use(t, "1.0.0")
	r.wantUnknown(t, "", "")
}

func TestSettings_KeyOfAnotherVersionIsAWarning(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("unknown 1.0.0", newSetting)
	r.start(t)
	r.wantUnknown(t, newSetting, "2.0.0")
	r.use(t, "1.0.0")
	r.wantUnknown(t, newSetting, "2.0.0")
	const warning = "settings: mail.notices is ignored: version 2.0.0 knows it, this one does not"
	if got := r.detail("preflight"); got != warning {
		t.Errorf("got the detail %q, want %q", got, warning)
	}
	if !strings.Contains(r.log.String(), `level=WARN msg="plugin preflight"`) ||
		strings.Contains(r.log.String(), `level=ERROR msg="plugin preflight"`) {
		t.Error("got no warning in the log, or an error, want a warning")
	}
	r.use(t, "2.0.0")
	r.wantUnknown(t, "", "")
}

func TestSettings_KeyThatNoVersionKnowsRefusesNoReturn(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(*testing.T, *swapRig){
		"rollback": func(t *testing.T, r *swapRig) {
			r.start(t)
			r.use(t, "2.0.0")
			r.rollBack(t)
		},
		"rollback by a swap": func(t *testing.T, r *swapRig) {
			if err := r.catalogue.SaveState(catalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
				t.Fatal(err)
			}
			r.start(t)
			r.rollBack(t)
		},
		"fall-back": func(t *testing.T, r *swapRig) { r.wantFallBack(t, exitsBefore) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, atSecondCrash)
			r.folder.write("unknown 1.0.0", typo)
			back(t, r)
			r.wantServing(t, "1.0.0")
			r.wantUnknown(t, typo, "")
		})
	}
}

// atFirstCrash makes a version fail at its first crash.
func atFirstCrash(c *manager.Config) { c.Limits().CrashLimit = 1 }

func TestTemplates_InvalidOnesRefuseStartAndSwapNotAReturn(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = -1 })
	r.folder.write("mode 1.0.0", failsTemplates)
	r.begin(t)
	var refusal *rpc.PermanentError
	if err := r.WaitReady(limited(t)); !errors.As(err, &refusal) || refusal.Reason != "mail: invalid.txt" {
		t.Errorf("first start: got %v, want a refusal", err)
	}
	r.folder.write("mode 1.0.0", good)
	r.use(t, "1.0.0")
	r.use(t, "2.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	r.folder.write("mode 1.0.0", failsTemplates)
	wantSwapError(t, r.Use(limited(t), "1.0.0"), "preflight")
	r.rollBack(t)
	r.restart(t)
	r.wantServing(t, "1.0.0")

	r = newSwapRig(t, atFirstCrash)
	r.folder.write("mode 1.0.0", failsTemplates)
	r.wantFallBack(t, exitsBefore)
}

// A version that refuses a setting's value, or that the database no longer supports, is no
// help: the version that failed is tried again.
func TestFallBack_RefusedVersionDoesNotReplaceTheOther(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{refusesSettings, failsPreflight} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, func(c *manager.Config) { atFirstCrash(c); c.Limits().FailureRetry = 100 * time.Millisecond })
			r.folder.write("mode 1.0.0", mode)
			r.folder.write("mode 2.0.0", exitsConfiguring)
			if err := r.catalogue.SaveState(catalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
				t.Fatal(err)
			}
			r.begin(t)
			eventually(t, "two fall-backs", func() bool { return r.events.count(manager.EventFellBack, "") == 2 })
			r.wantState(t, catalogue.State{Active: "2.0.0"})
			r.folder.write("mode 2.0.0", good)
			if err := r.WaitReady(limited(t)); err != nil {
				t.Fatal(err)
			}
			r.wantServing(t, "2.0.0")
			if n := r.events.count(manager.EventFellBack, ""); n != 2 {
				t.Errorf("got %d fall-backs, want 2", n)
			}
		})
	}
}
