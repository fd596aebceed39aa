// Package users has the admin pages of users: the list with its search and with actions
// for several users, the page of a new user, and the page of one user.
package users

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	listPath = frame.Path + "/users"

	// timeout bounds the calls to the plugin for one request, so that an
	// administrator does not wait for a plugin that hangs.
	timeout = 15 * time.Second
)

const pageSize = 50 // users on a page

// Pages are the pages of users.
type Pages struct {
	Administration personal.Administration
	Recovery       Recovery
	Schema         func(context.Context) (personal.Schema, error) // of the user fields

	site *frame.Site
}

// Recovery sends a user a mail that lets them set a new password.
type Recovery interface {
	Recover(ctx context.Context, r personal.RecoverRequest) error
}

// Name implements [frame.Section].
func (p *Pages) Name() string { return "users" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	s.Handle("GET "+listPath, p.list)
	s.Handle("GET "+listPath+"/new", p.showNew)
	s.HandleForm("POST "+listPath+"/new", ui.ReadLargeForm, p.create)
	s.HandleForm("POST "+listPath+"/selected", ui.ReadForm, p.changeSelected)
	s.HandleForm("POST "+listPath+"/undo", ui.ReadForm, p.undo)
	s.Handle("GET "+listPath+"/delete", p.confirmSelectedDeletion)
	s.HandleForm("POST "+listPath+"/delete", ui.ReadForm, p.deleteSelected)
	const user = listPath + "/{id}"
	for pattern, handle := range map[string]handler{
		"GET " + user:                 p.forUser(p.show),
		"GET " + user + "/delete":     p.forUser(p.confirmDeletion),
		"GET " + user + "/two-factor": p.forUser(p.confirmRemoval),
		"GET " + user + "/passkeys":   p.forUser(p.confirmPasskeys),
		"POST " + user + "/disable":   p.change("disable"),
		"POST " + user + "/enable":    p.change("enable"),
		"POST " + user + "/recovery":  p.change("recovery"),
		"POST " + user + "/sessions":  p.change("sign_out"),
		"POST " + user + "/passkeys":  p.change("passkeys"),
	} {
		s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) error { return handle(w, r, ui.Posted{}) })
	}
	s.HandleForm("POST "+user, ui.ReadLargeForm, p.forUser(p.saveProfile))
	s.HandleForm("POST "+user+"/email", ui.ReadForm, p.forUser(p.saveEmail))
	s.HandleForm("POST "+user+"/two-factor", ui.ReadForm, p.removeFactor)
	s.HandleForm("POST "+user+"/delete", ui.ReadForm, p.forUser(p.delete))
}

// listBody is the body of the list page.
type listBody struct {
	Form    ui.Form // of the search
	Search  personal.FindUsersRequest
	Inputs  []ui.Hidden // the search, in the form of the selected users
	Choices []ui.Choice // what can be done to them
	Users   []personal.User
	Newest  string // URL of the first page; empty on that page
	Older   string // URL of the next page; empty on the last one
	New     string // URL that adds a user with the searched login
	Why     string // URL that explains why the searched user cannot sign in; may be empty
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	request := searchOf(r.URL.Query().Get)
	body := listBody{
		Form: ui.Form{Controls: p.searchControls(r, request)}, Search: request, Inputs: searchInputs(request), Choices: p.choices(r),
		New: frame.URL(listPath+"/new", "login", request.Search), Why: p.why(request.Search),
	}
	page, err := p.Administration.FindUsers(ctx, request)
	status := http.StatusOK
	switch personal.CodeOf(err) {
	case "":
	case personal.CodeValidationFailed:
		status = p.site.RefuseForm(r, &body.Form, err)
	default:
		return p.pageError(r.WithContext(ctx), err)
	}
	body.Users = page.Users
	at := func(after int64) string {
		other := request
		other.After = after
		return listURL(other)
	}
	if request.After > 0 {
		body.Newest = at(0)
	}
	if page.Next != 0 {
		body.Older = at(page.Next)
	}
	return p.site.Render(w, r, status, "users", p.page(w, r, body, nil, []string{"users_none_selected", "users_undo_late"}))
}

// why returns the URL that explains why a user cannot sign in, empty without that section.
func (p *Pages) why(login string) string {
	return p.site.LinkTo(frame.Support, frame.URL(frame.Path+"/"+frame.Support, "login", login))
}

// searchOf returns the search of a page's URL or of a form.
func searchOf(get func(name string) string) personal.FindUsersRequest {
	after, _ := strconv.ParseInt(get("after"), 10, 64) // 0, the first page, if it is not a number
	return personal.FindUsersRequest{Search: get("search"), State: personal.UserState(get("state")), After: max(0, after), Limit: pageSize}
}

// searchInputs are the parameters that [searchOf] reads, without those that are empty.
func searchInputs(search personal.FindUsersRequest) []ui.Hidden {
	after := ""
	if search.After > 0 {
		after = strconv.FormatInt(search.After, 10)
	}
	inputs := []ui.Hidden{{Name: "search", Value: search.Search}, {Name: "state", Value: string(search.State)}, {Name: "after", Value: after}}
	return slices.DeleteFunc(inputs, func(h ui.Hidden) bool { return h.Value == "" })
}

// listURL returns the URL of a page of the list.
func listURL(search personal.FindUsersRequest) string {
	return strings.TrimSuffix(listPath+"?"+selection(search, nil).Encode(), "?")
}

// choices are the actions for selected users.
func (p *Pages) choices(r *http.Request) []ui.Choice {
	choices := []ui.Choice{{Label: p.site.Text(r, "users_choose")}}
	for _, name := range []string{"disable", "enable", "sign_out", "recovery", "delete"} {
		choices = append(choices, ui.Choice{Value: name, Label: p.site.Text(r, "users_do_"+name)})
	}
	return choices
}

func (p *Pages) searchControls(r *http.Request, request personal.FindUsersRequest) []ui.Control {
	return []ui.Control{
		{Name: "search", Type: "search", Label: p.site.Text(r, "users_search"), Value: request.Search, Autocomplete: "off"},
		{Kind: ui.KindSelect, Name: "state", Label: p.site.Text(r, "users_state"), Value: string(request.State), Options: []ui.Choice{
			{Label: p.site.Text(r, "users_all")},
			{Value: string(personal.UserActive), Label: p.site.Text(r, "users_active")},
			{Value: string(personal.UserDisabled), Label: p.site.Text(r, "users_barred")},
		}},
	}
}

// pageError returns the error page of a call that failed. The plugin returns
// not_found for an unknown user, and for every call if its version has no
// administration of users; a search tells the two apart.
func (p *Pages) pageError(r *http.Request, err error) error {
	if personal.CodeOf(err) == personal.CodeNotFound {
		if _, err := p.Administration.FindUsers(r.Context(), personal.FindUsersRequest{Limit: 1}); personal.CodeOf(err) == personal.CodeNotFound {
			return p.site.PageError(r, http.StatusNotImplemented, "users_not_offered")
		}
		return p.site.PageError(r, http.StatusNotFound, "users_unknown")
	}
	return p.site.PluginError(r, err)
}
