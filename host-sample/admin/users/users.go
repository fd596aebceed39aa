// Package users has the admin pages of users: the list with its search, and the
// page of one user.
package users

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
)

const (
	listPath = "/admin/users"

	// timeout bounds the calls to the plugin for one request, so that an
	// administrator does not wait for a plugin that hangs.
	timeout = 15 * time.Second
)

const pageSize = 50 // users on a page

// Pages are the pages of users.
type Pages struct {
	Administration personal.Administration
	Recovery       Recovery
	Fields         *fieldstore.Store

	site *admin.Site
}

// Recovery sends a user a mail that lets them set a new password.
type Recovery interface {
	Recover(ctx context.Context, r personal.RecoverRequest) error
}

// Register implements [admin.Section].
func (p *Pages) Register(s *admin.Site) {
	p.site = s
	s.Handle("GET "+listPath, p.list)
	const user = listPath + "/{id}"
	for pattern, handle := range map[string]handler{
		"GET " + user:                  p.forUser(p.show),
		"GET " + user + "/delete":      p.forUser(p.confirmDeletion),
		"GET " + user + "/two-factor":  p.forUser(p.confirmRemoval),
		"POST " + user + "/disable":    p.change("users_disabled", personal.Administration.DisableUser),
		"POST " + user + "/enable":     p.change("users_enabled", personal.Administration.EnableUser),
		"POST " + user + "/recovery":   p.forUser(p.sendRecovery),
		"POST " + user + "/sessions":   p.change("users_sessions_ended", personal.Administration.RevokeUserSessions),
		"POST " + user + "/two-factor": p.change("users_two_factor_removed", personal.Administration.RemoveTwoFactor),
	} {
		s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) error { return handle(w, r, ui.Posted{}) })
	}
	s.HandleForm("POST "+user, ui.ReadLargeForm, p.forUser(p.saveProfile))
	s.HandleForm("POST "+user+"/email", ui.ReadForm, p.forUser(p.saveEmail))
	s.HandleForm("POST "+user+"/delete", ui.ReadForm, p.forUser(p.delete))
}

// listBody is the body of the list page.
type listBody struct {
	Form   ui.Form // of the search
	Users  []personal.User
	Newest string // URL of the first page; empty on that page
	Older  string // URL of the next page; empty on the last one
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	query := r.URL.Query()
	after, _ := strconv.ParseInt(query.Get("after"), 10, 64) // 0, the first page, if it is not a number
	request := personal.FindUsersRequest{Search: query.Get("search"), State: personal.UserState(query.Get("state")), After: max(0, after), Limit: pageSize}
	body := listBody{Form: ui.Form{Controls: p.searchControls(r, request)}}
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
	pageURL := func(after string) string {
		return admin.URL(listPath, "search", request.Search, "state", string(request.State), "after", after)
	}
	if after > 0 {
		body.Newest = pageURL("")
	}
	if page.Next != 0 {
		body.Older = pageURL(strconv.FormatInt(page.Next, 10))
	}
	return p.site.Render(w, r, status, "users", ui.Page{Notice: p.site.Notice(w, r, "users_deleted"), Body: body})
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
