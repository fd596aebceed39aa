// Package users has the admin pages of users: the list with its search and with actions
// for several users, the page of a new user, and the page of one user.
package users

import (
	"context"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	listPath = frame.Path + "/users"
	pageSize = 50 // users on a page
)

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
		"GET " + user + "/ways-in":    p.forUser(p.confirmWays),
		"GET " + user + "/reset":      p.forUser(p.confirmReset),
		"POST " + user + "/disable":   p.change("disable"),
		"POST " + user + "/enable":    p.change("enable"),
		"POST " + user + "/recovery":  p.change("recovery"),
		"POST " + user + "/sessions":  p.change("sign_out"),
		"POST " + user + "/ways-in":   p.change("ways_in"),
	} {
		s.Handle(pattern, func(w http.ResponseWriter, r *http.Request) error { return handle(w, r, ui.Posted{}) })
	}
	s.HandleForm("POST "+user, ui.ReadLargeForm, p.forUser(p.saveProfile))
	s.HandleForm("POST "+user+"/sessions/end", ui.ReadForm, p.forUser(p.endSession))
	s.HandleForm("POST "+user+"/email", ui.ReadForm, p.forUser(p.saveEmail))
	s.HandleForm("POST "+user+"/two-factor", ui.ReadForm, p.removeFactor)
	s.HandleForm("POST "+user+"/identities", ui.ReadForm, p.unlinkIdentity)
	s.HandleForm("POST "+user+"/reset", ui.ReadForm, p.forUser(p.reset))
	s.HandleForm("POST "+user+"/delete", ui.ReadForm, p.forUser(p.delete))
}

// pageError returns the error page of a call that failed.
func (p *Pages) pageError(r *http.Request, err error) error {
	if personal.CodeOf(err) == personal.CodeNotFound {
		return p.site.PageError(r, http.StatusNotFound, "users_unknown")
	}
	return p.site.PluginError(r, err)
}
