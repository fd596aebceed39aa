package ui

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
)

const noticeCookie = "notice"

var noticeCode = regexp.MustCompile(`\A[a-z][a-z_]{0,40}\z`)

// LeaveNotice makes the next page show what just succeeded. The code is kept in the
// browser for up to a minute.
func (p *Pages) LeaveNotice(w http.ResponseWriter, r *http.Request, code string) {
	personalweb.SetCookie(p.API, w, r, http.Cookie{Name: noticeCookie, Value: code, MaxAge: 60})
}

// TakeNotice returns and deletes the code of [Pages.LeaveNotice], empty if there is none.
// Visitors can make up codes: use it only as a key of known texts.
func (p *Pages) TakeNotice(w http.ResponseWriter, r *http.Request) string {
	code := personalweb.CookieValue(p.API, r, noticeCookie)
	if code == "" {
		return ""
	}
	personalweb.SetCookie(p.API, w, r, http.Cookie{Name: noticeCookie, MaxAge: -1})
	if !noticeCode.MatchString(code) {
		return ""
	}
	return code
}

// LanguageCookie is the cookie of a visitor who has chosen a language.
const LanguageCookie = "language"

// RememberedLanguage makes next use the language that the visitor has chosen
// instead of those that their browser requests. If the pages have languages of their own ([Options.Locales]), a call
// that a handler in front has made in another language gets one of these.
func (p *Pages) RememberedLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if chosen := personalweb.CookieValue(p.API, r, LanguageCookie); slices.Contains(p.Locales, chosen) {
			ctx := r.Context()
			if call := personal.CallFrom(ctx); call.RequestID != "" { // made by a handler in front
				call.Locale, call.Languages = chosen, ""
				ctx = personal.WithCall(ctx, call)
			}
			r = r.Clone(ctx)
			r.Header.Set("Accept-Language", chosen)
		} else if call := personal.CallFrom(r.Context()); p.ownLocales && call.RequestID != "" && !slices.Contains(p.Locales, call.Locale) {
			call.Languages = cmp.Or(call.Languages, call.Locale) // of mails
			call.Locale = p.API.Locale(r)
			r = r.WithContext(personal.WithCall(r.Context(), call))
		}
		next.ServeHTTP(w, r)
	})
}

// SwitchLanguage handles the language form of every page: it remembers the chosen
// language for a year and leads back to the page. It ignores a form that cannot be
// read, and responds to one of more than 192 KiB with 413.
func (p *Pages) SwitchLanguage(w http.ResponseWriter, r *http.Request) {
	posted, err := ReadForm(w, r)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
		return
	}
	if chosen := posted.Get("language"); slices.Contains(p.Locales, chosen) {
		personalweb.SetCookie(p.API, w, r, http.Cookie{Name: LanguageCookie, Value: chosen, MaxAge: 365 * 24 * 60 * 60})
	}
	Redirect(w, r, personalweb.LocalPath(posted.Get("next"), "/"))
}
