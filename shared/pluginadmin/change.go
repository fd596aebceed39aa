package pluginadmin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

// maxChange bounds the body of POST use, in bytes.
const maxChange = 4 << 10

func (a *api) use(w http.ResponseWriter, r *http.Request) {
	if !ofType(r, "", "application/json") {
		refuse(w, http.StatusUnsupportedMediaType, ErrorResponse{Error: "the body must be application/json"})
		return
	}
	version, err := readVersion(http.MaxBytesReader(w, r.Body, maxChange))
	if isTooLarge(err) {
		refuse(w, http.StatusRequestEntityTooLarge, ErrorResponse{Error: "the body is too large"})
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, ErrorResponse{Error: `the body must be {"version": "…"}`})
		return
	}
	a.change(w, r, func(ctx context.Context) error { return a.manager.Use(ctx, version) })
}

func (a *api) rollback(w http.ResponseWriter, r *http.Request) {
	a.change(w, r, a.manager.Rollback)
}

// change carries out a swap, which ends by the manager's own deadlines: the
// server's, meant for slow clients, may be shorter.
func (a *api) change(w http.ResponseWriter, r *http.Request, swap func(context.Context) error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})  // not every server has deadlines
	_ = control.SetWriteDeadline(time.Time{}) // the same
	err := swap(r.Context())
	var refused *pluginmanager.SwapError
	var busy *pluginmanager.BusyError
	switch {
	case err == nil:
		a.writeReport(w, r, http.StatusOK)
	case errors.Is(err, pluginmanager.ErrStopped):
		refuse(w, http.StatusServiceUnavailable, ErrorResponse{Error: "the plugin is being stopped"})
	case errors.As(err, &busy):
		refuse(w, http.StatusConflict, ErrorResponse{Error: busy.Error(), Reason: busy.Error(), Swap: &busy.Swap})
	case errors.As(err, &refused):
		refuse(w, http.StatusConflict, ErrorResponse{
			Error: refused.Error(), Step: refused.Step, Version: refused.Version, Reason: refused.Err.Error(),
		})
	case r.Context().Err() != nil: // the CMS cut the wait short; the swap goes on
		a.writeReport(w, r, http.StatusAccepted)
	default:
		a.fail(w, r, "the swap", err)
	}
}

// readVersion reads {"version": "…"} and nothing else.
func readVersion(body io.Reader) (string, error) {
	var asked struct {
		Version string `json:"version"`
	}
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return "", err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", errors.Join(errors.New("something follows the object"), err)
	}
	if asked.Version == "" {
		return "", errors.New("no version is named")
	}
	return asked.Version, nil
}

// ofType reports whether the body is said to be of one of these media types; the
// empty one stands for a body of which nothing is said.
func ofType(r *http.Request, types ...string) bool {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return slices.Contains(types, "")
	}
	media, _, err := mime.ParseMediaType(header)
	return err == nil && slices.Contains(types, media)
}

func isTooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}
