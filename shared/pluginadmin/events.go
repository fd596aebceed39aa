package pluginadmin

import (
	"net/http"
	"strconv"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

const (
	defaultEvents = 100
	maxEvents     = 1000
)

// Events is the answer of GET events.
type Events struct {
	Events []pluginmanager.Event `json:"events"` // the newest first
}

func (a *api) getEvents(w http.ResponseWriter, r *http.Request) {
	limit, ok := readLimit(r.URL.Query().Get("limit"))
	if !ok {
		refuse(w, http.StatusBadRequest, ErrorResponse{Error: "limit must be a number from 1 to " + strconv.Itoa(maxEvents)})
		return
	}
	answer := Events{Events: []pluginmanager.Event{}}
	if a.options.EventLog != nil {
		records, err := a.options.EventLog.Recent(limit)
		if err != nil {
			a.fail(w, r, "reading the events", err)
			return
		}
		answer.Events = append(answer.Events, records...)
	}
	writeJSON(w, http.StatusOK, answer)
}

func readLimit(text string) (int, bool) {
	if text == "" {
		return defaultEvents, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxEvents
}
