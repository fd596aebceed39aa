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
	SetCookie(w, r, http.Cookie{Name: noticeCookie, Value: code, MaxAge: 60})
}

// TakeNotice returns the code that was left, empty if none was. A visitor can
// make up any: only look it up.
func TakeNotice(w http.ResponseWriter, r *http.Request) string {
	code := CookieValue(r, noticeCookie)
	if code == "" {
		return ""
	}
	SetCookie(w, r, http.Cookie{Name: noticeCookie, MaxAge: -1})
	if !noticeCode.MatchString(code) {
		return ""
	}
	return code
}
