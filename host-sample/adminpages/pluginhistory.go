package adminpages

import (
	"fmt"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

// lastSwap is a swap that did not end as it was meant to.
type lastSwap struct {
	Time   time.Time
	Text   string
	Reason string
	Tone   string // bad or warn
}

// recent is how many records of the plugin's life are looked at.
const recent = 200

func (s *site) records() ([]pluginmanager.Event, error) {
	records, err := s.Plugin.EventLog.Recent(recent)
	if err != nil {
		return nil, fmt.Errorf("reading the plugin's history: %w", err)
	}
	return records, nil
}

// lastSwap returns nil if the last swap went well, or is under way.
func (s *site) lastSwap(r *http.Request) (*lastSwap, error) {
	records, err := s.records()
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		tone := ""
		switch record.Type {
		case pluginmanager.EventSwapStarted, pluginmanager.EventSwitched, pluginmanager.EventSwapCompleted:
			return nil, nil
		case pluginmanager.EventSwapRefused, pluginmanager.EventGaveUp:
			tone = "bad"
		case pluginmanager.EventRolledBack, pluginmanager.EventFellBack:
			tone = "warn"
		default:
			continue
		}
		return &lastSwap{Time: record.Time, Text: s.tell(r, record), Reason: record.Reason, Tone: tone}, nil
	}
	return nil, nil
}

// tell says what a record is about, without its reason.
func (s *site) tell(r *http.Request, record pluginmanager.Event) string {
	switch record.Type {
	case pluginmanager.EventSwapRefused:
		return s.pages.Text(r, "plugin_was_refused", record.Version, s.known(r, "plugin_step_", record.Step))
	case pluginmanager.EventSwitched, pluginmanager.EventRolledBack, pluginmanager.EventFellBack:
		return s.pages.Text(r, "plugin_was_"+string(record.Type), record.From, record.Version)
	case pluginmanager.EventSwapStarted, pluginmanager.EventSwapCompleted, pluginmanager.EventProcessLost, pluginmanager.EventRestarted, pluginmanager.EventGaveUp:
		return s.pages.Text(r, "plugin_was_"+string(record.Type), record.Version)
	}
	return string(record.Type) + " " + record.Version
}
