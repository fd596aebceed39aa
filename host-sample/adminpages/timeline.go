package adminpages

import (
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/eventlog"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// maxScan bounds what one page reads of the event log, in bytes, when a filter
// finds little.
const maxScan = 16 << 20

// happening is something that happened to an account, or to the plugin.
type happening struct {
	ID        string // unique among those of accounts; empty of the plugin's
	Type      string // of the plugin's, with pluginPrefix
	Time      time.Time
	UserID    int64 // 0: nobody's, or nobody knows whose
	Address   string
	RequestID string
	By        string                // the administrator's name, where one did it
	Plugin    *pluginmanager.Record // nil of accounts'
}

const pluginPrefix = "plugin_"

// filter chooses what is listed. The zero value chooses everything.
type filter struct {
	Type   string // empty: any
	UserID int64  // 0: any
	Text   string // in any of the texts, in any case
}

func (f filter) wants(h happening) bool {
	return (f.Type == "" || f.Type == h.Type) && (f.UserID == 0 || f.UserID == h.UserID) && (f.Text == "" || h.contains(f.Text))
}

func (h happening) contains(text string) bool {
	texts := []string{h.Type, h.Address, h.RequestID, h.By}
	if p := h.Plugin; p != nil {
		texts = append(texts, p.Version, p.From, p.Step, p.Reason)
	}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(text))
}

// place is where a page ends and the next one begins.
type place struct {
	accounts eventlog.Position
	plugin   int64 // the plugin's records up to then, in nanoseconds since 1970
}

// newest is where the first page begins.
func newest() place { return place{accounts: eventlog.End(), plugin: math.MaxInt64} }

// String is the place as it stands in an address.
func (p place) String() string {
	return strconv.FormatInt(p.accounts.Before, 10) + "." + strconv.FormatInt(p.accounts.Older, 10) + "." + strconv.FormatInt(p.plugin, 10)
}

// parsePlace reads a place; what is none is the newest.
func parsePlace(text string) place {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return newest()
	}
	var n [3]int64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseInt(part, 10, 64); err != nil {
			return newest()
		}
	}
	return place{accounts: eventlog.Position{Before: n[0], Older: n[1]}, plugin: n[2]}
}

// timeline merges what happened to accounts and to the plugin, the newest first.
type timeline struct {
	filter  filter
	reader  *eventlog.Reader
	records []happening // the plugin's that are left
	account *happening  // the next of accounts; nil before it was looked for, and at the end
	at      place       // behind what was given out, or is not wanted
	start   int64       // of what is read of the event log
	tired   bool        // maxScan was reached
}

func (s *site) timeline(from place, f filter) (*timeline, error) {
	records, err := s.Plugin.History.Recent(math.MaxInt)
	if err != nil {
		return nil, err
	}
	reader, err := s.Events.Read(from.accounts)
	if err != nil {
		return nil, err
	}
	from.accounts = reader.Position() // what comes from now on belongs to the first page
	t := &timeline{filter: f, reader: reader, at: from, start: from.accounts.Before}
	for _, r := range records {
		h := happening{Type: pluginPrefix + string(r.Kind), Time: r.Time, Plugin: &r}
		if r.Time.UnixNano() <= from.plugin && f.wants(h) {
			t.records = append(t.records, h)
		}
	}
	return t, nil
}

func (t *timeline) close() error { return t.reader.Close() }

// next returns what happened before, false at the end, or when it has read enough.
func (t *timeline) next() (happening, bool, error) {
	if err := t.look(); err != nil || t.tired {
		return happening{}, false, err
	}
	if len(t.records) > 0 && (t.account == nil || t.records[0].Time.After(t.account.Time)) {
		h := t.records[0]
		t.records, t.at.plugin = t.records[1:], h.Time.UnixNano()-1
		return h, true, nil
	}
	if t.account == nil {
		return happening{}, false, nil
	}
	h := *t.account
	t.account, t.at = nil, place{accounts: t.reader.Position(), plugin: min(t.at.plugin, h.Time.UnixNano())}
	return h, true, nil
}

// look finds the next event of an account that is wanted.
func (t *timeline) look() error {
	for t.account == nil && !t.tired {
		e, err := t.reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h := accountEvent(e); t.filter.wants(h) {
			t.account = &h
			return nil
		}
		t.at.accounts = t.reader.Position()
		t.tired = t.scanned() > maxScan
	}
	return nil
}

// scanned returns how much of the event log was read, in bytes.
func (t *timeline) scanned() int64 { return t.start - t.reader.Position().Before }

func accountEvent(e personal.Event) happening {
	return happening{ID: e.ID, Type: string(e.Type), Time: e.Time, UserID: e.UserID, Address: e.Address, RequestID: e.RequestID, By: e.ActorName}
}
