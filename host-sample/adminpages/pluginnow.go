package adminpages

import (
	"context"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// pluginNow is what runs, the swap under way, and how the last one ended.
type pluginNow struct {
	Every    string // how often to look again, as htmx writes it
	Said     string // the gist, for those who listen
	Active   pluginadmin.Active
	State    string // in words
	Tone     string // of the state: good, warn, bad or empty
	Uptime   string // empty if nothing serves
	Unwell   string // why it would not answer; empty: it would
	Previous *pluginmanager.VersionStatus
	Swap     *pluginSwap
	Last     *lastSwap // what became of the last swap, if that is of note
	Busy     bool      // a swap has not switched yet: another would be refused
	Back     string    // the version to go back to; empty if there is none
}

// pluginSwap is a swap under way.
type pluginSwap struct {
	From, To string
	Steps    []pluginStep
	BakeLeft string // how long the new version is still on trial; empty if it is not
}

type pluginStep struct {
	Name, Took, Detail string
	UnderWay           bool
}

// readyTime is how long the plugin may take to say that it is well.
const readyTime = time.Second

// How often the page looks: at a swap, and at nothing in particular.
const (
	closely = "700ms"
	calmly  = "3s"
)

func (s *site) partPluginNow(w http.ResponseWriter, r *http.Request) {
	if _, now, ok := s.lookAtPlugin(w, r); ok {
		answerPart(s, w, r, "plugin", "plugin_now", now)
	}
}

// lookAtPlugin returns how the plugin is, or answers why that cannot be told and
// returns false.
func (s *site) lookAtPlugin(w http.ResponseWriter, r *http.Request) (pluginadmin.Report, pluginNow, bool) {
	report, err := s.pluginReport()
	if err != nil {
		s.fail(w, r, "the plugin", err)
		return report, pluginNow{}, false
	}
	now, err := s.pluginNow(r, report)
	if err != nil {
		s.fail(w, r, "the plugin", err)
	}
	return report, now, err == nil
}

func (s *site) pluginNow(r *http.Request, report pluginadmin.Report) (pluginNow, error) {
	last, err := s.lastSwap(r)
	if err != nil {
		return pluginNow{}, err
	}
	a := report.Active
	now := pluginNow{
		Every: calmly, Active: a, State: s.known(r, "plugin_state_", string(a.State)), Tone: toneOf(a.State),
		Unwell: s.unwell(r), Previous: report.Previous, Last: last, Back: wayBack(report),
	}
	if !a.Started.IsZero() {
		now.Uptime = s.uptime(r, time.Since(a.Started))
	}
	if report.Swap != nil || !a.State.Serves() {
		now.Every = closely
	}
	if report.Swap != nil {
		now.Swap = s.pluginSwap(r, report.Swap)
		now.Busy = !hasSwitched(report.Swap)
	}
	now.Said = s.gist(r, now)
	return now, nil
}

// gist is one sentence on how things are.
func (s *site) gist(r *http.Request, now pluginNow) string {
	switch {
	case now.Busy:
		return s.pages.Text(r, "plugin_said_swap", now.Swap.To)
	case now.Last != nil:
		return now.Last.Text
	}
	return s.pages.Text(r, "plugin_said_state", now.Active.Version, now.State)
}

// unwell asks the plugin whether it would answer.
func (s *site) unwell(r *http.Request) string {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	if err := s.Plugin.Manager.Ready(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func toneOf(state pluginmanager.State) string {
	switch state {
	case pluginmanager.StateServing:
		return "good"
	case pluginmanager.StateBaking, pluginmanager.StateStarting, pluginmanager.StateRestarting:
		return "warn"
	case pluginmanager.StateFailed:
		return "bad"
	}
	return ""
}

// wayBack returns the version that a rollback would lead to.
func wayBack(report pluginadmin.Report) string {
	if report.Active.State == pluginmanager.StateBaking && report.Previous != nil {
		return report.Previous.Version
	}
	for _, v := range report.Versions {
		if v.LastGood && v.Version != report.Active.Version {
			return v.Version
		}
	}
	return ""
}

// The steps behind the switch.
const (
	stepBake   = "bake"
	stepRetire = "retire"
)

// hasSwitched reports whether another swap may begin.
func hasSwitched(s *pluginmanager.SwapStatus) bool { return s.Step == stepBake || s.Step == stepRetire }

func (s *site) pluginSwap(r *http.Request, swap *pluginmanager.SwapStatus) *pluginSwap {
	shown := &pluginSwap{From: swap.From, To: swap.To}
	for _, step := range swap.Steps {
		shown.Steps = append(shown.Steps, pluginStep{
			Name: s.known(r, "plugin_step_", step.Name), Took: s.took(r, step.Took), Detail: step.Detail, UnderWay: step.Took == 0,
		})
		if step.Name == stepBake && step.Took == 0 {
			shown.BakeLeft = s.about(r, s.Plugin.Bake-time.Since(step.Began))
		}
	}
	return shown
}
