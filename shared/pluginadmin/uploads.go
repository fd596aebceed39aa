package pluginadmin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

const (
	// uploadTime is how long an upload may take, from its first byte to the answer.
	uploadTime    = 15 * time.Minute
	defaultUpload = 512 << 20
)

// Installer is what uploads ask of a [plugincatalogue.Catalogue].
type Installer interface {
	InstallBundle(ctx context.Context, r io.Reader) (plugincatalogue.Entry, error)
}

// Uploads takes bundles that administrators send, one at a time: each needs room
// on the disk. To use an installed version is another step. An upload is code
// execution by design, so there must be none where the catalogue has no keys to
// check signatures with: a nil *Uploads refuses all. It is safe for concurrent
// use, and made by [NewUploads].
type Uploads struct {
	catalogue Installer
	limit     int64
	log       *slog.Logger
	busy      chan struct{} // holds one while an upload is under way
}

// NewUploads takes bundles of up to limit bytes, 512 MiB if it is zero. log gets
// the causes of internal errors; nil for slog.Default().
func NewUploads(c Installer, limit int64, log *slog.Logger) *Uploads {
	return &Uploads{
		catalogue: c, limit: cmp.Or(limit, defaultUpload), log: cmp.Or(log, slog.Default()),
		busy: make(chan struct{}, 1),
	}
}

// UploadError says why a bundle was not taken.
type UploadError struct {
	Status        int // of the HTTP answer
	ErrorResponse ErrorResponse
}

// Error is the fault's sentence.
func (e *UploadError) Error() string { return e.ErrorResponse.Error }

// Take installs the bundle that a request brings. open finds it in the request,
// whose body is bounded by then. The error is an [*UploadError]; what is nobody's
// fault but ours is logged.
func (u *Uploads) Take(w http.ResponseWriter, r *http.Request, open func(*http.Request) (io.Reader, error)) (plugincatalogue.Entry, error) {
	if u == nil {
		return plugincatalogue.Entry{}, errUploadsOff()
	}
	select {
	case u.busy <- struct{}{}:
		defer func() { <-u.busy }()
	default:
		return plugincatalogue.Entry{}, uploadError(http.StatusConflict, "another upload is under way")
	}
	deadline := time.Now().Add(uploadTime)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)  // not every server has deadlines
	_ = control.SetWriteDeadline(deadline) // the same
	r.Body = http.MaxBytesReader(w, r.Body, u.limit)
	bundle, err := open(r)
	if err != nil {
		return plugincatalogue.Entry{}, u.refusal(r, err)
	}
	e, err := u.catalogue.InstallBundle(r.Context(), bundle)
	if err != nil {
		return plugincatalogue.Entry{}, u.refusal(r, err)
	}
	u.log.InfoContext(r.Context(), "plugin installed by an upload", "version", e.Manifest.Version, "sha256", e.Manifest.SHA256)
	return e, nil
}

func uploadError(status int, text string) *UploadError {
	return &UploadError{Status: status, ErrorResponse: ErrorResponse{Error: text}}
}

func errUploadsOff() *UploadError {
	return &UploadError{Status: http.StatusForbidden, ErrorResponse: ErrorResponse{
		Error:  "uploads are off: " + plugincatalogue.ErrNoKeys.Error(),
		Reason: "an upload is code execution by design, so only bundles signed by a configured key are taken",
	}}
}

// refusal says what an error means to whoever sent the bundle. One that open made
// stays as it is.
func (u *Uploads) refusal(r *http.Request, err error) *UploadError {
	var asItIs *UploadError
	var refused *plugincatalogue.RefusedError
	switch {
	case errors.As(err, &asItIs):
		return asItIs
	case isTooLarge(err):
		return uploadError(http.StatusRequestEntityTooLarge, "the bundle is too large")
	case r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		return uploadError(http.StatusBadRequest, "the upload broke off")
	case errors.Is(err, plugincatalogue.ErrNoKeys):
		return errUploadsOff()
	case errors.Is(err, plugincatalogue.ErrConflict) && errors.As(err, &refused):
		return &UploadError{Status: http.StatusConflict, ErrorResponse: faultOf(refused)}
	case errors.As(err, &refused):
		return &UploadError{Status: http.StatusUnprocessableEntity, ErrorResponse: faultOf(refused)}
	}
	u.log.ErrorContext(r.Context(), "plugin administration: installing the bundle", "error", err)
	return uploadError(http.StatusInternalServerError, "installing the bundle failed, see the log")
}

func faultOf(refused *plugincatalogue.RefusedError) ErrorResponse {
	reason := refused.Kind.Error()
	if refused.Reason != "" {
		reason += ": " + refused.Reason
	}
	return ErrorResponse{Error: refused.Error(), Version: refused.Version, Reason: reason}
}
