package plugin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// names lists the states and steps that have a text, by the prefix of its key.
var names = map[string][]string{
	"plugin_state_": {"stopped", "starting", "serving", "baking", "restarting", "draining", "failed"},
	"plugin_step_": {
		"find", "rehearse", "stage", "start", "configure", "preflight", "migrate", "check", "same_answers", "settle", "switch", "workers", "bake", "retire", "drain",
	},
	"plugin_outcome_":   {"passed", "skipped", "differs", "failed"}, // of a check
	"plugin_rehearsed_": {"passed", "skipped", "differs", "failed"}, // of a whole rehearsal
}

// name returns the text of a state, a step or an outcome, or the name itself if it has none.
func (p *Pages) name(r *http.Request, prefix, name string) string {
	if !slices.Contains(names[prefix], name) {
		return name
	}
	return p.site.Text(r, prefix+name)
}

// described is a plugin event in words.
type described struct {
	Time         time.Time
	Text, Reason string
	Tone         string // class of its notice, where it is one
	Anyway       string // the version whose rehearsal refused a swap; may be empty
}

// describe puts a plugin event into words.
func (p *Pages) describe(r *http.Request, e manager.Event) described {
	d, key := described{Time: e.Time, Reason: e.Reason}, "plugin_was_"+string(e.Type)
	if e.Type == manager.EventRehearsed {
		d.Reason = p.name(r, "plugin_rehearsed_", e.Reason)
	}
	switch e.Type {
	case manager.EventSwapRefused:
		d.Text = p.site.Text(r, key, e.Version, p.name(r, "plugin_step_", e.Step))
	case manager.EventSwitched, manager.EventRolledBack, manager.EventFellBack:
		d.Text = p.site.Text(r, key, e.From, e.Version)
	case manager.EventSwapStarted, manager.EventSwapSettled, manager.EventProcessLost, manager.EventRestarted,
		manager.EventGaveUp, manager.EventRehearsed, manager.EventAccepted:
		d.Text = p.site.Text(r, key, e.Version)
	default:
		d.Text = string(e.Type) + " " + e.Version
	}
	return d
}

// took writes how long a step took; empty while it is under way.
func (p *Pages) took(r *http.Request, d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return p.site.Text(r, "plugin_ms", "< 1")
	}
	return p.latency(r, float64(d.Milliseconds()))
}

// latency writes milliseconds with two to three digits; a dash for 0, which stands
// for no request.
func (p *Pages) latency(r *http.Request, ms float64) string {
	unit, digits := "plugin_ms", 1
	switch {
	case ms == 0:
		return "—"
	case ms >= 1000:
		unit, ms = "plugin_s", ms/1000
	case ms >= 10:
		digits = 0
	}
	number := strconv.FormatFloat(ms, 'f', digits, 64)
	return p.site.Text(r, unit, strings.Replace(number, ".", p.site.Text(r, "plugin_point"), 1))
}

// roughly writes a remaining time in steps of 5 s, so that the live part does not
// change with every poll.
func (p *Pages) roughly(r *http.Request, d time.Duration) string {
	const grain = 5 * time.Second
	left := max(grain, (d + grain - 1).Truncate(grain))
	if left < 2*time.Minute {
		return p.site.Text(r, "plugin_s", strconv.Itoa(int(left.Seconds())))
	}
	return p.duration(r, left)
}

// duration writes a long time in its two largest units.
func (p *Pages) duration(r *http.Request, d time.Duration) string {
	minutes := int(d.Minutes())
	switch {
	case minutes < 1:
		return p.site.Text(r, "plugin_under_minute")
	case minutes < 60:
		return p.site.Text(r, "plugin_minutes", minutes)
	case minutes < 24*60:
		return p.site.Text(r, "plugin_hours", minutes/60, minutes%60)
	}
	return p.site.Text(r, "plugin_days", minutes/60/24, minutes/60%24)
}
