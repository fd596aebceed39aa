package adminpages

import (
	"errors"
	"io"
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/pluginadmin"
)

// installPlugin takes a bundle from the page's form.
func (s *site) installPlugin(w http.ResponseWriter, r *http.Request) {
	_, err := s.Plugin.Uploads.Take(w, r, uploadedBundle)
	var refused *pluginadmin.UploadError
	if errors.As(err, &refused) {
		s.renderPlugin(w, r, refused.Status, s.pages.Text(r, "plugin_not_installed", reasonOf(refused.ErrorResponse)))
		return
	}
	ui.LeaveNotice(w, r, "plugin_installed")
	ui.Redirect(w, r, front)
}

func reasonOf(f pluginadmin.ErrorResponse) string {
	if f.Version != "" && f.Reason != "" {
		return f.Version + ": " + f.Reason
	}
	return f.Error
}

// uploadedBundle finds the file in the form, without keeping it anywhere.
func uploadedBundle(r *http.Request) (io.Reader, error) {
	none := &pluginadmin.UploadError{Status: http.StatusBadRequest, ErrorResponse: pluginadmin.ErrorResponse{Error: "there is no bundle in the form"}}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, none
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, none
		}
		if part.FormName() == "bundle" {
			return part, nil
		}
	}
}
