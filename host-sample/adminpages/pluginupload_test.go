package adminpages_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// upload makes the post of the upload form.
func (f *fixture) upload(name, content string) *http.Request {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile(name, "personal.tar.gz")
	if err == nil {
		_, err = io.WriteString(file, content)
	}
	if err := errors.Join(err, form.Close()); err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/admin/plugin/install", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.AddCookie(f.cookie)
	return r
}

func TestWithoutKeysThereIsNoUpload(t *testing.T) {
	f := newFixture(t)
	page := f.page(t)
	wantAll(t, page, "only where signing keys are configured", "host-sample plugin install FILE")
	wantNone(t, page, `type="file"`)
	w := f.send(t, f.upload("bundle", "x"))
	if w.Code != http.StatusForbidden || f.catalogue.taken != "" || !strings.Contains(w.Body.String(), "uploads are off") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestABundleIsInstalledByUpload(t *testing.T) {
	f := newFixture(t)
	f.plugin.Uploads = pluginadmin.NewUploads(f.catalogue, 1000, slog.New(slog.DiscardHandler))
	wantAll(t, f.page(t), `type="file"`)
	w := f.send(t, f.upload("bundle", "a bundle"))
	if w.Code != http.StatusSeeOther || f.catalogue.taken != "a bundle" {
		t.Errorf("%d %s, taken was %q", w.Code, w.Body, f.catalogue.taken)
	}
	f.catalogue.refusal = &plugincatalogue.RefusedError{Version: "1.4.0", Kind: plugincatalogue.ErrBadSignature, Reason: evil}
	for name, tt := range map[string]struct {
		r    *http.Request
		code int
		want string
	}{
		"one that is not signed": {f.upload("bundle", "x"), http.StatusUnprocessableEntity, "1.4.0: not signed by a key configured: &lt;script&gt;"},
		"another field":          {f.upload("other", "x"), http.StatusBadRequest, "there is no bundle in the form"},
		"no form of files":       {f.form("/admin/plugin/install", "bundle", "x"), http.StatusBadRequest, "there is no bundle in the form"},
	} {
		if w := f.send(t, tt.r); w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	f.catalogue.refusal = nil
	if w := f.send(t, f.upload("bundle", strings.Repeat("x", 1000))); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("one that is too large: %d", w.Code)
	}
}
