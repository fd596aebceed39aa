package ui

import (
	"net/http"
	"regexp"
)

const noticeCookie = "notice"

var noticeCode = regexp.MustCompile(`\A[a-z][a-z_]{0,40}\z`)

// LeaveNotice has the next page tell what just succeeded. The browser keeps
// the code until then, so the server keeps nothing.
func LeaveNotice(w http.ResponseWriter, r *http.Request, code string) {
	setNotice(w, r, code, 60)
}

// TakeNotice returns the code that was left, empty if none was. A visitor can
// make up any: only look it up.
func TakeNotice(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	setNotice(w, r, "", -1)
	if !noticeCode.MatchString(c.Value) {
		return ""
	}
	return c.Value
}

func setNotice(w http.ResponseWriter, r *http.Request, code string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: code, Path: "/", MaxAge: seconds,
		Secure: OverHTTPS(r), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
