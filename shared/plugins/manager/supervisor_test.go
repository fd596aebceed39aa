package manager

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTransitions_AreThoseOfTheDiagram(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, _ := strings.Cut(string(page), "```mermaid\nstateDiagram-v2\n")
	diagram, _, found := strings.Cut(diagram, "```")
	if !found {
		t.Fatal("docs/architecture.md has no state diagram")
	}
	arrow := regexp.MustCompile(`^ *([a-z]+) --> ([a-z]+): ([a-z ]+)$`)
	var drawn, declared []string
	for line := range strings.Lines(diagram) {
		line = strings.TrimSuffix(line, "\n")
		if parts := arrow.FindStringSubmatch(line); parts != nil {
			drawn = append(drawn, strings.Join(parts[1:], ", "))
		} else if strings.TrimSpace(line) != "[*] --> stopped" {
			t.Errorf("got the line %q, want STATE --> STATE: trigger", line)
		}
	}
	for from, triggers := range transitions {
		for trigger, to := range triggers {
			declared = append(declared, strings.Join([]string{string(from), string(to), string(trigger)}, ", "))
		}
	}
	slices.Sort(drawn)
	slices.Sort(declared)
	if diff := cmp.Diff(declared, drawn); diff != "" {
		t.Errorf("diagram (+) differs from the table (-):\n%s", diff)
	}
}

func TestTransition_RefusesWhatIsNotDeclared(t *testing.T) {
	for from := range transitions {
		for _, trigger := range []trigger{
			triggerStart, triggerReady, triggerStartFailed, triggerGiveUp, triggerSwitch,
			triggerComplete, triggerRollBack, triggerLose, triggerStop, triggerEnd,
		} {
			var log bytes.Buffer
			m := &Manager{state: from, changed: make(chan struct{}), config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
			want, declared := transitions[from][trigger]
			if !declared {
				want = from
			}
			if ok := m.transition(trigger); ok != declared || m.state != want {
				t.Errorf("%s in state %s: got %v and state %s, want %v and %s", trigger, from, ok, m.state, declared, want)
			}
			if logged := log.Len() > 0; logged != (!declared && from != StateDraining) { // Stop may come at any time
				t.Errorf("%s in state %s: got log %q", trigger, from, log.String())
			}
		}
	}
}

func TestKillUnlessLive_SparesProcessThatGotItsCallsBack(t *testing.T) {
	live := &instance{} // without a process: a kill would panic
	m := &Manager{live: live, state: StateServing}
	if m.killUnlessLive(t.Context(), live) || live.hung.Load() {
		t.Error("got the live process killed, want it spared")
	}
}
