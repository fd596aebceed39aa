package adminapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

func (f *fixture) upload(body string) *httptest.ResponseRecorder {
	return f.send(http.MethodPost, "/install", body, "Content-Type", "application/gzip")
}

func (f *fixture) allowUploads(limit int64) {
	f.options.Uploads = adminapi.NewUploads(f.catalogue, limit, f.options.Log)
}

func TestInstall_OnlyWhereUploadsAreAllowed(t *testing.T) {
	f := newFixture()
	w := f.upload("bundle")
	if got := decode[adminapi.ErrorResponse](t, w); w.Code != http.StatusForbidden || !strings.Contains(got.Reason, "code execution") {
		t.Errorf("uploads off: got %d %s, want 403 with a reason", w.Code, w.Body)
	}
	f.allowUploads(0)
	w = f.upload("bundle")
	if got := decode[adminapi.Version](t, w); w.Code != http.StatusOK || got.Version != "1.2.0" || got.SHA256 != "abc" {
		t.Errorf("uploads on: got %d %s, want 200 with the version", w.Code, w.Body)
	}
	for _, header := range [][]string{nil, {"Content-Type", "multipart/form-data; boundary=x"}, {"Content-Type", ";"}} {
		if w := f.send(http.MethodPost, "/install", "bundle", header...); w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("header %q: got %d %s, want 415", header, w.Code, w.Body)
		}
	}
}

func TestInstall_RefusalNamesReason(t *testing.T) {
	kind := func(kind error) error {
		return fmt.Errorf("installing: %w", &catalogue.RefusedError{Version: "1.2.0", Reason: "the reason", Kind: kind})
	}
	for name, tt := range map[string]struct {
		err  error
		want int
	}{
		"no keys":               {kind(catalogue.ErrNoKeys), http.StatusForbidden},
		"not signed":            {kind(catalogue.ErrUnsigned), http.StatusUnprocessableEntity},
		"a foreign signature":   {kind(catalogue.ErrBadSignature), http.StatusUnprocessableEntity},
		"tampered":              {kind(catalogue.ErrTampered), http.StatusUnprocessableEntity},
		"no bundle":             {kind(catalogue.ErrInvalid), http.StatusUnprocessableEntity},
		"installed already":     {kind(catalogue.ErrConflict), http.StatusConflict},
		"the upload breaks off": {io.ErrUnexpectedEOF, http.StatusBadRequest},
		"the disk is full":      {errors.New("/secret: no space"), http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.allowUploads(0)
			f.catalogue.install = func(io.Reader) error { return tt.err }
			w := f.upload("bundle")
			got := decode[adminapi.ErrorResponse](t, w)
			if w.Code != tt.want || got.Error == "" || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("got %d %s, want %d without the cause", w.Code, w.Body, tt.want)
			}
			if (w.Code == 409 || w.Code == 422) && (got.Version != "1.2.0" || !strings.Contains(got.Reason, "the reason")) {
				t.Errorf("got %s, want the version and the reason", w.Body)
			}
		})
	}
}

func TestInstall_SizeIsLimited(t *testing.T) {
	f := newFixture()
	f.allowUploads(10)
	if w := f.upload("0123456789"); w.Code != http.StatusOK {
		t.Errorf("at the limit: got %d %s, want 200", w.Code, w.Body)
	}
	if w := f.upload("0123456789x"); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("above the limit: got %d %s, want 413", w.Code, w.Body)
	}
}

func TestInstall_OneUploadAtATime(t *testing.T) {
	f := newFixture()
	f.allowUploads(0)
	handler := adminapi.New(f.manager, f.catalogue, f.options)
	post := func() int {
		r := httptest.NewRequest(http.MethodPost, "/install", strings.NewReader("bundle"))
		r.Header.Set("Content-Type", "application/octet-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	inside := 0
	f.catalogue.install = func(io.Reader) error {
		f.catalogue.install = func(io.Reader) error { return nil }
		inside = post()
		return nil
	}
	if code := post(); code != http.StatusOK || inside != http.StatusConflict {
		t.Errorf("got %d for the first upload and %d during it, want 200 and 409", code, inside)
	}
	if code := post(); code != http.StatusOK {
		t.Errorf("afterwards: got %d, want 200", code)
	}
}
