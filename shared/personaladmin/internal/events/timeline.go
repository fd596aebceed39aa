package events

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

const (
	pageSize = 50 // events on a page

	// pluginPrefix marks the types of plugin events among those of account events.
	pluginPrefix = "plugin_"
)

// event is an account event or a plugin event.
type event struct {
	personal.Event                // of a plugin event only Type and Time
	Plugin         *manager.Event // nil for an account event
}

// filter selects events. The zero value selects all.
type filter struct {
	Type   string    // empty: any
	UserID int64     // 0: any
	Text   string    // part of a text, case-insensitive; empty: any
	Since  time.Time // at or after this time; zero: no bound
	Until  time.Time // before this time; zero: no bound
	None   bool      // matches nothing: a value of the form is invalid
}

// matches reports whether the filter selects a plugin event.
func (f filter) matches(e manager.Event) bool {
	texts := strings.Join([]string{e.Version, e.From, e.Step, e.Reason}, "\n")
	return !f.None && (f.Type == "" || f.Type == pluginPrefix+string(e.Type)) && f.UserID == 0 &&
		!e.Time.Before(f.Since) && (f.Until.IsZero() || e.Time.Before(f.Until)) &&
		strings.Contains(strings.ToLower(texts), strings.ToLower(f.Text))
}

// position is where a page starts.
type position struct {
	account int64 // AuditEntriesRequest.After
	plugin  int64 // latest time of a plugin event, in nanoseconds since 1970
}

// newest is the position of the first page.
var newest = position{plugin: math.MaxInt64}

// String returns the position as it is written in a URL.
func (p position) String() string {
	return strconv.FormatInt(p.account, 10) + "." + strconv.FormatInt(p.plugin, 10)
}

// parsePosition parses a position; an invalid one is the newest.
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
	events  []event
	next    position // of the next page
	more    bool     // there is a next page
	missing bool     // the account events could not be read
}

// timeline reads the page that starts at a position and merges the two logs by
// time. It returns validation_failed for a filter that the plugin refuses; any
// other error of the plugin leaves out the account events.
func (p *Pages) timeline(ctx context.Context, f filter, from position) (timeline, error) {
	all, err := p.EventLog.Recent(math.MaxInt)
	if err != nil {
		return timeline{}, err
	}
	var plugin []manager.Event
	for _, e := range all {
		if e.Time.UnixNano() <= from.plugin && f.matches(e) {
			plugin = append(plugin, e)
		}
	}
	page, err := p.auditEntries(ctx, f, from)
	if personal.CodeOf(err) == personal.CodeValidationFailed {
		return timeline{}, err
	}
	t := timeline{next: from, missing: err != nil}
	account := page.Entries
	for len(t.events) < pageSize && len(plugin)+len(account) > 0 {
		if len(account) == 0 || len(plugin) > 0 && plugin[0].Time.After(account[0].Time) {
			e := plugin[0]
			plugin, t.next.plugin = plugin[1:], e.Time.UnixNano()-1
			t.events = append(t.events, event{Event: personal.Event{Type: personal.EventType(pluginPrefix + string(e.Type)), Time: e.Time},
				Plugin: &e})
			continue
		}
		e := account[0]
		account, t.next = account[1:], position{account: e.Cursor, plugin: min(t.next.plugin, e.Time.UnixNano())}
		t.events = append(t.events, event{Event: e.Event})
	}
	t.more = len(plugin)+len(account) > 0 || page.Next != 0
	return t, nil
}

// auditEntries reads a page of the audit log.
func (p *Pages) auditEntries(ctx context.Context, f filter, from position) (personal.AuditPage, error) {
	if f.None || strings.HasPrefix(f.Type, pluginPrefix) {
		return personal.AuditPage{}, nil
	}
	r := personal.AuditEntriesRequest{Type: personal.EventType(f.Type), UserID: f.UserID, Text: f.Text, Since: f.Since, Until: f.Until,
		After: from.account, Limit: pageSize}
	if from.account == 0 && from != newest { // the pages before had plugin events only
		if end := time.Unix(0, from.plugin+1); r.Until.IsZero() || end.Before(r.Until) {
			r.Until = end
		}
	}
	return p.Administration.AuditEntries(ctx, r)
}
