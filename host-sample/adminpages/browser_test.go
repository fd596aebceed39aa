package adminpages_test

import (
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/host-sample/adminentry"
	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// script is a text that must never become markup.
const script = `<script>alert("x")</script>'"&`

// browser visits the pages as an administrator.
type browser struct {
	adminpages.Options // what the pages are made of
	handler            http.Handler
	cookies            []*http.Cookie
	locale             string
	audit              *fakeAudit // the audit log, unless Users is another
}

// open makes the pages, with whatever of adminpages.Options change sets, and enters.
func open(t *testing.T, change func(*adminpages.Options)) *browser {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	fields, err := fieldstore.Open(filepath.Join(t.TempDir(), "user-fields.json"))
	if err != nil {
		t.Fatal(err)
	}
	entry, audit := adminentry.New(), &fakeAudit{}
	o := adminpages.Options{
		Guard: adminentry.NewGuard(entry, adminentry.NewRecord(log), "example.com"), API: api, Log: log,
		Fields: fields, Plugin: adminpages.Plugin{EventLog: fakeHistory{}},
		Users: &personaltest.Administration{AuditEntriesFunc: audit.entries},
	}
	if change != nil {
		change(&o)
	}
	pages, err := adminpages.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{Options: o, handler: api.WithCall(pages), locale: "en", audit: audit}
	entered := b.post("/admin/enter", url.Values{"code": {entry.NewCode()}})
	if b.cookies = entered.Result().Cookies(); entered.Code != http.StatusSeeOther || len(b.cookies) != 1 {
		t.Fatalf("entering: %d", entered.Code)
	}
	return b
}

func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	r.Header.Set("Accept-Language", b.locale)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	return b.send(httptest.NewRequest(http.MethodGet, path, nil))
}

func (b *browser) post(path string, values url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.send(r)
}

// page gets a page that must be there, and returns its HTML.
func (b *browser) page(t *testing.T, path string) string {
	t.Helper()
	w := b.get(path)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// do posts a form that must succeed.
func (b *browser) do(t *testing.T, path string, values url.Values) {
	t.Helper()
	if w := b.post(path, values); w.Code != http.StatusSeeOther {
		t.Fatalf("POST %s: %d %s", path, w.Code, w.Body)
	}
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// hidden returns the value of a hidden input of a page.
func hidden(page, name string) string {
	for _, found := range hiddenInput.FindAllStringSubmatch(page, -1) {
		if found[1] == name {
			return html.UnescapeString(found[2])
		}
	}
	return ""
}

// faultAt returns what a page says to be wrong with a control.
func faultAt(page, name string) string {
	found := regexp.MustCompile(`<p class="fault" id="field-` + regexp.QuoteMeta(name) + `-error">([^<]*)</p>`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// wantNoMarkup checks that a page shows the script as text, and as nothing else.
func wantNoMarkup(t *testing.T, page string) {
	t.Helper()
	if strings.Contains(page, "<script>alert") || strings.Contains(page, `alert("x")`) {
		t.Error("a text has become markup")
	}
	if !strings.Contains(page, "&lt;script&gt;alert") {
		t.Error("the text is not shown")
	}
}
