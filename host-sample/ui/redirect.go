package ui

import (
	"net/http"
	"net/url"
	"strings"
)

// Redirect leads to another page of this site, which is then asked for by GET.
func Redirect(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, path, http.StatusSeeOther)
}

// LocalPath returns a path that came with a request if it leads to a page of
// this site, else the fallback. Browsers take "//host" for another site, and
// "\" for a slash.
func LocalPath(path, fallback string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil ||
		!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return fallback
	}
	return path
}
