package adminpages

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// names are those that have a text in every language, by the text's prefix.
var names = map[string][]string{
	"plugin_state_": {"stopped", "starting", "serving", "baking", "restarting", "draining", "failed"},
	"plugin_step_": {
		"find", "settle", "stage", "start", "configure", "preflight", "migrate", "check", "switch", "workers", "bake", "retire", "drain",
	},
}

// known returns the text of a name, and a name that it does not know as it is.
func (s *site) known(r *http.Request, prefix, name string) string {
	if !slices.Contains(names[prefix], name) {
		return name
	}
	return s.pages.Text(r, prefix+name)
}

// took writes how long a step took; it is empty if the step is under way.
func (s *site) took(r *http.Request, d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Millisecond:
		return s.pages.Text(r, "plugin_ms", "< 1")
	}
	return s.latency(r, float64(d.Milliseconds()))
}

// latency writes milliseconds with as many digits as tell something; 0 stands for
// none.
func (s *site) latency(r *http.Request, ms float64) string {
	switch {
	case ms == 0:
		return "—"
	case ms < 10:
		return s.pages.Text(r, "plugin_ms", s.decimal(r, ms))
	case ms < 1000:
		return s.pages.Text(r, "plugin_ms", strconv.FormatFloat(ms, 'f', 0, 64))
	}
	return s.pages.Text(r, "plugin_s", s.decimal(r, ms/1000))
}

func (s *site) decimal(r *http.Request, n float64) string {
	return strings.Replace(strconv.FormatFloat(n, 'f', 1, 64), ".", s.pages.Text(r, "plugin_point"), 1)
}

// about writes what is left of a time, and not so that it changes all the time.
func (s *site) about(r *http.Request, d time.Duration) string {
	const grain = 5 * time.Second
	left := max(grain, (d + grain - 1).Truncate(grain))
	if left < 2*time.Minute {
		return s.pages.Text(r, "plugin_s", strconv.Itoa(int(left.Seconds())))
	}
	return s.uptime(r, left)
}

// uptime writes a long time in its two largest units.
func (s *site) uptime(r *http.Request, d time.Duration) string {
	minutes := int(d.Minutes())
	switch {
	case minutes < 1:
		return s.pages.Text(r, "plugin_under_minute")
	case minutes < 60:
		return s.pages.Text(r, "plugin_minutes", minutes)
	case minutes < 24*60:
		return s.pages.Text(r, "plugin_hours", minutes/60, minutes%60)
	}
	return s.pages.Text(r, "plugin_days", minutes/60/24, minutes/60%24)
}
