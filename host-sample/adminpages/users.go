package adminpages

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

const (
	usersPath = "/admin/users"

	// usersTimeout bounds a page's calls of the plugin, so that one that hangs does
	// not keep the administrator waiting.
	usersTimeout = 15 * time.Second
)

func (s *site) userRoutes() {
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET " + usersPath:                     s.listUsers,
		"GET " + usersPath + "/{id}":           s.forUser(s.showUser),
		"POST " + usersPath + "/{id}":          s.forUser(s.saveUser),
		"GET " + usersPath + "/{id}/delete":    s.forUser(s.confirmDeletion),
		"POST " + usersPath + "/{id}/delete":   s.forUser(s.deleteUser),
		"POST " + usersPath + "/{id}/disable":  s.changeUser("users_disabled", personal.Administration.DisableUser),
		"POST " + usersPath + "/{id}/enable":   s.changeUser("users_enabled", personal.Administration.EnableUser),
		"POST " + usersPath + "/{id}/email":    s.forUser(s.saveEmail),
		"POST " + usersPath + "/{id}/recovery": s.forUser(s.sendRecovery),
		"POST " + usersPath + "/{id}/sessions": s.changeUser("users_sessions_ended", personal.Administration.RevokeUserSessions),
	} {
		s.private(pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), usersTimeout)
			defer cancel()
			handle(w, r.WithContext(ctx))
		})
	}
}

// usersBody is the page that lists users.
type usersBody struct {
	Form   ui.Form // of the search, with what is wrong with it
	Users  []personal.User
	Newest string // the first page; empty if this is it
	Older  string // the next page; empty if there is none
}

func (s *site) listUsers(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, _ := strconv.ParseInt(query.Get("after"), 10, 64) // what is no number is the first page
	request := personal.FindUsersRequest{Search: query.Get("search"), State: personal.UserState(query.Get("state")), After: max(0, after)}
	body := usersBody{Form: ui.Form{Controls: s.searchControls(r, request)}}
	page, err := s.Users.FindUsers(r.Context(), request)
	status := http.StatusOK
	switch personal.CodeOf(err) {
	case "":
	case personal.CodeNotFound:
		s.problem(w, r, ui.Problem{Status: http.StatusNotImplemented, Message: s.pages.Text(r, "users_not_offered")})
		return
	case personal.CodeValidationFailed:
		status = s.refuseForm(r, &body.Form, err)
	default:
		s.refuseUsers(w, r, err)
		return
	}
	body.Users = page.Users
	if after > 0 {
		body.Newest = usersURL(request, 0)
	}
	if page.Next != 0 {
		body.Older = usersURL(request, page.Next)
	}
	s.render(w, r, status, "users", ui.Page{Notice: s.notice(w, r, "users_deleted"), Body: body})
}

func (s *site) searchControls(r *http.Request, request personal.FindUsersRequest) []ui.Control {
	return []ui.Control{
		{Name: "search", Type: "search", Label: s.pages.Text(r, "users_search"), Value: request.Search, Autocomplete: "off"},
		{Kind: ui.KindSelect, Name: "state", Label: s.pages.Text(r, "users_state"), Value: string(request.State), Options: []ui.Choice{
			{Label: s.pages.Text(r, "users_all")},
			{Value: string(personal.UserActive), Label: s.pages.Text(r, "users_active")},
			{Value: string(personal.UserDisabled), Label: s.pages.Text(r, "users_barred")},
		}},
	}
}

// usersURL returns the address of a page of the same search.
func usersURL(request personal.FindUsersRequest, after int64) string {
	query := url.Values{}
	if request.Search != "" {
		query.Set("search", request.Search)
	}
	if request.State != "" {
		query.Set("state", string(request.State))
	}
	if after != 0 {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	return usersPath + "?" + query.Encode()
}

// refuseForm says in a form what the plugin found wrong with it, and returns the
// status.
func (s *site) refuseForm(r *http.Request, form *ui.Form, err error) int {
	x := s.API.Explain(r, err)
	faults := map[string]string{}
	for name, fault := range x.Fields {
		faults[name] = fault.Message
	}
	form.Refuse(x.Message, faults)
	return x.Status
}

// refuseUsers answers a call of the plugin that failed.
func (s *site) refuseUsers(w http.ResponseWriter, r *http.Request, err error) {
	x := s.API.Explain(r, err)
	if x.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(x.RetryAfter, 10))
	}
	message := x.Message
	if x.Code == personal.CodeUnavailable {
		message = s.pages.Text(r, "users_unavailable")
	}
	s.problem(w, r, ui.Problem{Status: x.Status, Message: message, Retry: x.RetryAfter > 0})
}
