package ui

import (
	"net/http"
	"slices"
)

const languageCookie = "language"

// RememberedLanguage lets a language that the visitor has chosen stand in for
// those that his browser asks for, in everything that next does.
func RememberedLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie(languageCookie); err == nil && slices.Contains(Locales(), c.Value) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept-Language", c.Value)
		}
		next.ServeHTTP(w, r)
	})
}

// SwitchLanguage answers the form that every page has: it remembers the language
// for a year and leads back to the page.
func SwitchLanguage(w http.ResponseWriter, r *http.Request) {
	posted, _ := ReadForm(w, r) // what cannot be read chooses nothing
	if chosen := posted.Get("language"); slices.Contains(Locales(), chosen) {
		http.SetCookie(w, &http.Cookie{
			Name: languageCookie, Value: chosen, Path: "/", MaxAge: 365 * 24 * 60 * 60,
			Secure: OverHTTPS(r), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	Redirect(w, r, LocalPath(posted.Get("next"), "/"))
}
