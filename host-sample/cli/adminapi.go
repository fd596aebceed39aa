package cli

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
)

// pluginAPI is the path of [github.com/cms-personal/personal/shared/plugins/adminapi].
const pluginAPI = "/admin/api/plugin"

// adminAPI serves /admin/api/ to callers with the admin token.
type adminAPI struct {
	token  [sha256.Size]byte // digest of the admin token
	fields *fieldstore.Store
	users  fieldsAdministration
	plugin http.Handler  // of the paths below pluginAPI
	link   func() string // returns a new link to the admin pages
	record *personaladmin.AccessLog
	log    *slog.Logger
}

func (a *adminAPI) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/api/user-fields", a.getFields)
	mux.HandleFunc("PUT /admin/api/user-fields", a.putFields)
	mux.HandleFunc("POST /admin/api/user-fields/rehearsal", a.postRehearsal)
	mux.HandleFunc("GET /admin/api/user-fields/fill", a.getFill)
	mux.HandleFunc("POST /admin/api/link", a.postLink)
	plugin := http.StripPrefix(pluginAPI, a.plugin)
	mux.Handle(pluginAPI, plugin)
	mux.Handle(pluginAPI+"/", plugin)
	return a.guard(mux)
}

// adminError is the body of every error response.
type adminError struct {
	Error  string `json:"error"`
	Field  string `json:"field,omitempty"`  // the invalid user field
	Reason string `json:"reason,omitempty"` // why it is invalid
}

// guard rejects requests without the admin token, and those of pages of other
// sites.
func (a *adminAPI) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		switch {
		case fromAnotherSite(r):
			a.record.Refused(r, "a page of another origin")
			writeJSON(w, http.StatusForbidden, adminError{Error: "requests from pages of other sites are refused"})
		case !a.authorised(r):
			a.record.Refused(r, "no admin token, or a wrong one")
			header.Set("WWW-Authenticate", "Bearer")
			writeJSON(w, http.StatusUnauthorized, adminError{Error: "send the token from DATA/admin-token: Authorization: Bearer TOKEN"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorised compares digests, so that the time taken reveals nothing about the
// token.
func (a *adminAPI) authorised(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], a.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// fromAnotherSite reports whether a browser says that a page of another origin
// sent the request.
func fromAnotherSite(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

// matches evaluates If-Match (RFC 9110, section 13.1.1). A request without one
// matches every revision.
func matches(r *http.Request, revision string) bool {
	wanted := r.Header.Values("If-Match")
	if len(wanted) == 0 {
		return true
	}
	for _, tag := range strings.Split(strings.Join(wanted, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(revision) {
			return true
		}
	}
	return false
}

func etag(revision string) string { return `"` + revision + `"` }

// adminLink is the response of /admin/api/link.
type adminLink struct {
	URL string `json:"url"` // single use, valid for admin.LinkLife
}

func (a *adminAPI) postLink(w http.ResponseWriter, r *http.Request) {
	a.record.Granted(r, "a link to the admin pages was given out")
	writeJSON(w, http.StatusOK, adminLink{URL: a.link()})
}

func writeFields(w http.ResponseWriter, set *fieldstore.Set) {
	w.Header().Set("ETag", etag(set.Schema.Revision))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(set.Source) // an error means that the client is gone
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client is gone
}
