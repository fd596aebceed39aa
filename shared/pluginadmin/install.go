package pluginadmin

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// uploadTime is how long an upload may take, from its first byte to the answer.
const uploadTime = 15 * time.Minute

// install takes one bundle at a time: each needs room on the disk. To use it is
// another step.
func (a *api) install(w http.ResponseWriter, r *http.Request) {
	if !a.options.Upload {
		refuseUploads(w)
		return
	}
	if !ofType(r, "application/gzip", "application/x-gzip", "application/octet-stream") {
		refuse(w, http.StatusUnsupportedMediaType, Fault{Error: "the body must be a bundle: application/gzip or application/octet-stream"})
		return
	}
	select {
	case a.uploads <- struct{}{}:
		defer func() { <-a.uploads }()
	default:
		refuse(w, http.StatusConflict, Fault{Error: "another upload is under way"})
		return
	}
	deadline := time.Now().Add(uploadTime)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)  // not every server has deadlines
	_ = control.SetWriteDeadline(deadline) // the same
	e, err := a.catalogue.InstallBundle(r.Context(), http.MaxBytesReader(w, r.Body, a.options.MaxUpload))
	if err != nil {
		a.refuseBundle(w, r, err)
		return
	}
	a.options.Log.InfoContext(r.Context(), "plugin installed by an upload", "version", e.Manifest.Version, "sha256", e.Manifest.SHA256)
	writeJSON(w, http.StatusOK, versionOf(e))
}

func refuseUploads(w http.ResponseWriter) {
	refuse(w, http.StatusForbidden, Fault{
		Error:  "uploads are off: " + plugincatalogue.ErrNoKeys.Error(),
		Reason: "an upload is code execution by design, so only bundles signed by a configured key are taken",
	})
}

func (a *api) refuseBundle(w http.ResponseWriter, r *http.Request, err error) {
	var refused *plugincatalogue.RefusedError
	switch {
	case isTooLarge(err):
		refuse(w, http.StatusRequestEntityTooLarge, Fault{Error: "the bundle is too large"})
	case r.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, http.StatusBadRequest, Fault{Error: "the upload broke off"})
	case errors.Is(err, plugincatalogue.ErrNoKeys):
		refuseUploads(w)
	case errors.Is(err, plugincatalogue.ErrConflict) && errors.As(err, &refused):
		refuse(w, http.StatusConflict, faultOf(refused))
	case errors.As(err, &refused):
		refuse(w, http.StatusUnprocessableEntity, faultOf(refused))
	default:
		a.fail(w, r, "installing the bundle", err)
	}
}

func faultOf(refused *plugincatalogue.RefusedError) Fault {
	reason := refused.Kind.Error()
	if refused.Reason != "" {
		reason += ": " + refused.Reason
	}
	return Fault{Error: refused.Error(), Version: refused.Version, Reason: reason}
}
