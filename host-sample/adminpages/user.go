package adminpages

import (
	"context"
	"net/http"
	"strconv"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// userBody is the page of one user.
type userBody struct {
	User     personal.UserRecord
	Form     ui.Form
	Email    ui.Form
	Sessions []personal.Session
}

// Recoverable is for the template.
func (b userBody) Recoverable() bool { return recoverable(b.User) }

func (s *site) showUser(w http.ResponseWriter, r *http.Request, id int64) {
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	s.renderUser(w, r, http.StatusOK, s.userBody(r, user))
}

// userBody is a user's page but for the sessions.
func (s *site) userBody(r *http.Request, user personal.UserRecord) userBody {
	return userBody{User: user, Form: s.userForm(r, user), Email: s.emailForm(r, user)}
}

func (s *site) renderUser(w http.ResponseWriter, r *http.Request, status int, body userBody) {
	var err error
	if body.Sessions, err = s.Users.UserSessions(r.Context(), body.User.ID); err != nil {
		s.refuseUser(w, r, err)
		return
	}
	notice := s.notice(w, r, "users_saved", "users_email_saved", "users_recovery_sent", "users_recovery_not_sent",
		"users_disabled", "users_enabled", "users_sessions_ended")
	s.render(w, r, status, "user", ui.Page{Notice: notice, Body: body})
}

// user asks for a user, or answers that there is none.
func (s *site) user(w http.ResponseWriter, r *http.Request, id int64) (personal.UserRecord, bool) {
	user, err := s.Users.User(r.Context(), id)
	if err != nil {
		s.refuseUser(w, r, err)
		return personal.UserRecord{}, false
	}
	return user, true
}

// forUser returns the handler of what concerns the user that a request names.
func (s *site) forUser(handle func(w http.ResponseWriter, r *http.Request, id int64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || id < 1 {
			s.problem(w, r, ui.Problem{Status: http.StatusNotFound, Message: s.pages.Text(r, "users_unknown")})
			return
		}
		handle(w, r, id)
	}
}

// refuseUser answers a call about one user that failed. It may be that there is no
// such user, or that the running version knows no administration.
func (s *site) refuseUser(w http.ResponseWriter, r *http.Request, err error) {
	if personal.CodeOf(err) != personal.CodeNotFound {
		s.refuseUsers(w, r, err)
		return
	}
	status, key := http.StatusNotFound, "users_unknown"
	_, err = s.Users.FindUsers(r.Context(), personal.FindUsersRequest{Limit: 1})
	if personal.CodeOf(err) == personal.CodeNotFound {
		status, key = http.StatusNotImplemented, "users_not_offered"
	}
	s.problem(w, r, ui.Problem{Status: status, Message: s.pages.Text(r, key)})
}

// userURL returns the address of a user's page, or of one below it.
func userURL(id int64, below string) string {
	return usersPath + "/" + strconv.FormatInt(id, 10) + below
}

// changeUser returns the handler of a button that needs nothing else.
func (s *site) changeUser(notice string, change func(personal.Administration, context.Context, int64) error) http.HandlerFunc {
	return s.forUser(func(w http.ResponseWriter, r *http.Request, id int64) {
		if err := change(s.Users, r.Context(), id); err != nil {
			s.refuseUser(w, r, err)
			return
		}
		s.noteUser(r, notice, id)
		toUser(w, r, notice, id)
	})
}

// toUser leads back to a user's page, which tells what was done.
func toUser(w http.ResponseWriter, r *http.Request, notice string, id int64) {
	ui.LeaveNotice(w, r, notice)
	ui.Redirect(w, r, userURL(id, ""))
}

// noteUser leaves what an administrator did in the log.
func (s *site) noteUser(r *http.Request, what string, id int64) {
	s.Log.InfoContext(r.Context(), "user changed by an administrator", "change", what, "user_id", id,
		"request_id", personal.CallFrom(r.Context()).RequestID)
}

// confirmDeletion asks once more, for the login, before a user is deleted.
func (s *site) confirmDeletion(w http.ResponseWriter, r *http.Request, id int64) {
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	s.render(w, r, http.StatusOK, "userdelete", ui.Page{Body: userBody{User: user, Form: s.deletionForm(r, user)}})
}

func (s *site) deletionForm(r *http.Request, user personal.UserRecord) ui.Form {
	return ui.Form{
		Action: userURL(user.ID, "/delete"), Submit: s.pages.Text(r, "users_delete"), Danger: true,
		Controls: []ui.Control{{Name: "login", Label: s.pages.Text(r, "users_type_login", user.Login), Required: true, Autocomplete: "off"}},
	}
}

func (s *site) deleteUser(w http.ResponseWriter, r *http.Request, id int64) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	if posted.Get("login") != user.Login {
		form := s.deletionForm(r, user)
		form.Fill(posted)
		form.Refuse(s.pages.Text(r, "users_not_deleted"), map[string]string{"login": s.pages.Text(r, "users_other_login")})
		s.render(w, r, http.StatusUnprocessableEntity, "userdelete", ui.Page{Body: userBody{User: user, Form: form}})
		return
	}
	if err := s.Users.DeleteUser(r.Context(), user.ID); err != nil {
		s.refuseUser(w, r, err)
		return
	}
	s.noteUser(r, "users_deleted", user.ID)
	ui.LeaveNotice(w, r, "users_deleted")
	ui.Redirect(w, r, usersPath)
}
