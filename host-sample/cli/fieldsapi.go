package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/userfields"
)

// maxFieldsBody bounds an uploaded schema, in bytes.
const maxFieldsBody = 256 << 10

// fieldsTimeout bounds the calls to the plugin for one request: a rehearsal takes up to 10
// seconds.
const fieldsTimeout = 15 * time.Second

// fieldsAdministration is the part of [personal.Administration] that knows what a schema
// does to the users there are.
type fieldsAdministration interface {
	PreviewFields(ctx context.Context, fields []personal.Field) (personal.FieldsPreview, error)
	FillFields(ctx context.Context, revision string) error
	FieldsFill(ctx context.Context) (personal.FieldsFill, error)
}

// The values of ?violations=: what happens to users whose values the new schema refuses.
const (
	violationsAsk     = "ask"     // they are asked at their next sign-in
	violationsRefuse  = "refuse"  // the schema is not saved if there are any
	violationsDefault = "default" // missing values are filled in, and the users asked for the rest
)

// rehearsal says what a schema would do to the users there are.
type rehearsal struct {
	personal.FieldsPreview
	AtLeast  bool                       `json:"at_least"` // not all users were checked
	Examples []personal.FieldsViolation `json:"examples"` // never null
	Warnings []string                   `json:"warnings,omitempty"`
}

func newRehearsal(found personal.FieldsPreview) *rehearsal {
	r := &rehearsal{found, !found.Complete, append([]personal.FieldsViolation{}, found.Examples...), nil}
	for _, name := range slices.Sorted(maps.Keys(found.Kept)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s becomes read-only and keeps the values of %d users, who may have typed them: "+
			"check these before a page trusts them", name, found.Kept[name]))
	}
	return r
}

// refusedSchema is the response to a schema that is not saved because of the users.
type refusedSchema struct {
	Error string `json:"error"`
	*rehearsal
}

func (a *adminAPI) getFields(w http.ResponseWriter, _ *http.Request) {
	writeFields(w, a.fields.Get())
}

// putFields replaces the schema. Nothing is saved if it is refused. With
// violations=default the filling begins once the schema is saved; if that fails, the same
// request may be repeated.
func (a *adminAPI) putFields(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), fieldsTimeout)
	defer cancel()
	choice := violationsAsk
	if given := r.URL.Query()["violations"]; len(given) > 0 {
		choice = strings.Join(given, ",")
	}
	source, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFieldsBody))
	if err != nil {
		a.refuseFields(w, r, err)
		return
	}
	switch choice {
	case violationsAsk:
	case violationsRefuse:
		if !a.mayReplace(ctx, w, r, source) {
			return
		}
	case violationsDefault:
		if _, err := a.users.FieldsFill(ctx); err != nil { // before anything is saved
			a.refuseFields(w, r, err)
			return
		}
	default:
		writeJSON(w, http.StatusBadRequest, adminError{Error: "violations must be ask, refuse or default"})
		return
	}
	set, err := a.fields.Put(source, func(revision string) bool { return matches(r, revision) })
	if err != nil {
		a.refuseFields(w, r, err)
		return
	}
	a.log.InfoContext(ctx, "user fields changed", "revision", set.Schema.Revision, "fields", len(set.Schema.Fields))
	if choice == violationsDefault {
		if err := a.users.FillFields(ctx, set.Schema.Revision); err != nil {
			a.log.WarnContext(ctx, "the filling of user fields did not start", "error", err)
			w.Header().Set("ETag", etag(set.Schema.Revision)) // for the If-Match of the repetition
			writeJSON(w, http.StatusServiceUnavailable, adminError{
				Error: "the user fields are saved, but the filling did not start: repeat the request; its If-Match, if any, is the new ETag",
			})
			return
		}
	}
	writeFields(w, set)
}

// mayReplace reports whether every user meets a schema. If not, it has responded.
func (a *adminAPI) mayReplace(ctx context.Context, w http.ResponseWriter, r *http.Request, source []byte) bool {
	if !matches(r, a.fields.Get().Schema.Revision) {
		a.refuseFields(w, r, fieldstore.ErrChanged)
		return false
	}
	found, err := a.rehearse(ctx, source)
	switch {
	case err != nil:
		a.refuseFields(w, r, err)
	case found.Violations > 0:
		writeJSON(w, http.StatusConflict, refusedSchema{"users lack a value or have one that the schema refuses; nothing was saved", found})
	case found.AtLeast:
		writeJSON(w, http.StatusConflict, refusedSchema{"the check did not end in 10 seconds, so violations cannot be ruled out; nothing was saved", found})
	default:
		return true
	}
	return false
}

func (a *adminAPI) rehearse(ctx context.Context, source []byte) (*rehearsal, error) {
	_, schema, err := userfields.ParseJSON(source, a.fields.Get().Schema.Fields...)
	if err != nil {
		return nil, err
	}
	found, err := a.users.PreviewFields(ctx, schema.Fields())
	if err != nil {
		return nil, err
	}
	return newRehearsal(found), nil
}

// postRehearsal says what the schema in the body would do. It changes nothing.
func (a *adminAPI) postRehearsal(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), fieldsTimeout)
	defer cancel()
	source, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFieldsBody))
	var found *rehearsal
	if err == nil {
		found, err = a.rehearse(ctx, source)
	}
	if err != nil {
		a.refuseFields(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

func (a *adminAPI) getFill(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), fieldsTimeout)
	defer cancel()
	f, err := a.users.FieldsFill(ctx)
	if err != nil {
		a.refuseFields(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, f)
}

// refuseFields responds with an error of the store or of the plugin.
func (a *adminAPI) refuseFields(w http.ResponseWriter, r *http.Request, err error) {
	var invalid *userfields.SchemaError
	var large *http.MaxBytesError
	var unsaved *fieldstore.NotStoredError
	switch {
	case errors.As(err, &unsaved):
		a.log.ErrorContext(r.Context(), "user fields", "error", err)
		writeJSON(w, http.StatusInternalServerError, adminError{Error: unsaved.Error()})
	case errors.As(err, &invalid):
		writeJSON(w, http.StatusUnprocessableEntity, adminError{Error: invalid.Error(), Field: invalid.Field, Reason: invalid.Problem})
	case errors.Is(err, fieldstore.ErrChanged):
		writeJSON(w, http.StatusPreconditionFailed, adminError{Error: fieldstore.ErrChanged.Error()})
	case errors.As(err, &large):
		writeJSON(w, http.StatusRequestEntityTooLarge, adminError{Error: "the schema is larger than 256 KiB"})
	case personal.CodeOf(err) == personal.CodeUnavailable:
		writeJSON(w, http.StatusServiceUnavailable, adminError{Error: "the plugin is not available: try again"})
	default:
		a.log.ErrorContext(r.Context(), "user fields", "error", err)
		writeJSON(w, http.StatusInternalServerError, adminError{Error: "the request failed, see the host's log"})
	}
}
