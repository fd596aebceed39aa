package adminapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

const (
	maxUploadTime = 15 * time.Minute // from the first byte to the response
	defaultUpload = 512 << 20        // size in bytes
)

// Installer is the part of [catalogue.Catalogue] that uploads use.
type Installer interface {
	InstallBundle(ctx context.Context, r io.Reader) (catalogue.Entry, error)
}

// Uploads installs bundles that administrators send, one at a time: each needs space
// on disk. To use an installed version is another step. An upload is code execution
// by design, so there must be none in a catalogue without keys: a nil *Uploads
// refuses all. It is safe for concurrent use; see [NewUploads].
type Uploads struct {
	catalogue Installer
	limit     int64
	log       *slog.Logger
	busy      chan struct{} // holds one element while an upload is under way
}

// NewUploads accepts bundles of up to limit bytes, 512 MiB if it is zero. log gets
// the causes of internal errors; nil for slog.Default().
func NewUploads(c Installer, limit int64, log *slog.Logger) *Uploads {
	return &Uploads{
		catalogue: c, limit: cmp.Or(limit, defaultUpload), log: cmp.Or(log, slog.Default()),
		busy: make(chan struct{}, 1),
	}
}

// UploadError says why a bundle was not installed.
type UploadError struct {
	Status        int // of the HTTP response
	ErrorResponse ErrorResponse
}

// Error returns the complete error of the response.
func (e *UploadError) Error() string { return e.ErrorResponse.Error }

func uploadError(status int, text string) *UploadError {
	return &UploadError{Status: status, ErrorResponse: ErrorResponse{Error: text}}
}

var errUploadsOff = &UploadError{Status: http.StatusForbidden, ErrorResponse: ErrorResponse{
	Error:  "uploads are off: " + catalogue.ErrNoKeys.Error(),
	Reason: "an upload is code execution by design, so only bundles signed by a configured key are accepted",
}}

// Take installs the bundle of a request. open finds it in the request, whose body is
// limited by then. The error is an [*UploadError]; the causes of internal errors are
// logged.
func (u *Uploads) Take(w http.ResponseWriter, r *http.Request, open func(*http.Request) (io.Reader, error)) (catalogue.Entry, error) {
	if u == nil {
		return catalogue.Entry{}, errUploadsOff
	}
	select {
	case u.busy <- struct{}{}:
		defer func() { <-u.busy }()
	default:
		return catalogue.Entry{}, uploadError(http.StatusConflict, "another upload is under way")
	}
	setDeadlines(w, time.Now().Add(maxUploadTime))
	r.Body = http.MaxBytesReader(w, r.Body, u.limit)
	var e catalogue.Entry
	bundle, err := open(r)
	if err == nil {
		e, err = u.catalogue.InstallBundle(r.Context(), bundle)
	}
	if err != nil {
		return catalogue.Entry{}, u.classify(r, err)
	}
	u.log.InfoContext(r.Context(), "plugin installed by an upload", "version", e.Manifest.Version, "sha256", e.Manifest.SHA256)
	return e, nil
}

// classify returns what an error means to the administrator. An [*UploadError] that
// open returned is unchanged.
func (u *Uploads) classify(r *http.Request, err error) *UploadError {
	var fromOpen *UploadError
	var refused *catalogue.RefusedError
	var full *durable.FullError
	switch {
	case errors.As(err, &fromOpen):
		return fromOpen
	case isTooLarge(err):
		return uploadError(http.StatusRequestEntityTooLarge, "the bundle is too large")
	case r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return uploadError(http.StatusBadRequest, "the upload was interrupted")
	case errors.Is(err, catalogue.ErrNoKeys):
		return errUploadsOff
	case errors.As(err, &full):
		return uploadError(http.StatusInsufficientStorage, full.Error())
	case errors.As(err, &refused):
		status, reason := http.StatusUnprocessableEntity, refused.Kind.Error()
		if errors.Is(err, catalogue.ErrConflict) {
			status = http.StatusConflict
		}
		if refused.Reason != "" {
			reason += ": " + refused.Reason
		}
		return &UploadError{Status: status, ErrorResponse: ErrorResponse{Error: refused.Error(), Version: refused.Version, Reason: reason}}
	}
	u.log.ErrorContext(r.Context(), "plugin administration: installing the bundle", "error", err)
	return uploadError(http.StatusInternalServerError, "installing the bundle failed, see the log")
}

// install takes a bundle that is the whole body.
func (a *api) install(w http.ResponseWriter, r *http.Request) {
	e, err := a.options.Uploads.Take(w, r, func(r *http.Request) (io.Reader, error) {
		if !hasType(r, "application/gzip", "application/x-gzip", "application/octet-stream") {
			return nil, uploadError(http.StatusUnsupportedMediaType, "the body must be a bundle: application/gzip or application/octet-stream")
		}
		return r.Body, nil
	})
	if refused, ok := errors.AsType[*UploadError](err); ok {
		refuse(w, refused.Status, refused.ErrorResponse)
		return
	}
	v, err := newVersion(a.catalogue, e)
	if err != nil {
		a.fail(w, r, "reading the catalogue", err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}
