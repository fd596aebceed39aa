package ui_test

import (
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cms-personal/personal/shared/personalweb/ui"
)

func TestTemplateLayout_PutsThePageIntoTheSitesBlocks(t *testing.T) {
	site := template.Must(template.New("site").Parse(
		`<html lang="{{.Lang}}"><title>{{block "title" .}}{{end}} | Site</title>{{block "head" .}}{{end}}<main>{{block "body" .}}{{end}}</main>`))
	layout, err := ui.TemplateLayout(site)
	if err != nil {
		t.Fatal(err)
	}
	o := set(t)
	o.Layout, o.Style = layout, "/own.css"
	o.SiteTexts = fstest.MapFS{"en.json": {Data: []byte(`{"hello":"Hello & welcome"}`)}}
	pages, err := ui.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		pages.Render(w, r, http.StatusOK, "page", ui.Page{Notice: "Done.", Body: ui.Form{Action: "/page"}, Block: "<i>of the site</i>"})
	})
	pages.Handler(mux).ServeHTTP(w, inLocale(httptest.NewRequest("GET", "/page", nil), "en"))
	body := w.Body.String()
	for _, want := range []string{
		`<html lang="en">`, "<title>Hello &amp; welcome | Site</title>", `href="/own.css"`, "/assets/page.", `<main><div class="personal" lang="en">`, "Done.", "<form", "<i>of the site</i>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in the page:\n%s", want, body)
		}
	}
	if strings.Contains(body, "site-header") || w.Header().Get("Content-Security-Policy") != "" {
		t.Errorf("got this package's layout or policy: %v\n%s", w.Header(), body)
	}
	if _, err := ui.TemplateLayout(template.Must(template.New("").Parse(`{{block "title" .}}{{end}}{{block "head" .}}{{end}}`))); err == nil ||
		!strings.Contains(err.Error(), `{{block "body" .}}`) {
		t.Errorf("without a block: got error %v", err)
	}
}

func TestLayout_FailureIsAPlainError(t *testing.T) {
	o := set(t)
	o.Layout = func(io.Writer, *http.Request, ui.Content) error { return io.ErrUnexpectedEOF }
	pages, err := ui.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	pages.Render(w, httptest.NewRequest("GET", "/page", nil), http.StatusOK, "page", ui.Page{Body: ui.Form{}})
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "Internal Server Error") {
		t.Errorf("got %d %s, want 500", w.Code, w.Body)
	}
}

func TestSiteTexts_AreChecked(t *testing.T) {
	for name, tt := range map[string]struct {
		files   map[string]string
		locales []string
		want    string // in the error; "" for none
	}{
		"some texts":                         {files: map[string]string{"en.json": `{"hello":"Hi"}`}},
		"an unknown text":                    {files: map[string]string{"en.json": `{"helo":"Hi"}`}, want: `en.json: there is no text with the key "helo"`},
		"a language that the API lacks":      {files: map[string]string{"de.json": `{"hello":"Hallo"}`}, want: "de.json: texts are missing: "},
		"a language without all texts":       {files: map[string]string{"de.json": `{}`}, locales: []string{"en", "de"}, want: `de.json: texts are missing:`},
		"a language of the API without file": {locales: []string{"en", "de"}, want: "the API has messages in de, and the pages have none"},
		"a text without its placeholder":     {files: map[string]string{"en.json": `{"hint_max":"Less."}`}, want: `en.json: the text "hint_max" must have the placeholders %s`},
		"an unknown placeholder":             {files: map[string]string{"en.json": `{"hint_range":"From %s to %q and %d."}`}, want: "hint_range"},
		"placeholders in another order":      {files: map[string]string{"en.json": `{"hint_range":"Up to %[2]s, from %[1]s."}`}},
		"no JSON":                            {files: map[string]string{"en.json": "{\n\"hello\": Hi}"}, want: "en.json: line 2, column 10"},
	} {
		t.Run(name, func(t *testing.T) {
			o := set(t)
			o.Locales = tt.locales
			files := fstest.MapFS{}
			for name, text := range tt.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			o.SiteTexts = files
			_, err := ui.New(o)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSiteTemplates_AreChecked(t *testing.T) {
	o := set(t)
	o.SiteTemplates = fstest.MapFS{"page.html": {Data: []byte(`{{define "main"}}{{t "none"}}{{end}}`)}}
	if _, err := ui.New(o); err == nil || !strings.Contains(err.Error(), "page.html") || !strings.Contains(err.Error(), `"none"`) {
		t.Errorf("got error %v, want the file and the text that does not exist", err)
	}
}
