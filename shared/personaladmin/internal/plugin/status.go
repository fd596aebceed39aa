package plugin

import (
	"context"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// status is the live part of the page about the running plugin.
type status struct {
	Every     string // polling interval, as htmx writes it
	Summary   string // one sentence for screen readers
	Active    manager.Active
	State     string // in words
	Tone      string // of the state: the class of its badge; may be empty
	Uptime    string // empty while no process serves
	Unhealthy string // why the plugin does not respond; empty: it does
	Previous  *manager.VersionStatus
	Swap      *swapProgress
	Rehearsal *rehearsal // the one under way, or the last one
	Last      *described // the last fact that has a banner
	Busy      bool       // a swap is before its switch, or a rehearsal: another one would be refused
	Rollback  string     // the version that a rollback leads to; empty if there is none
}

// swapProgress is a swap under way.
type swapProgress struct {
	From, To      string
	Steps         []step
	BakeLeft      string // how long the version still bakes; empty if it does not bake
	RehearsalOnly bool   // it is a rehearsal, which a rollback ends
}

// rehearsal is the table of a rehearsal.
type rehearsal struct {
	Version, Outcome, Tone string // the outcome is empty while it is under way
	Time                   time.Time
	Checks                 []check // what has not passed
	Passed                 []check
	Folded                 bool // the whole rehearsal passed: it is shown when it is asked for
}

type check struct {
	Name, Outcome, Tone, Reason string
	Count                       int
	Where                       []string // operation and field of each difference
}

type step struct {
	Name, Took, Detail string
	UnderWay           bool
}

// readyTimeout is how long the plugin may take to respond to the health check.
const readyTimeout = time.Second

// Steps of a swap: before the switch, and after it.
const (
	stepRehearse    = "rehearse"
	stepSameAnswers = "same_answers"
	stepBake        = "bake"
	stepRetire      = "retire"
)

func (p *Pages) sendStatus(w http.ResponseWriter, r *http.Request) error {
	now, _, err := p.status(r)
	if err != nil {
		return err
	}
	return p.site.RenderPart(w, r, "plugin", "plugin_now", now)
}

// status returns the status and the report that it was made from.
func (p *Pages) status(r *http.Request) (now status, report adminapi.Overview, err error) {
	if report, err = p.report(); err != nil { // before the events: a swap that fails in between shows in one of them
		return now, report, err
	}
	last, err := p.lastFact(r)
	if err != nil {
		return now, report, err
	}
	a := report.Active
	now = status{
		Every: "3s", Active: a, State: p.name(r, "plugin_state_", string(a.State)), Tone: tone(a.State),
		Unhealthy: p.unhealthy(r), Previous: report.Previous, Last: last, Rollback: rollbackTarget(report),
		Busy: report.Swap != nil && !switched(report.Swap),
	}
	if !a.Started.IsZero() {
		now.Uptime = p.duration(r, time.Since(a.Started))
	}
	if report.Swap != nil || !a.State.Serves() {
		now.Every = "700ms"
	}
	if report.Swap != nil {
		now.Swap = p.progress(r, report.Swap)
	}
	if report.Rehearsal != nil {
		now.Rehearsal = p.rehearsal(r, report.Rehearsal)
	}
	switch {
	case now.Busy && now.Swap.RehearsalOnly:
		now.Summary = p.site.Text(r, "plugin_rehearsal", now.Swap.To)
	case now.Busy:
		now.Summary = p.site.Text(r, "plugin_said_swap", now.Swap.To)
	case last != nil:
		now.Summary = last.Text
	default:
		now.Summary = p.site.Text(r, "plugin_said_state", a.Version, now.State)
	}
	return now, report, nil
}

func (p *Pages) unhealthy(r *http.Request) string {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := p.Manager.Ready(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func tone(state manager.State) string {
	switch state {
	case manager.StateServing:
		return "good"
	case manager.StateBaking, manager.StateStarting, manager.StateRestarting:
		return "warn"
	case manager.StateFailed:
		return "bad"
	}
	return ""
}

// rollbackTarget returns the version that a rollback leads to; empty if there is
// none.
func rollbackTarget(report adminapi.Overview) string {
	if report.Active.State == manager.StateBaking && report.Previous != nil {
		return report.Previous.Version
	}
	for _, v := range report.Versions {
		if v.LastGood && v.Version != report.Active.Version {
			return v.Version
		}
	}
	return ""
}

// switched reports whether a swap has passed its switch, so that another may start.
func switched(s *manager.SwapStatus) bool { return s.Step == stepBake || s.Step == stepRetire }

func (p *Pages) progress(r *http.Request, swap *manager.SwapStatus) *swapProgress {
	shown := &swapProgress{From: swap.From, To: swap.To, RehearsalOnly: swap.RehearsalOnly}
	for _, s := range swap.Steps {
		shown.Steps = append(shown.Steps, step{
			Name: p.name(r, "plugin_step_", s.Name), Took: p.took(r, s.Took), Detail: s.Detail, UnderWay: s.Took == 0,
		})
		if s.Name == stepBake && s.Took == 0 {
			shown.BakeLeft = p.roughly(r, p.Bake-time.Since(s.Began))
		}
	}
	return shown
}

// rehearsal puts the result of a rehearsal into words.
func (p *Pages) rehearsal(r *http.Request, s *manager.RehearsalStatus) *rehearsal {
	tones := map[string]string{"passed": "good", "differs": "warn", "failed": "bad"}
	shown := &rehearsal{Version: s.Version, Tone: tones[string(s.Outcome)], Time: s.Time, Folded: s.Outcome == rpc.RehearsalPassed}
	if s.Outcome != "" {
		shown.Outcome = p.name(r, "plugin_rehearsed_", string(s.Outcome))
	}
	for _, c := range s.Checks {
		row := check{
			Name: c.Name, Outcome: p.name(r, "plugin_outcome_", string(c.Outcome)), Tone: tones[string(c.Outcome)],
			Reason: c.Reason, Count: c.Count,
		}
		for _, d := range c.Differences {
			row.Where = append(row.Where, d.String())
		}
		if c.Outcome == rpc.RehearsalPassed {
			shown.Passed = append(shown.Passed, row)
		} else {
			shown.Checks = append(shown.Checks, row)
		}
	}
	return shown
}

// successShown is how long the banner of a swap that succeeded is shown.
const successShown = 10 * time.Minute

// lastFact returns the latest fact about the plugin that has a banner: a swap that succeeded recently,
// was refused or rolled back, a lost process. It returns nil if something else has happened since, or
// an administrator has dismissed it.
func (p *Pages) lastFact(r *http.Request) (*described, error) {
	events, err := p.EventLog.Recent(recentEvents)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if at := p.dismissed.Load(); at != 0 && e.Time.UnixNano() <= at {
			return nil, nil
		}
		t := p.describe(r, e)
		switch e.Type {
		case manager.EventSwapSettled: // after the switch
		case manager.EventSwapStarted, manager.EventRestarted:
			return nil, nil
		case manager.EventSwitched:
			if e.From == "" || time.Since(e.Time) > successShown {
				return nil, nil
			}
			t.Tone = "good"
			return &t, nil
		case manager.EventSwapRefused, manager.EventGaveUp, manager.EventProcessLost:
			t.Tone = "bad"
			if e.Step == stepRehearse || e.Step == stepSameAnswers {
				t.Anyway = e.Version
			}
			return &t, nil
		case manager.EventRolledBack, manager.EventFellBack:
			t.Tone = "warn"
			return &t, nil
		}
	}
	return nil, nil
}
