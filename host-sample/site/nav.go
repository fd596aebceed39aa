package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
)

// page returns what all pages have.
func (s *site) page(w http.ResponseWriter, r *http.Request) ui.Page {
	_, signedIn := s.viewer(r)
	return ui.Page{Nav: s.nav(r, signedIn), Notice: s.notice(w, r)}
}

// notice returns what the page before has left to be told.
func (s *site) notice(w http.ResponseWriter, r *http.Request) string {
	return s.api.Confirm(r, ui.TakeNotice(w, r))
}

func (s *site) nav(r *http.Request, signedIn bool) []ui.Link {
	if !signedIn {
		return []ui.Link{
			{Text: s.pages.Text(r, "sign_in"), Path: signInPath},
			{Text: s.pages.Text(r, "register"), Path: registerPath},
		}
	}
	return []ui.Link{
		{Text: s.pages.Text(r, "demo"), Path: demoPath},
		{Text: s.pages.Text(r, "account"), Path: accountPath},
		{Text: s.pages.Text(r, "sign_out"), Path: signOutPath, Post: true},
	}
}

// accountNav leads through the pages of the account.
func (s *site) accountNav(r *http.Request) []ui.Link {
	return []ui.Link{
		{Text: s.pages.Text(r, "profile"), Path: accountPath},
		{Text: s.pages.Text(r, "password"), Path: passwordPath},
		{Text: s.pages.Text(r, "email"), Path: newEmailPath},
		{Text: s.pages.Text(r, "sessions"), Path: sessionsPath},
	}
}
