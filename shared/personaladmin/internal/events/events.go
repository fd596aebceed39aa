// Package events has the admin pages of account events and plugin events: the search over
// all of them, and the history of a user.
package events

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

const (
	listPath = frame.Path + "/events"

	// maxRefreshed is how long reading a page may take that refreshes itself every
	// few seconds: a filter that matches few entries reads the whole audit log.
	maxRefreshed = time.Second
)

// Pages are the pages of events: the search over all of them, and the history of a user.
type Pages struct {
	Administration personal.Administration // its audit log has the account events
	EventLog       adminapi.EventReader    // the plugin events

	site *frame.Site
}

// Name implements [frame.Section].
func (p *Pages) Name() string { return "events" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	s.Handle("GET "+listPath, p.list)
	s.Handle("GET "+listPath+"/rows", p.rows("events", func(r *http.Request) (search, error) { return p.readSearch(r), nil }))
	s.Handle("GET "+historyPath, p.history)
	s.Handle("GET "+historyPath+"/rows", p.rows("history", p.readHistory))
}

// listBody is the body of the page.
type listBody struct {
	Form   ui.Form        // of the filter
	Events frame.LivePart // of an eventList
}

// eventList is the live part of a page.
type eventList struct {
	Days     []day
	Missing  bool   // the account events could not be read
	Searched string // what the events were searched for; empty for all
	All      string // URL of the list without the search; empty for all
	Refresh  string // URL that the page polls; empty if it does not
	Newest   string // URL of the first page; empty on that page
	Older    string // URL of the next page; empty on the last one
}

// day are the events of a day in UTC.
type day struct {
	Start  time.Time
	Events []row
}

// row is an event in the list.
type row struct {
	event
	Login string        // of the user; empty if they are gone, or unknown
	What  string        // in the administrator's language
	User  string        // URL of the page of the user; may be empty
	By    string        // who caused it; may be empty
	Why   string        // of a plugin event; may be empty
	Tone  personal.Tone // severity: the class of its badge; may be empty

	English bool // Why is in English, whatever the administrator's language
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	s := p.readSearch(r)
	events, err := p.read(r, s)
	status := http.StatusOK
	switch {
	case personal.CodeOf(err) == personal.CodeValidationFailed:
		status = p.site.RefuseForm(r, &s.form, err)
	case err != nil:
		return err
	case s.None:
		status = http.StatusUnprocessableEntity
	}
	return p.site.Render(w, r, status, "events", ui.Page{Live: events.Refresh != "",
		Body: listBody{Form: s.form, Events: frame.NewLivePart(events)}})
}

// rows sends the events of a search, for a page that polls them.
func (p *Pages) rows(page string, find func(*http.Request) (search, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, err := find(r)
		if err != nil {
			return err
		}
		events, err := p.read(r, s)
		if err != nil {
			return err
		}
		return p.site.RenderPart(w, r, page, "event_list", events)
	}
}

// search is a filter, and the page that shows what it selects.
type search struct {
	filter
	form  ui.Form
	path  string            // of the page
	query map[string]string // of the filter, in the links to other parts of the list
	live  map[string]string // the same with the user's id instead of their login
}

// url returns a URL of the page with the filter and a position; an empty one is the
// newest.
func (s search) url(below string, query map[string]string, before string) string {
	parameters := []string{"before", before}
	for name, value := range query {
		parameters = append(parameters, name, value)
	}
	return frame.URL(s.path+below, parameters...)
}

// readSearch reads a search over all events. Its form has the errors of invalid values.
func (p *Pages) readSearch(r *http.Request) search {
	typed := map[string]string{}
	for _, name := range []string{"type", "user", "text", "since", "until"} {
		typed[name] = strings.TrimSpace(r.URL.Query().Get(name))
	}
	s := search{path: listPath, query: typed, live: maps.Clone(typed), filter: filter{Type: typed["type"], Text: typed["text"]}}
	refused := map[string]string{}
	if typed["user"] != "" {
		id, problem := p.findUser(r, typed["user"])
		if problem != "" {
			refused["user"] = p.site.Text(r, problem)
		}
		s.UserID, s.live["user"] = id, strconv.FormatInt(id, 10)
	}
	for name, bound := range map[string]*time.Time{"since": &s.Since, "until": &s.Until} {
		var ok bool
		if *bound, ok = parseTime(typed[name], name == "until"); !ok {
			refused[name] = p.site.Text(r, "events_no_time")
		}
	}
	if refused["since"] == "" && !s.Until.IsZero() && !s.Since.Before(s.Until) {
		refused["until"] = p.site.Text(r, "events_no_period")
	}
	s.form.Controls = []ui.Control{
		p.typeControl(r, s.Type, eventKinds()),
		{Name: "user", Label: p.site.Text(r, "events_user"), Hint: p.site.Text(r, "events_user_hint"), Value: typed["user"], Autocomplete: "off"},
		{Name: "text", Label: p.site.Text(r, "events_text"), Hint: p.site.Text(r, "events_text_hint"), Type: "search", Value: s.Text, Autocomplete: "off"},
		p.timeControl(r, "since", s.Since, typed["since"]), p.timeControl(r, "until", s.Until, typed["until"]),
	}
	if s.None = len(refused) > 0; s.None {
		s.form.Refuse(p.site.API.ErrorResponse(r, personal.NewError(personal.CodeValidationFailed, nil)).Message, refused)
	}
	return s
}

func (p *Pages) typeControl(r *http.Request, chosen string, kinds []personal.EventKind) ui.Control {
	c := ui.Control{Kind: ui.KindSelect, Name: "type", Label: p.site.Text(r, "events_type"), Value: chosen}
	c.Options = []ui.Choice{{Label: p.site.Text(r, "events_any")}}
	for _, k := range kinds {
		c.Options = append(c.Options, ui.Choice{Value: string(k.Type), Label: p.site.Text(r, "event_"+string(k.Type))})
	}
	return c
}

// Layouts of times, which are in UTC. The first one is that of HTML's datetime-local,
// which leaves out seconds that are zero.
const (
	minuteLayout = "2006-01-02T15:04"
	secondLayout = "2006-01-02T15:04:05"
)

// timeControl returns the control of a time. An invalid one stays as it was typed.
func (p *Pages) timeControl(r *http.Request, name string, at time.Time, typed string) ui.Control {
	c := ui.Control{Name: name, Type: "datetime-local", Label: p.site.Text(r, "events_"+name), Value: typed, Autocomplete: "off"}
	if !at.IsZero() {
		c.Value = at.Format(minuteLayout)
		if at.Second() != 0 {
			c.Value = at.Format(secondLayout)
		}
	}
	return c
}

// parseTime parses a time in UTC; an empty text is the zero time. A date is its start, or
// its end.
func parseTime(text string, end bool) (time.Time, bool) {
	if text == "" {
		return time.Time{}, true
	}
	for _, layout := range []string{minuteLayout, secondLayout} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err == nil && end {
		day = day.AddDate(0, 0, 1)
	}
	return day, err == nil
}

// findUser returns the id of the user with that login, e-mail or id, or the key of the
// text that says why there is none. The id may be that of a user who was erased.
func (p *Pages) findUser(r *http.Request, typed string) (id int64, problem string) {
	number, err := strconv.ParseInt(typed, 10, 64)
	isID := err == nil && number > 0
	// A user who matches as a whole is on the first page.
	page, err := p.Administration.FindUsers(r.Context(), personal.FindUsersRequest{Search: typed})
	if err != nil && personal.CodeOf(err) != personal.CodeValidationFailed && !isID {
		return 0, "events_users_unavailable"
	}
	for _, of := range []func(personal.User) string{
		func(u personal.User) string { return u.Login }, func(u personal.User) string { return u.Email },
	} {
		for _, u := range page.Users {
			if strings.EqualFold(of(u), typed) {
				return u.ID, ""
			}
		}
	}
	if isID {
		return number, ""
	}
	return 0, "events_no_user"
}

// searched says what a search is for.
func (p *Pages) searched(s search) string {
	var parts []string
	for _, c := range s.form.Controls {
		value := c.Value
		for _, o := range c.Options {
			if o.Value == value && value != "" {
				value = o.Label
			}
		}
		if value != "" {
			parts = append(parts, c.Label+": "+value)
		}
	}
	return strings.Join(parts, "; ")
}

// eventKinds returns the types of account events, followed by those of plugin events.
func eventKinds() []personal.EventKind {
	kinds := personal.EventKinds()
	for _, k := range []struct {
		event manager.EventType
		tone  personal.Tone
	}{
		{manager.EventSwapStarted, ""},
		{manager.EventSwitched, ""},
		{manager.EventRehearsed, ""},
		{manager.EventAccepted, personal.ToneWarn},
		{manager.EventSwapRefused, personal.ToneWarn},
		{manager.EventRolledBack, personal.ToneWarn},
		{manager.EventSwapSettled, personal.ToneGood},
		{manager.EventProcessLost, personal.ToneBad},
		{manager.EventRestarted, personal.ToneGood},
		{manager.EventFellBack, personal.ToneWarn},
		{manager.EventGaveUp, personal.ToneBad},
	} {
		kinds = append(kinds, personal.EventKind{Type: personal.EventType(pluginPrefix + string(k.event)), Tone: k.tone})
	}
	return kinds
}

// outcomes are those of rehearsals, which the reasons of their events are.
var outcomes = []string{"passed", "skipped", "differs", "failed"}

// read returns the events at the position of the request; the newest ones if it
// names none.
func (p *Pages) read(r *http.Request, s search) (eventList, error) {
	before, started := r.URL.Query().Get("before"), time.Now()
	t, err := p.timeline(r.Context(), s.filter, parsePosition(before))
	if err != nil {
		return eventList{}, err
	}
	l := eventList{Missing: t.missing, Searched: p.searched(s)}
	if l.Searched != "" {
		l.All = s.path
	}
	users := p.users(r, t.events)
	for _, e := range t.events {
		start := e.Time.UTC().Truncate(24 * time.Hour)
		if len(l.Days) == 0 || !l.Days[len(l.Days)-1].Start.Equal(start) {
			l.Days = append(l.Days, day{Start: start})
		}
		listed := p.row(r, e)
		listed.Login = users[e.UserID].Login
		last := &l.Days[len(l.Days)-1]
		last.Events = append(last.Events, listed)
	}
	switch {
	case before != "":
		l.Newest = s.url("", s.query, "")
	case s.None: // nothing to wait for
	case t.missing || time.Since(started) <= maxRefreshed:
		l.Refresh = s.url("/rows", s.live, "")
	}
	if t.more {
		l.Older = s.url("", s.query, t.next.String())
	}
	return l, nil
}

// users returns the users whom events are about, none if they cannot be read: their ids are shown
// then.
func (p *Pages) users(r *http.Request, events []event) map[int64]personal.User {
	var ids []int64
	for _, e := range events {
		if e.UserID > 0 && !slices.Contains(ids, e.UserID) {
			ids = append(ids, e.UserID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	users, _ := p.Administration.Users(r.Context(), ids) // the events are more important
	return users
}

// row puts an event into words. A type without a text is shown by its name.
func (p *Pages) row(r *http.Request, e event) row {
	listed := row{event: e, What: string(e.Type)}
	if e.UserID > 0 {
		listed.User = p.site.LinkTo(frame.Users, frame.Path+"/users/"+strconv.FormatInt(e.UserID, 10))
	}
	for _, k := range eventKinds() {
		if k.Type == e.Type {
			listed.What, listed.Tone = p.site.Text(r, "event_"+string(k.Type)), k.Tone
		}
	}
	if e.Plugin != nil {
		listed.Why, listed.English = e.Plugin.Reason, true
		if e.Plugin.Type == manager.EventRehearsed && slices.Contains(outcomes, e.Plugin.Reason) {
			listed.Why, listed.English = p.site.Text(r, "plugin_rehearsed_"+e.Plugin.Reason), false
		}
	}
	switch {
	case e.ActorName != "":
		listed.By = p.site.Text(r, "events_by", e.ActorName)
	case e.Actor == personal.ActorSystem:
		listed.By = p.site.Text(r, "events_by_system")
	case e.Actor == personal.ActorAdministrator:
		listed.By = p.site.Text(r, "events_by_administrator")
	case e.Actor == personal.ActorUser:
		listed.By = p.site.Text(r, "events_by_visitor")
	}
	return listed
}
