package plugin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personaladmin/internal/traffic"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// chartData is what the script of the chart gets.
type chartData struct {
	traffic.Period
	Marks []mark `json:"marks"` // within the seconds of the report, oldest first
}

// mark is a plugin event that may explain what the chart shows.
type mark struct {
	At      float64           `json:"at"` // seconds since 1970
	Kind    manager.EventType `json:"kind"`
	Version string            `json:"version"`
	Text    string            `json:"text"`
}

// sendTraffic sends the completed seconds from ?since=SECOND on, as JSON.
func (p *Pages) sendTraffic(w http.ResponseWriter, r *http.Request) error {
	since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		http.Error(w, "since must be a number of seconds since 1970", http.StatusBadRequest)
		return nil
	}
	events, err := p.EventLog.Recent(recentEvents)
	if err != nil {
		p.site.Log.ErrorContext(r.Context(), "reading the plugin events for the chart", "error", err)
		http.Error(w, "the plugin events cannot be read, see the log", http.StatusInternalServerError)
		return nil
	}
	data := chartData{Period: p.Traffic.Since(since), Marks: []mark{}}
	for _, e := range slices.Backward(events) {
		if at := e.Time.Unix(); at < data.From || at >= data.Until {
			continue
		}
		switch e.Type {
		case manager.EventSwapStarted, manager.EventRehearsed, manager.EventAccepted, manager.EventSwapSettled:
			continue // without an effect on visitors
		}
		data.Marks = append(data.Marks, mark{
			At: float64(e.Time.UnixMilli()) / 1000, Kind: e.Type, Version: e.Version, Text: p.describe(r, e).Text,
		})
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(data) // an error means that the browser has gone
	return nil
}

// totals is the live part below the chart: the same facts as numbers and words.
type totals struct {
	Rows   []totalsRow
	Events []described // newest first
}

type totalsRow struct {
	Operation        string
	Requests, Errors int
	P50, P99         string
}

const (
	recentEvents = 200 // plugin events that are read
	shownEvents  = 8   // plugin events below the chart
)

func (p *Pages) sendTotals(w http.ResponseWriter, r *http.Request) error {
	t, err := p.totals(r)
	if err != nil {
		return err
	}
	return p.site.RenderPart(w, r, "plugin", "plugin_totals", t)
}

func (p *Pages) totals(r *http.Request) (totals, error) {
	events, err := p.EventLog.Recent(shownEvents)
	if err != nil {
		return totals{}, err
	}
	var t totals
	for _, e := range events {
		t.Events = append(t.Events, p.describe(r, e))
	}
	for _, o := range p.Traffic.Totals() {
		name := cmp.Or(o.Operation, p.site.Text(r, "plugin_all_operations"))
		t.Rows = append(t.Rows, totalsRow{
			Operation: name, Requests: o.Requests, Errors: o.Errors, P50: p.latency(r, o.P50), P99: p.latency(r, o.P99),
		})
	}
	return t, nil
}
