package pluginadmin

import (
	"errors"
	"io"
	"net/http"
)

// install takes a bundle that is the whole body.
func (a *api) install(w http.ResponseWriter, r *http.Request) {
	e, err := a.options.Uploads.Take(w, r, wholeBody)
	var refused *UploadError
	if errors.As(err, &refused) {
		refuse(w, refused.Status, refused.ErrorResponse)
		return
	}
	v, err := versionOf(a.catalogue, e)
	if err != nil {
		a.fail(w, r, "reading the catalogue", err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

func wholeBody(r *http.Request) (io.Reader, error) {
	if !ofType(r, "application/gzip", "application/x-gzip", "application/octet-stream") {
		return nil, uploadError(http.StatusUnsupportedMediaType, "the body must be a bundle: application/gzip or application/octet-stream")
	}
	return r.Body, nil
}
