package site

import (
	"net/http"
	"strings"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// sessionsPage is what the template of sessions gets.
type sessionsPage struct {
	Sessions         []session
	End, EndEveryone string // where the buttons post
}

// session is a session and what to call it.
type session struct {
	personal.Session
	Device string // empty if unknown
}

func (s *site) sessions(w http.ResponseWriter, r *http.Request) {
	c, _ := s.cookies.credentials(r)
	list, err := s.service.Sessions(r.Context(), c)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	body := sessionsPage{End: endPath, EndEveryone: signOutPath}
	for _, one := range list {
		body.Sessions = append(body.Sessions, session{Session: one, Device: device(one.Agent)})
	}
	p := s.page(w, r)
	p.SubNav, p.Body = s.accountNav(r), body
	s.pages.Render(w, r, http.StatusOK, "sessions", p)
}

func (s *site) endSession(w http.ResponseWriter, r *http.Request) {
	posted, err := ui.ReadForm(w, r)
	if err != nil {
		s.refuse(w, r, unreadable(err))
		return
	}
	c, _ := s.cookies.credentials(r)
	if err := s.service.RevokeSession(r.Context(), personal.RevokeSessionRequest{Credentials: c, ID: posted.Get("id")}); err != nil {
		s.refuse(w, r, err)
		return
	}
	ui.LeaveNotice(w, r, "sessions_revoke")
	ui.Redirect(w, r, sessionsPath)
}

// device returns what a visitor would call the program of a User-Agent, and the
// header itself where it is none of the usual. Programs claim to be others too,
// so the order counts.
func device(agent string) string {
	browser := first(agent, [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"YaBrowser/", "Yandex"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := first(agent, [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"},
		{"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	})
	switch {
	case browser == "":
		return agent
	case system == "":
		return browser
	}
	return browser + " · " + system
}

// first returns the name of the first mark that a text has.
func first(text string, marks [][2]string) string {
	for _, mark := range marks {
		if strings.Contains(text, mark[0]) {
			return mark[1]
		}
	}
	return ""
}
