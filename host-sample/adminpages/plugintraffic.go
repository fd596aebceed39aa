package adminpages

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// trafficAnswer is what the chart gets.
type trafficAnswer struct {
	traffic.Report
	Marks []trafficMark `json:"marks"` // of those seconds, the oldest first
}

// trafficMark is an event that may explain what the chart shows.
type trafficMark struct {
	At      float64                 `json:"at"` // seconds since 1970
	Kind    pluginmanager.EventType `json:"kind"`
	Version string                  `json:"version"`
	Text    string                  `json:"text"`
}

// getTraffic answers with the seconds that are over, from ?since=SECOND on.
func (s *site) getTraffic(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		http.Error(w, "since must be a second since 1970", http.StatusBadRequest)
		return
	}
	answer := trafficAnswer{Report: s.Plugin.Traffic.Since(since)}
	if answer.Marks, err = s.marks(r, answer.From, answer.Until); err != nil {
		s.Log.ErrorContext(r.Context(), "the plugin's traffic", "error", err)
		http.Error(w, "the history cannot be read, see the log", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(answer) // an error means that nobody listens any more
}

// marks returns what happened in the seconds from the first up to the last, which
// is left out.
func (s *site) marks(r *http.Request, from, until int64) ([]trafficMark, error) {
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	marks := []trafficMark{}
	for i := len(records) - 1; i >= 0; i-- {
		record := records[i]
		if at := record.Time.Unix(); at < from || at >= until || !isMark(record.Type) {
			continue
		}
		marks = append(marks, trafficMark{
			At: float64(record.Time.UnixMilli()) / 1000, Kind: record.Type, Version: record.Version, Text: s.tell(r, record),
		})
	}
	return marks, nil
}

// isMark leaves out what changes nothing for visitors.
func isMark(k pluginmanager.EventType) bool {
	return k != pluginmanager.EventSwapStarted && k != pluginmanager.EventSwapCompleted
}

// pluginTotals are the numbers of the chart, and its marks, for those who do not
// see it.
type pluginTotals struct {
	Rows   []trafficRow
	Events []trafficEvent // the newest first
}

type trafficRow struct {
	Operation        string
	Requests, Errors int
	P50, P99         string
}

type trafficEvent struct {
	Time         time.Time
	Text, Reason string
}

// eventsShown is how many events stand below the numbers.
const eventsShown = 8

func (s *site) partPluginTotals(w http.ResponseWriter, r *http.Request) {
	totals, err := s.pluginTotals(r)
	if err != nil {
		s.fail(w, r, "the plugin", err)
		return
	}
	answerPart(s, w, r, "plugin", "plugin_totals", totals)
}

func (s *site) pluginTotals(r *http.Request) (pluginTotals, error) {
	var shown pluginTotals
	for _, t := range s.Plugin.Traffic.Totals() {
		name := t.Operation
		if name == "" {
			name = s.pages.Text(r, "plugin_all_operations")
		}
		shown.Rows = append(shown.Rows, trafficRow{
			Operation: name, Requests: t.Requests, Errors: t.Errors, P50: s.latency(r, t.P50), P99: s.latency(r, t.P99),
		})
	}
	records, err := s.records()
	if err != nil {
		return pluginTotals{}, err
	}
	for _, record := range records[:min(eventsShown, len(records))] {
		shown.Events = append(shown.Events, trafficEvent{Time: record.Time, Text: s.tell(r, record), Reason: record.Reason})
	}
	return shown, nil
}
