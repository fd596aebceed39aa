package pluginmanager

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

func TestFailedStartsAreSpacedOutWithinTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record{config: Config{}.withDefaults()}
		limit := r.config.BackoffMin
		for n := range rapid.IntRange(1, 200).Draw(t, "failures") {
			v := r.failed(errors.New("away"))
			if v.wait <= 0 || v.wait > limit {
				t.Fatalf("failure %d waits for %v, want up to %v", n+1, v.wait, limit)
			}
			if v.final || v.refuse != (n+1 >= patience) {
				t.Fatalf("failure %d: %+v", n+1, v)
			}
			limit = min(2*limit, r.config.BackoffMax)
		}
		r.served()
		if v := r.failed(errors.New("away")); v.wait > r.config.BackoffMin || v.refuse {
			t.Fatalf("after a success: %+v", v)
		}
	})
}

func TestWhatTryingAgainWillNotMendIsFinal(t *testing.T) {
	for _, err := range []error{
		&pluginrpc.PermanentError{Reason: "bad settings"},
		&plugincatalogue.RefusedError{Kind: plugincatalogue.ErrTampered},
	} {
		r := record{config: Config{}.withDefaults()}
		v := r.failed(fmt.Errorf("starting: %w", &StepError{Step: "configure", Err: err}))
		if !v.final || !v.refuse || v.wait != r.config.FailureRetry {
			t.Errorf("%v: %+v", err, v)
		}
	}
}

func TestOnlyCrashesInARowCountAsACrashLoop(t *testing.T) {
	r := record{config: Config{}.withDefaults()}
	died := errors.New("exit status 1")
	young, old := r.config.CrashWindow-1, r.config.CrashWindow
	for _, lived := range []time.Duration{young, young, young, young, old, young, young, young, young} {
		if v, pause := r.died(died, lived); pause {
			t.Fatalf("too early: %+v", v)
		}
	}
	for range 2 { // and the next one after the pause counts on
		v, pause := r.died(died, young)
		if !pause || !v.final || !v.refuse || v.wait != r.config.FailureRetry || !errors.Is(v.fault, died) {
			t.Errorf("got %+v, %v", v, pause)
		}
	}
}

func TestAProcessKilledFromOutsideIsNoCrashOfItsVersion(t *testing.T) {
	r := record{config: Config{}.withDefaults()}
	for range 100 {
		if v, pause := r.died(errKilled, 0); pause {
			t.Fatalf("a pause: %+v", v)
		}
	}
}
