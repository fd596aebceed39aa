package adminpages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

const (
	eventsPath = "/admin/events"
	eventsShow = 50 // events on a page

	// maxRefresh is how long reading a page may take that is refreshed every few
	// seconds: a filter that matches few entries reads the whole audit log.
	maxRefresh = time.Second
)

func (s *site) eventRoutes() {
	s.private("GET "+eventsPath, s.listEvents)
	s.private("GET "+eventsPath+"/rows", s.refreshEvents)
}

// eventsBody is the page of what happened.
type eventsBody struct {
	Filter []ui.Control
	Events livePart[eventList]
}

// eventList is the part of the page that is refreshed.
type eventList struct {
	Events  []listedEvent
	Missing bool   // account events could not be read
	Refresh string // where newer ones are asked for; empty if the page is not refreshed
	Newest  string // the first page; empty if this is it
	Older   string // the next page; empty if there is none
}

// listedEvent is an event as listed.
type listedEvent struct {
	timelineEvent
	What string // in the administrator's language
	Tone string // how bad it is: a class of badges
}

func (s *site) listEvents(w http.ResponseWriter, r *http.Request) {
	f, controls := s.readFilter(r)
	list, err := s.eventList(r, f)
	status := http.StatusOK
	if personal.CodeOf(err) == personal.CodeValidationFailed {
		status = s.refuseForm(r, &ui.Form{Controls: controls}, err)
	} else if err != nil {
		s.fail(w, r, "reading the events", err)
		return
	}
	s.render(w, r, status, "events", ui.Page{Live: list.Refresh != "", Body: eventsBody{Filter: controls, Events: newLivePart(list)}})
}

// refreshEvents answers a script that asks for the first page again and again. As
// long as nothing has happened the page stays as it is, with its focus.
func (s *site) refreshEvents(w http.ResponseWriter, r *http.Request) {
	f, _ := s.readFilter(r)
	list, err := s.eventList(r, f)
	if err != nil {
		s.fail(w, r, "reading the events", err)
		return
	}
	answerPart(s, w, r, "events", "event_list", list)
}

// readFilter reads what a request asks for, and returns the controls to change it.
func (s *site) readFilter(r *http.Request) (filter, []ui.Control) {
	query := r.URL.Query()
	f := filter{Type: query.Get("type"), Text: strings.TrimSpace(query.Get("text"))}
	kinds := ui.Control{Kind: ui.KindSelect, Name: "type", Label: s.pages.Text(r, "events_type"), Value: f.Type}
	kinds.Options = []ui.Choice{{Label: s.pages.Text(r, "events_any")}}
	for _, t := range eventTypes() {
		kinds.Options = append(kinds.Options, ui.Choice{Value: t, Label: s.pages.Text(r, "event_"+t)})
	}
	user := ui.Control{Name: "user", Label: s.pages.Text(r, "events_user"), Value: query.Get("user"), InputMode: "numeric", Autocomplete: "off"}
	var err error
	if f.UserID, err = strconv.ParseInt(user.Value, 10, 64); user.Value != "" && (err != nil || f.UserID < 1) {
		user.Error, f.UserID = s.pages.Text(r, "events_no_user"), -1 // nobody's
	}
	text := ui.Control{Name: "text", Label: s.pages.Text(r, "events_text"), Type: "search", Value: f.Text, Autocomplete: "off"}
	return f, []ui.Control{kinds, user, text}
}

// eventTypes are those there is a text for: of accounts, and of the plugin.
func eventTypes() []string {
	return []string{
		string(personal.EventSignedIn), string(personal.EventSignInFailed), string(personal.EventThrottled), string(personal.EventRegistered),
		string(personal.EventRecoveryRequested), string(personal.EventRecovered),
		string(personal.EventPasswordChanged), string(personal.EventEmailChanged),
		string(personal.EventEmailTaken), string(personal.EventMailRefused), string(personal.EventSessionTheft),
		string(personal.EventUserUpdated), string(personal.EventUserDisabled), string(personal.EventUserEnabled), string(personal.EventUserDeleted),
		pluginPrefix + string(pluginmanager.EventSwapStarted), pluginPrefix + string(pluginmanager.EventSwitched),
		pluginPrefix + string(pluginmanager.EventSwapRefused), pluginPrefix + string(pluginmanager.EventRolledBack),
		pluginPrefix + string(pluginmanager.EventSwapCompleted), pluginPrefix + string(pluginmanager.EventProcessLost),
		pluginPrefix + string(pluginmanager.EventRestarted), pluginPrefix + string(pluginmanager.EventFellBack),
		pluginPrefix + string(pluginmanager.EventGaveUp),
	}
}

// eventList reads a page of events: that of the request's position, else the first.
func (s *site) eventList(r *http.Request, f filter) (eventList, error) {
	before, started := r.URL.Query().Get("before"), time.Now()
	t, err := s.timeline(r.Context(), f, parsePosition(before))
	if err != nil {
		return eventList{}, err
	}
	list := eventList{Missing: t.missing}
	for _, e := range t.events {
		list.Events = append(list.Events, s.listed(r, e))
	}
	switch {
	case before != "":
		list.Newest = eventsURL("", r, "", "")
	case t.missing || time.Since(started) <= maxRefresh:
		list.Refresh = eventsURL("/rows", r, "", "")
	}
	if t.more {
		list.Older = eventsURL("", r, "before", t.next.String())
	}
	return list, nil
}

// eventsURL returns an address that keeps the filter, with one more parameter.
func eventsURL(path string, r *http.Request, name, value string) string {
	query := url.Values{}
	for _, kept := range []string{"type", "user", "text"} {
		if v := r.URL.Query().Get(kept); v != "" {
			query.Set(kept, v)
		}
	}
	if name != "" {
		query.Set(name, value)
	}
	return eventsPath + path + "?" + query.Encode()
}

// listed puts an event into words. Types that this page does not know stand for
// themselves.
func (s *site) listed(r *http.Request, t timelineEvent) listedEvent {
	kind := string(t.Type)
	e := listedEvent{timelineEvent: t, What: kind}
	if slices.Contains(eventTypes(), kind) {
		e.What = s.pages.Text(r, "event_"+kind)
	}
	switch kind {
	case string(personal.EventSessionTheft), pluginPrefix + string(pluginmanager.EventProcessLost), pluginPrefix + string(pluginmanager.EventGaveUp):
		e.Tone = "bad"
	case string(personal.EventSignInFailed), string(personal.EventThrottled), pluginPrefix + string(pluginmanager.EventSwapRefused), pluginPrefix + string(pluginmanager.EventRolledBack), pluginPrefix + string(pluginmanager.EventFellBack),
		string(personal.EventEmailTaken), string(personal.EventMailRefused), string(personal.EventUserDisabled), string(personal.EventUserDeleted):
		e.Tone = "warn"
	case string(personal.EventSignedIn), string(personal.EventRegistered), pluginPrefix + string(pluginmanager.EventSwapCompleted), pluginPrefix + string(pluginmanager.EventRestarted):
		e.Tone = "good"
	}
	return e
}
