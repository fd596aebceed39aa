package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/shared/userfields"
)

// maxFieldsBody bounds an uploaded schema, in bytes.
const maxFieldsBody = 256 << 10

// adminAPI is what administrators reach under /admin/api/.
type adminAPI struct {
	token  [sha256.Size]byte // digest of the one token
	fields *fieldstore.Store
	plugin http.Handler  // without its path
	link   func() string // a fresh one for a browser
	record *admin.AccessLog
	log    *slog.Logger
}

func newAdminAPI(token string, fields *fieldstore.Store, plugin http.Handler, link func() string, rec *admin.AccessLog, log *slog.Logger) *adminAPI {
	return &adminAPI{token: sha256.Sum256([]byte(token)), fields: fields, plugin: plugin, link: link, record: rec, log: log}
}

func (a *adminAPI) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/api/user-fields", a.getFields)
	mux.HandleFunc("PUT /admin/api/user-fields", a.putFields)
	mux.HandleFunc("POST /admin/api/link", a.postLink)
	plugin := http.StripPrefix(pluginAPI, a.plugin)
	mux.Handle(pluginAPI, plugin)
	mux.Handle(pluginAPI+"/", plugin)
	return a.guard(mux)
}

// adminFault is the body of every refusal.
type adminFault struct {
	Error  string `json:"error"`
	Field  string `json:"field,omitempty"`  // the user field at fault
	Reason string `json:"reason,omitempty"` // what is wrong with it
}

// guard lets in whoever shows the admin token, but no page of another site.
func (a *adminAPI) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		switch {
		case fromAnotherSite(r):
			a.record.Refused(r, "a page of another origin")
			writeJSON(w, http.StatusForbidden, adminFault{Error: "requests from pages of other sites are refused"})
		case !a.authorised(r):
			a.record.Refused(r, "no admin token, or a wrong one")
			header.Set("WWW-Authenticate", "Bearer")
			writeJSON(w, http.StatusUnauthorized, adminFault{Error: "show the token from DATA/admin-token: Authorization: Bearer TOKEN"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// authorised compares digests, whose time tells nothing about the token.
func (a *adminAPI) authorised(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// fromAnotherSite goes by what browsers say of a request's page.
func fromAnotherSite(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}

func (a *adminAPI) getFields(w http.ResponseWriter, _ *http.Request) {
	writeFields(w, a.fields.Get())
}

func (a *adminAPI) putFields(w http.ResponseWriter, r *http.Request) {
	source, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFieldsBody))
	if err != nil {
		a.refuse(w, err)
		return
	}
	set, err := a.fields.Put(source, func(revision string) bool { return mayReplace(r, revision) })
	if err != nil {
		a.refuse(w, err)
		return
	}
	a.log.InfoContext(r.Context(), "user fields changed", "revision", set.Schema.Revision, "fields", len(set.Schema.Fields))
	writeFields(w, set)
}

// mayReplace judges If-Match (RFC 9110, section 13.1.1); without one a schema is
// replaced whatever it is.
func mayReplace(r *http.Request, revision string) bool {
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

// adminLink is the answer of /admin/api/link.
type adminLink struct {
	URL string `json:"url"` // good once, for [admin.LinkLife]
}

func (a *adminAPI) postLink(w http.ResponseWriter, r *http.Request) {
	a.record.Granted(r, "a link to the admin pages was given out")
	writeJSON(w, http.StatusOK, adminLink{URL: a.link()})
}

// refuse answers what went wrong with a change of the schema.
func (a *adminAPI) refuse(w http.ResponseWriter, err error) {
	var faulty *userfields.SchemaError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &faulty):
		writeJSON(w, http.StatusUnprocessableEntity, adminFault{Error: faulty.Error(), Field: faulty.Field, Reason: faulty.Problem})
	case errors.Is(err, fieldstore.ErrChanged):
		writeJSON(w, http.StatusPreconditionFailed, adminFault{Error: fieldstore.ErrChanged.Error()})
	case errors.As(err, &large):
		writeJSON(w, http.StatusRequestEntityTooLarge, adminFault{Error: "the schema is larger than 256 KiB"})
	default:
		a.log.Error("changing the user fields", "error", err)
		writeJSON(w, http.StatusInternalServerError, adminFault{Error: "the change failed, see the host's log"})
	}
}

func writeFields(w http.ResponseWriter, set *fieldstore.Set) {
	w.Header().Set("ETag", etag(set.Schema.Revision))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(set.Source) // an error means that nobody listens any more
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that nobody listens any more
}
