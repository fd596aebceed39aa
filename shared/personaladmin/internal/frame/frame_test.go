package frame_test

import (
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// live is a section with a page, and its part, that show a value.
type live struct{ value any }

func (live) Name() string { return "overview" }

func (l live) Register(s *frame.Site) {
	s.Handle("GET /admin/overview", func(w http.ResponseWriter, r *http.Request) error {
		return s.Render(w, r, http.StatusOK, "page", ui.Page{Live: true, Body: frame.NewLivePart(l.value)})
	})
	s.Handle("GET /admin/overview/now", func(w http.ResponseWriter, r *http.Request) error {
		return s.RenderPart(w, r, "page", "part", l.value)
	})
}

func TestLivePart_WhatJSONCannotEncodeIsAnErrorPage(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	options := ui.Options{
		Templates: fstest.MapFS{"page.html": {Data: []byte(
			`{{define "title"}}x{{end}}{{define "main"}}{{template "part" .}}{{end}}{{define "part"}}{{.Digest}} shows {{.Data}}{{end}}`)}},
		Texts: texts.Files, AssetPath: "/assets/", API: api, Log: quiet,
	}
	for value, want := range map[float64]int{1: http.StatusOK, math.Inf(1): http.StatusInternalServerError} {
		pages, err := ui.New(options)
		if err != nil {
			t.Fatal(err)
		}
		handler := frame.New(frame.Options{
			Pages: pages, Sections: []frame.Section{live{value}}, Log: quiet,
			Guard: func(*http.Request) (string, error) { return "ada", nil },
		}).Handler()
		for _, path := range []string{"/admin/overview", "/admin/overview/now"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if got := strings.Contains(w.Body.String(), " shows 1"); w.Code != want || got != (want == http.StatusOK) {
				t.Errorf("%v at %s: got status %d, shown %t, want %d", value, path, w.Code, got, want)
			}
		}
	}
}
