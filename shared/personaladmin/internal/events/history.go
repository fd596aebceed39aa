package events

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// historyPath is the pattern of the history of a user.
const historyPath = "/admin/users/{id}/events"

// historyBody is the body of the page.
type historyBody struct {
	ID     int64
	User   *personal.User // nil if it could not be read
	Page   string         // URL of the user's page, or of the list of users; may be empty
	Why    string         // URL that explains why they cannot sign in; may be empty
	Gone   bool           // no user has the id, and no entry names it
	Form   ui.Form        // of the filter
	Events frame.LivePart // of an eventList
}

func (p *Pages) history(w http.ResponseWriter, r *http.Request) error {
	s, err := p.readHistory(r)
	if err != nil {
		return err
	}
	events, err := p.read(r, s)
	status := http.StatusOK
	if personal.CodeOf(err) == personal.CodeValidationFailed {
		status = p.site.RefuseForm(r, &s.form, err)
	} else if err != nil {
		return err
	}
	b := historyBody{ID: s.UserID, Form: s.form, Events: frame.NewLivePart(events)}
	login := strconv.FormatInt(s.UserID, 10)
	b.Page = p.site.LinkTo(frame.Users, frame.Path+"/users")
	switch user, err := p.Administration.User(r.Context(), s.UserID); personal.CodeOf(err) {
	case "":
		b.User, login = &user.User, user.Login
		b.Page = p.site.LinkTo(frame.Users, frame.Path+"/users/"+strconv.FormatInt(s.UserID, 10))
	case personal.CodeNotFound:
		b.Gone = len(events.Days) == 0 && !events.Missing
	}
	b.Why = p.site.LinkTo(frame.Support, frame.URL(frame.Path+"/support", "login", login))
	return p.site.Render(w, r, status, "history", ui.Page{Live: events.Refresh != "" && !b.Gone, Body: b})
}

// readHistory reads a search over the events of a user.
func (p *Pages) readHistory(r *http.Request) (search, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return search{}, p.site.PageError(r, http.StatusNotFound, "users_unknown")
	}
	f := filter{UserID: id, Type: r.URL.Query().Get("type")}
	query := map[string]string{"type": f.Type}
	return search{
		filter: f, form: ui.Form{Controls: []ui.Control{p.typeControl(r, f.Type, personal.EventKinds())}},
		path: strings.Replace(historyPath, "{id}", strconv.FormatInt(id, 10), 1), query: query, live: query,
	}, nil
}
