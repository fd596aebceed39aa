package adminpages

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// pluginPrefix precedes the kind of a plugin event in its type.
const pluginPrefix = "plugin_"

// timelineEvent is an account event or a plugin event.
type timelineEvent struct {
	personal.Event                      // of a plugin event only Type and Time
	Plugin         *pluginmanager.Event // nil for account events
}

// filter chooses what is listed. The zero value chooses everything.
type filter struct {
	Type   string // empty: any
	UserID int64  // 0: any; below: none
	Text   string // part of a text, in any case; empty: any
}

// wants reports whether a plugin event is listed.
func (f filter) wants(r pluginmanager.Event) bool {
	texts := strings.Join([]string{r.Version, r.From, r.Step, r.Reason}, "\n")
	return (f.Type == "" || f.Type == pluginPrefix+string(r.Type)) && f.UserID == 0 &&
		strings.Contains(strings.ToLower(texts), strings.ToLower(f.Text))
}

// position is where a page begins.
type position struct {
	account int64 // AuditEntriesRequest.After
	plugin  int64 // plugin events up to then, in nanoseconds since 1970
}

// newest is the position of the first page.
var newest = position{plugin: math.MaxInt64}

// String is the position as it stands in a URL.
func (p position) String() string {
	return strconv.FormatInt(p.account, 10) + "." + strconv.FormatInt(p.plugin, 10)
}

// parsePosition reads a position; a text that holds none is the newest.
func parsePosition(text string) position {
	account, plugin, _ := strings.Cut(text, ".")
	a, err := strconv.ParseInt(account, 10, 64)
	p, err2 := strconv.ParseInt(plugin, 10, 64)
	if err != nil || err2 != nil || a < 0 {
		return newest
	}
	return position{account: a, plugin: p}
}

// timeline is a page of account events and plugin events, newest first.
type timeline struct {
	events  []timelineEvent
	next    position
	more    bool // there is a next page
	missing bool // account events could not be read
}

// timeline reads the page that begins at a position. An account event and a plugin
// event are ordered by time. validation_failed says that the filter holds a text
// that cannot be searched for.
func (s *site) timeline(ctx context.Context, f filter, from position) (timeline, error) {
	all, err := s.Plugin.EventLog.Recent(math.MaxInt)
	if err != nil {
		return timeline{}, err
	}
	var records []pluginmanager.Event
	for _, r := range all {
		if r.Time.UnixNano() <= from.plugin && f.wants(r) {
			records = append(records, r)
		}
	}
	page, err := s.accountEvents(ctx, f, from)
	if personal.CodeOf(err) == personal.CodeValidationFailed {
		return timeline{}, err
	}
	t := timeline{next: from, missing: err != nil}
	entries := page.Entries
	for len(t.events) < eventsShow && len(records)+len(entries) > 0 {
		if len(entries) == 0 || len(records) > 0 && records[0].Time.After(entries[0].Time) {
			r := records[0]
			records, t.next.plugin = records[1:], r.Time.UnixNano()-1
			t.events = append(t.events, timelineEvent{Event: personal.Event{Type: personal.EventType(pluginPrefix + string(r.Type)), Time: r.Time}, Plugin: &r})
			continue
		}
		e := entries[0]
		entries, t.next = entries[1:], position{account: e.Cursor, plugin: min(t.next.plugin, e.Time.UnixNano())}
		t.events = append(t.events, timelineEvent{Event: e.Event})
	}
	t.more = len(records)+len(entries) > 0 || page.Next != 0
	return t, nil
}

// accountEvents reads a page of the audit log.
func (s *site) accountEvents(ctx context.Context, f filter, from position) (personal.AuditPage, error) {
	if f.UserID < 0 || strings.HasPrefix(f.Type, pluginPrefix) {
		return personal.AuditPage{}, nil
	}
	r := personal.AuditEntriesRequest{Type: personal.EventType(f.Type), UserID: f.UserID, Text: f.Text, After: from.account, Limit: eventsShow}
	if from.account == 0 && from != newest { // the pages before had plugin events alone
		r.Until = time.Unix(0, from.plugin+1)
	}
	ctx, cancel := context.WithTimeout(ctx, usersTimeout)
	defer cancel()
	return s.Users.AuditEntries(ctx, r)
}
