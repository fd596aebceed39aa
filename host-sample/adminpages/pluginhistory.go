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

func (s *site) records() ([]pluginmanager.Record, error) {
	records, err := s.Plugin.History.Recent(recent)
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
		switch record.Kind {
		case pluginmanager.KindBegun, pluginmanager.KindSwitched, pluginmanager.KindSettled:
			return nil, nil
		case pluginmanager.KindRefused, pluginmanager.KindGaveUp:
			tone = "bad"
		case pluginmanager.KindRolledBack, pluginmanager.KindFellBack:
			tone = "warn"
		default:
			continue
		}
		return &lastSwap{Time: record.Time, Text: s.tell(r, record), Reason: record.Reason, Tone: tone}, nil
	}
	return nil, nil
}

// tell says what a record is about, without its reason.
func (s *site) tell(r *http.Request, record pluginmanager.Record) string {
	switch record.Kind {
	case pluginmanager.KindRefused:
		return s.pages.Text(r, "plugin_was_refused", record.Version, s.known(r, "plugin_step_", record.Step))
	case pluginmanager.KindSwitched, pluginmanager.KindRolledBack, pluginmanager.KindFellBack:
		return s.pages.Text(r, "plugin_was_"+string(record.Kind), record.From, record.Version)
	case pluginmanager.KindBegun, pluginmanager.KindSettled, pluginmanager.KindLost, pluginmanager.KindRestarted, pluginmanager.KindGaveUp:
		return s.pages.Text(r, "plugin_was_"+string(record.Kind), record.Version)
	}
	return string(record.Kind) + " " + record.Version
}
