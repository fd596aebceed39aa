package ui

import (
	"errors"
	"net/http"
	"slices"
)

const languageCookie = "language"

// RememberedLanguage lets a language that the visitor has chosen stand in for
// those that his browser asks for, in everything that next does.
func RememberedLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if chosen := CookieValue(r, languageCookie); slices.Contains(Locales(), chosen) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept-Language", chosen)
		}
		next.ServeHTTP(w, r)
	})
}

// SwitchLanguage answers the form that every page has: it remembers the language
// for a year and leads back to the page. A form that cannot be read chooses
// nothing; one of more than 64 KiB is refused with 413.
func SwitchLanguage(w http.ResponseWriter, r *http.Request) {
	posted, err := ReadForm(w, r)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		http.Error(w, http.StatusText(http.StatusRequestEntityTooLarge), http.StatusRequestEntityTooLarge)
		return
	}
	if chosen := posted.Get("language"); slices.Contains(Locales(), chosen) {
		SetCookie(w, r, http.Cookie{Name: languageCookie, Value: chosen, MaxAge: 365 * 24 * 60 * 60})
	}
	Redirect(w, r, LocalPath(posted.Get("next"), "/"))
}
