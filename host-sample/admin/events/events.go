// Package events has the admin page of account events and plugin events.
package events

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

const (
	listPath = "/admin/events"

	// maxRefreshed is how long reading a page may take that refreshes itself every
	// few seconds: a filter that matches few entries reads the whole audit log.
	maxRefreshed = time.Second
)

// Pages is the page of events.
type Pages struct {
	Administration personal.Administration // its audit log has the account events
	EventLog       pluginadmin.EventReader // the plugin events

	site *admin.Site
}

// Register implements [admin.Section].
func (p *Pages) Register(s *admin.Site) {
	p.site = s
	s.Handle("GET "+listPath, p.list)
	s.Handle("GET "+listPath+"/rows", p.refresh)
}

// listBody is the body of the page.
type listBody struct {
	Filter []ui.Control
	Events admin.LivePart // of an eventList
}

// eventList is the live part of the page.
type eventList struct {
	Events  []row
	Missing bool   // the account events could not be read
	Refresh string // URL that the page polls; empty if it does not
	Newest  string // URL of the first page; empty on that page
	Older   string // URL of the next page; empty on the last one
}

// row is an event in the list.
type row struct {
	event
	What string // in the administrator's language
	Tone string // severity: the class of its badge; may be empty
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	f, controls := p.readFilter(r)
	events, err := p.read(r, f)
	status := http.StatusOK
	if personal.CodeOf(err) == personal.CodeValidationFailed {
		status = p.site.RefuseForm(r, &ui.Form{Controls: controls}, err)
	} else if err != nil {
		return err
	}
	return p.site.Render(w, r, status, "events", ui.Page{Live: events.Refresh != "", Body: listBody{Filter: controls, Events: admin.NewLivePart(events)}})
}

func (p *Pages) refresh(w http.ResponseWriter, r *http.Request) error {
	f, _ := p.readFilter(r)
	events, err := p.read(r, f)
	if err != nil {
		return err
	}
	return p.site.RenderPart(w, r, "events", "event_list", events)
}

// readFilter returns the filter of a request and the controls to change it.
func (p *Pages) readFilter(r *http.Request) (filter, []ui.Control) {
	query := r.URL.Query()
	f := filter{Type: query.Get("type"), Text: strings.TrimSpace(query.Get("text"))}
	types := ui.Control{Kind: ui.KindSelect, Name: "type", Label: p.site.Text(r, "events_type"), Value: f.Type}
	types.Options = []ui.Choice{{Label: p.site.Text(r, "events_any")}}
	for _, t := range eventTypes {
		types.Options = append(types.Options, ui.Choice{Value: t.name, Label: p.site.Text(r, "event_"+t.name)})
	}
	user := ui.Control{Name: "user", Label: p.site.Text(r, "events_user"), Value: query.Get("user"), InputMode: "numeric", Autocomplete: "off"}
	var err error
	if f.UserID, err = strconv.ParseInt(user.Value, 10, 64); user.Value != "" && (err != nil || f.UserID < 1) {
		user.Error, f.UserID = p.site.Text(r, "events_no_user"), -1 // matches no user
	}
	text := ui.Control{Name: "text", Label: p.site.Text(r, "events_text"), Type: "search", Value: f.Text, Autocomplete: "off"}
	return f, []ui.Control{types, user, text}
}

// eventTypes are the types that have a text, and the classes of their badges.
var eventTypes = []struct{ name, tone string }{
	{string(personal.EventSignedIn), "good"},
	{string(personal.EventSignInFailed), "warn"},
	{string(personal.EventThrottled), "warn"},
	{string(personal.EventRegistered), "good"},
	{string(personal.EventRecoveryRequested), ""},
	{string(personal.EventRecovered), ""},
	{string(personal.EventPasswordChanged), ""},
	{string(personal.EventEmailChanged), ""},
	{string(personal.EventEmailVerified), "good"},
	{string(personal.EventEmailTaken), "warn"},
	{string(personal.EventMailRefused), "warn"},
	{string(personal.EventSessionTheft), "bad"},
	{string(personal.EventExported), ""},
	{string(personal.EventDeletionRequested), "warn"},
	{string(personal.EventDeletionUndone), ""},
	{string(personal.EventTwoFactorOn), "good"},
	{string(personal.EventTwoFactorOff), "warn"},
	{string(personal.EventRecoveryCodes), ""},
	{string(personal.EventRecoveryCodeUsed), "warn"},
	{string(personal.EventUserUpdated), ""},
	{string(personal.EventUserDisabled), "warn"},
	{string(personal.EventUserEnabled), ""},
	{string(personal.EventUserDeleted), "warn"},
	{string(personal.EventUserCreated), "good"},
	{string(personal.EventUserInvited), ""},
	{string(personal.EventUserSignedOut), "warn"},
	{string(personal.EventLimitsLifted), ""},
	{string(personal.EventFieldsFilled), ""},
	{pluginPrefix + string(pluginmanager.EventSwapStarted), ""},
	{pluginPrefix + string(pluginmanager.EventSwitched), ""},
	{pluginPrefix + string(pluginmanager.EventSwapRefused), "warn"},
	{pluginPrefix + string(pluginmanager.EventRolledBack), "warn"},
	{pluginPrefix + string(pluginmanager.EventSwapCompleted), "good"},
	{pluginPrefix + string(pluginmanager.EventProcessLost), "bad"},
	{pluginPrefix + string(pluginmanager.EventRestarted), "good"},
	{pluginPrefix + string(pluginmanager.EventFellBack), "warn"},
	{pluginPrefix + string(pluginmanager.EventGaveUp), "bad"},
}

// read returns the events at the position of the request; the newest ones if it
// names none.
func (p *Pages) read(r *http.Request, f filter) (eventList, error) {
	before, started := r.URL.Query().Get("before"), time.Now()
	t, err := p.timeline(r.Context(), f, parsePosition(before))
	if err != nil {
		return eventList{}, err
	}
	l := eventList{Missing: t.missing}
	for _, e := range t.events {
		l.Events = append(l.Events, p.row(r, e))
	}
	switch {
	case before != "":
		l.Newest = listURL("", r, "")
	case t.missing || time.Since(started) <= maxRefreshed:
		l.Refresh = listURL("/rows", r, "")
	}
	if t.more {
		l.Older = listURL("", r, t.next.String())
	}
	return l, nil
}

// listURL returns a URL with the filter of a request and a position; an empty one
// is the newest.
func listURL(path string, r *http.Request, before string) string {
	query := r.URL.Query()
	return admin.URL(listPath+path, "type", query.Get("type"), "user", query.Get("user"), "text", query.Get("text"), "before", before)
}

// row puts an event into words. A type without a text is shown by its name.
func (p *Pages) row(r *http.Request, e event) row {
	listed := row{event: e, What: string(e.Type)}
	for _, t := range eventTypes {
		if t.name == string(e.Type) {
			listed.What, listed.Tone = p.site.Text(r, "event_"+t.name), t.tone
		}
	}
	return listed
}
