package adminpages

import (
	"net/http"
	"net/netip"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// emailForm is a form of its own: an e-mail is set for itself, and voids what was
// mailed.
func (s *site) emailForm(r *http.Request, user personal.UserRecord) ui.Form {
	form := ui.Form{Action: userURL(user.ID, "/email"), Submit: s.pages.Text(r, "users_email_save"), Controls: []ui.Control{{
		Name: "email", Type: "email", Label: s.pages.Text(r, "users_email"), Hint: s.pages.Text(r, "users_email_hint"),
		Value: user.Email, Autocomplete: "off",
	}}}
	form.Remember()
	return form
}

func (s *site) saveEmail(w http.ResponseWriter, r *http.Request, id int64) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	if posted.Changed("email") {
		if err := s.Users.SetEmail(r.Context(), personal.SetEmailRequest{UserID: id, Email: posted.Get("email")}); err != nil {
			s.refuseEmail(w, r, id, posted, err)
			return
		}
		s.noteUser(r, "users_email_saved", id)
	}
	toUser(w, r, "users_email_saved", id)
}

// refuseEmail shows what is wrong with an e-mail beside it. Where a user is there
// and yet not found, the running version cannot set any.
func (s *site) refuseEmail(w http.ResponseWriter, r *http.Request, id int64, posted ui.Posted, err error) {
	code := personal.CodeOf(err)
	if code != personal.CodeValidationFailed && code != personal.CodeAlreadyExists && code != personal.CodeNotFound {
		s.refuseUsers(w, r, err)
		return
	}
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	if code == personal.CodeNotFound {
		s.problem(w, r, ui.Problem{Status: http.StatusNotImplemented, Message: s.pages.Text(r, "users_email_not_offered")})
		return
	}
	body := s.userBody(r, user)
	body.Email.Fill(posted)
	status := s.refuseForm(r, &body.Email, err)
	s.renderUser(w, r, status, body)
}

// sendRecovery asks for a recovery as the user would, so that nobody but him gets
// to know a password. The administrator's address has no part in it: it would be
// counted as that of somebody who asks for recoveries, and shown as the user's.
func (s *site) sendRecovery(w http.ResponseWriter, r *http.Request, id int64) {
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	if !recoverable(user) { // the page was open for long
		toUser(w, r, "users_recovery_not_sent", user.ID)
		return
	}
	call := personal.CallFrom(r.Context())
	call.Address = netip.Addr{}
	if err := s.Recovery.Recover(personal.WithCall(r.Context(), call), personal.RecoverRequest{Email: user.Email}); err != nil {
		s.refuseUsers(w, r, err)
		return
	}
	s.noteUser(r, "users_recovery_sent", user.ID)
	toUser(w, r, "users_recovery_sent", user.ID)
}

// recoverable reports whether a recovery mail would be sent at all.
func recoverable(user personal.UserRecord) bool { return user.Email != "" && !user.Disabled }
