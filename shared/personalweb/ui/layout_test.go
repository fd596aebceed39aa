package ui_test

import (
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
	if strings.Contains(body, "site-header") || strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src") {
		t.Errorf("got this package's layout or policy: %v\n%s", w.Header(), body)
	}
	if _, err := ui.TemplateLayout(template.Must(template.New("").Parse(`{{block "title" .}}{{end}}{{block "head" .}}{{end}}`))); err == nil ||
		!strings.Contains(err.Error(), `{{block "body" .}}`) {
		t.Errorf("without a block: got error %v", err)
	}
}

func TestContentOf_IsOfTheRequest(t *testing.T) {
	r := inLocale(httptest.NewRequest("GET", "/orders?page=2", nil), "ar")
	if got := ui.ContentOf(r); got.Lang != "ar" || got.Dir != "rtl" || got.Path != "/orders" || got.User != nil {
		t.Errorf("got %+v, want the language, direction and path of the request, and no user", got)
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
		"a language that the API lacks":      {files: map[string]string{"it.json": `{"hello":"Ciao"}`}, want: "it.json: the pages are not in this language"},
		"a language without all texts":       {files: map[string]string{"de.json": `{"hello":"Hallo"}`}, locales: []string{"en", "de"}},
		"a language of the API without file": {locales: []string{"en", "de"}},
		"a parent of a language of the API":  {files: map[string]string{"de.json": `{"hello":"Hallo"}`}, locales: []string{"en", "de-AT"}},
		"a wrong text, and gaps":             {files: map[string]string{"en.json": `{"hint_max":"Less."}`}, locales: []string{"en", "de"}, want: "pages: texts: en.json: the text \"hint_max\" must have the placeholders %s"},
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

func TestHandler_PoliciesOfFramesAndForms(t *testing.T) {
	const own, forms = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; ", "form-action 'self'; base-uri 'none'"
	layout := func(io.Writer, *http.Request, ui.Content) error { return nil }
	for condition, tt := range map[string]struct {
		change func(*ui.Options)
		want   []string
	}{
		"the package's layout": {func(*ui.Options) {}, []string{own + forms, "frame-ancestors 'none'"}},
		"framed by its site":   {func(o *ui.Options) { o.FrameAncestors = "'self'" }, []string{own + forms, "frame-ancestors 'self'"}},
		"a site's layout":      {func(o *ui.Options) { o.Layout = layout }, []string{"img-src *", forms, "frame-ancestors 'none'"}},
		"with a search elsewhere": {func(o *ui.Options) {
			o.Layout, o.FormAction, o.BaseURI, o.FrameAncestors = layout, "'self' https://search.example", "'self'", "https://a.example https://b.example"
		}, []string{"img-src *", "form-action 'self' https://search.example; base-uri 'self'", "frame-ancestors https://a.example https://b.example"}},
	} {
		o := set(t)
		tt.change(&o)
		pages, err := ui.New(o)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		w.Header().Set("Content-Security-Policy", "img-src *") // of the site
		pages.Handler(http.NewServeMux()).ServeHTTP(w, httptest.NewRequest("GET", "/page", nil))
		if got := w.Header().Values("Content-Security-Policy"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", condition, got, tt.want)
		}
	}
	for _, change := range []func(*ui.Options){
		func(o *ui.Options) { o.FrameAncestors = "'self'; script-src *" },
		func(o *ui.Options) { o.Layout, o.BaseURI = layout, "'self', default-src *" },
	} {
		o := set(t)
		change(&o)
		if _, err := ui.New(o); err == nil {
			t.Errorf("%q, %q, %q: got no error", o.FrameAncestors, o.FormAction, o.BaseURI)
		}
	}
}
