package personalpages

import (
	"net/http"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// sessionPages are the page that lists the visitor's sessions, and its buttons.
type sessionPages struct{ *site }

func (p sessionPages) route(mux *http.ServeMux) {
	mux.Handle("GET "+sessionsPath, p.requireUser(p.list))
	mux.Handle("POST "+revokePath, p.requireUser(p.revoke))
	mux.Handle("POST "+othersPath, p.requireUser(p.revokeOthers))
}

// sessionList is what the template of the page gets.
type sessionList struct {
	Sessions                []session
	Revoke, Others, SignOut string // the paths that the buttons post to
}

type session struct {
	personal.Session
	Device string // empty if unknown
	How    string // it began; empty if unknown
}

func (p sessionPages) list(w http.ResponseWriter, r *http.Request) {
	list, err := p.Service.Sessions(r.Context(), p.credentials(r))
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	body := sessionList{Revoke: revokePath, Others: othersPath, SignOut: signOutPath}
	for _, one := range list {
		body.Sessions = append(body.Sessions, session{Session: one, Device: ui.Device(one.Agent), How: p.how(r, one.Method)})
	}
	page := p.page(w, r)
	page.SubNav, page.Body = p.accountNav(r), body
	p.send(w, r, http.StatusOK, "sessions", page)
}

// how says how a session began: a site that opens sessions itself has its own names.
func (p sessionPages) how(r *http.Request, method string) string {
	if slices.Contains(personal.ModuleMethods(), method) {
		return p.text(r, "session_method_"+method)
	}
	if provider, ok := p.providerNamed(method); ok {
		return provider.Label
	}
	return method
}

func (p sessionPages) revoke(w http.ResponseWriter, r *http.Request) {
	posted, ok := p.readPosted(w, r)
	if !ok {
		return
	}
	if err := p.Service.RevokeSession(r.Context(), personal.RevokeSessionRequest{Credentials: p.credentials(r), ID: posted.Get("id")}); err != nil {
		p.refuse(w, r, err)
		return
	}
	p.pages.LeaveNotice(w, r, "sessions_revoke")
	ui.Redirect(w, r, sessionsPath)
}

// revokeOthers ends every session of the account but this one.
func (p sessionPages) revokeOthers(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.readPosted(w, r); !ok {
		return
	}
	if err := p.Service.RevokeOtherSessions(r.Context(), p.credentials(r)); err != nil {
		p.refuse(w, r, err)
		return
	}
	p.pages.LeaveNotice(w, r, "sessions_revoke_others")
	ui.Redirect(w, r, sessionsPath)
}

// lastSignIn is what the template of the last sign-in gets.
type lastSignIn struct {
	personal.Event
	Others string // the path that its button posts to; empty if there is no other session
}

// lastSignIn returns the visitor's sign-in before this one, nil if there is none or the
// audit log cannot be read. The list of sessions would not do: a thief who has signed out
// is not in it. The log does not check who asks, so only a user whom the service has
// verified will do.
func (s *site) lastSignIn(r *http.Request) any {
	user, ok := personalhttp.UserFrom(r.Context())
	if !ok {
		return nil
	}
	page, err := s.admin.AuditEntries(r.Context(), personal.AuditEntriesRequest{UserID: user.ID, Type: personal.EventSignedIn, Limit: 2})
	if err != nil || len(page.Entries) < 2 {
		return nil // the page is more important
	}
	last := lastSignIn{page.Entries[1].Event, othersPath}
	if sessions, err := s.Service.Sessions(r.Context(), s.credentials(r)); err == nil && len(sessions) == 1 {
		last.Others = ""
	}
	return last
}
