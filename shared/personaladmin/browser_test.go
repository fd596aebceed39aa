package personaladmin_test

import (
	"context"
	"errors"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personaladmin/internal/events"
	"github.com/cms-personal/personal/shared/personaladmin/internal/fields"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mail"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mailbox"
	"github.com/cms-personal/personal/shared/personaladmin/internal/plugin"
	"github.com/cms-personal/personal/shared/personaladmin/internal/support"
	"github.com/cms-personal/personal/shared/personaladmin/internal/traffic"
	"github.com/cms-personal/personal/shared/personaladmin/internal/users"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// script is a text that must never become markup.
const script = `<script>alert("x")</script>'"&`

// escapedScript is the start of the script in a page.
const escapedScript = "&lt;script&gt;alert("

// browser is the browser of an administrator, with all admin pages over fakes.
// Tests may change the fields between requests.
type browser struct {
	handler       http.Handler
	log           strings.Builder // access log
	cookies       map[string]*http.Cookie
	locale        string
	administrator string // empty: the guard refuses

	pages         *personaladmin.Pages
	sections      []frame.Section
	manager       *fakeManager
	catalogue     *fakeCatalogue
	plugin        *plugin.Pages
	counts        *plugin.Counts
	overviewUsers *personaltest.Administration
	users         *users.Pages
	support       *support.Pages
	fields        *fieldstore.Store
	debt          personaltest.Administration // rehearses and fills in fields
	events        *events.Pages
	audit         *fakeAudit // of events
}

// open returns a browser that is signed in, without a mailbox.
func open(t *testing.T) *browser {
	t.Helper()
	return openWithBox(t, "")
}

// openAt is open with the user fields in this file.
func openAt(t *testing.T, path string) *browser {
	t.Helper()
	return openWith(t, "", path)
}

func openWithBox(t *testing.T, box mailbox.Box) *browser {
	t.Helper()
	return openWith(t, box, filepath.Join(t.TempDir(), "user-fields.json"))
}

func openWith(t *testing.T, box mailbox.Box, path string) *browser {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{
		Log: log, Messages: fstest.MapFS{"pl.json": {Data: []byte(`{"code.not_found": "Nie znaleziono."}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sampleFields, err := os.ReadFile("../../host-sample/cli/user-fields.json")
	if err != nil {
		t.Fatal(err)
	}
	store, err := fieldstore.Open(path, sampleFields)
	if err != nil {
		t.Fatal(err)
	}
	audit, anna := &fakeAudit{}, newUsers()
	b := &browser{
		locale: "en", administrator: "administrator", cookies: map[string]*http.Cookie{}, fields: store, audit: audit,
		counts: &plugin.Counts{Since: time.Now()}, overviewUsers: &personaltest.Administration{},
		manager: &fakeManager{status: manager.Status{
			Active: manager.Active{State: manager.StateServing, Version: "1.2.3", Generation: 3, PID: 4242, Started: time.Now().Add(-3 * time.Hour)},
		}},
		catalogue: &fakeCatalogue{},
		users:     &users.Pages{Administration: &personaltest.Administration{}, Schema: func(context.Context) (personal.Schema, error) { return store.Get().Schema, nil }},
		support:   &support.Pages{Administration: &personaltest.Administration{}, Mails: &personaltest.Service{}},
		events: &events.Pages{Administration: &personaltest.Administration{
			AuditEntriesFunc: audit.entries, FindUsersFunc: anna.FindUsersFunc, UserFunc: anna.UserFunc,
		}, EventLog: eventLog{}},
	}
	b.debt.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{Complete: true}, nil
	}
	b.plugin = &plugin.Pages{Manager: b.manager, Catalogue: b.catalogue, EventLog: eventLog{}, Traffic: traffic.NewRecorder(),
		Bake: time.Minute}
	b.sections = []frame.Section{
		&plugin.Overview{Manager: b.manager, Administration: b.overviewUsers, Counts: b.counts},
		b.plugin, b.users, b.support, &fields.Pages{Store: store, Administration: &b.debt}, &mail.Pages{Box: box}, b.events,
	}
	b.pages, err = personaladmin.NewOf(api, personaladmin.Config{
		Guard:  guard,
		Access: personaladmin.NewAccessLog(slog.New(slog.NewTextHandler(&b.log, nil))),
		Log:    log,
	}, b.sections...)
	if err != nil {
		t.Fatal(err)
	}
	b.handler = b.pages
	return b
}

// guard admits the administrator whom a header names.
func guard(r *http.Request) (string, error) {
	name := r.Header.Get("Administrator")
	if name == "" {
		return "", errors.New("no administrator")
	}
	return name, nil
}

// another returns another browser of the administrator.
func (b *browser) another() *browser {
	return &browser{handler: b.handler, locale: b.locale, administrator: b.administrator, cookies: map[string]*http.Cookie{}}
}

// stranger returns a browser of the same site that is not signed in.
func (b *browser) stranger() *browser {
	return &browser{handler: b.handler, locale: b.locale, cookies: map[string]*http.Cookie{}}
}

func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	r.Header.Set("Accept-Language", b.locale)
	r.Header.Set("Administrator", b.administrator)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	return b.send(httptest.NewRequest(http.MethodGet, path, nil))
}

func (b *browser) post(path string, values url.Values) *httptest.ResponseRecorder {
	return b.send(form(path, values))
}

// form returns a post of a form.
func form(path string, values url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// page gets a page that must exist and returns its HTML.
func (b *browser) page(t *testing.T, path string) string {
	t.Helper()
	w := b.get(path)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: got status %d, want 200: %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// do posts a form that must succeed.
func (b *browser) do(t *testing.T, path string, values url.Values) {
	t.Helper()
	if w := b.post(path, values); w.Code != http.StatusSeeOther {
		t.Fatalf("POST %s: got status %d, want 303: %s", path, w.Code, w.Body)
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

// unbroken is a word that does not break at its hyphen.
var unbroken = regexp.MustCompile(`<span class="unbroken">([^<]*)</span>`)

// fieldError returns the error that a page shows at a control.
func fieldError(page, name string) string {
	found := regexp.MustCompile(`<p class="fault" id="field-` + regexp.QuoteMeta(name) + `-error"(?: lang="en")?>([^<]*)</p>`).FindStringSubmatch(unbroken.ReplaceAllString(page, "$1"))
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// wantNoMarkup checks that a page shows the script as text only.
func wantNoMarkup(t *testing.T, page string) {
	t.Helper()
	wantNone(t, page, "<script>alert", `alert("x")`)
	wantAll(t, page, escapedScript)
}

func wantAll(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func wantNone(t *testing.T, page string, others ...string) {
	t.Helper()
	for _, other := range others {
		if strings.Contains(page, other) {
			t.Errorf("the page has %q", other)
		}
	}
}

var (
	inputTag    = regexp.MustCompile(`<input [^>]*>`)
	areaTag     = regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]*)"[^>]*>\n(.*?)</textarea>`)
	selectTag   = regexp.MustCompile(`(?s)<select [^>]*name="([^"]*)".*?</select>`)
	selectedTag = regexp.MustCompile(`<option value="([^"]*)" selected>`)
	attribute   = regexp.MustCompile(`(name|value|type)="([^"]*)"`)
)

// shownValues returns what a browser would post of an unchanged page's forms.
func shownValues(t *testing.T, page string) url.Values {
	t.Helper()
	values := url.Values{}
	for _, tag := range inputTag.FindAllString(page, -1) {
		attributes := map[string]string{}
		for _, found := range attribute.FindAllStringSubmatch(tag, -1) {
			attributes[found[1]] = html.UnescapeString(found[2])
		}
		checked := strings.Contains(tag, " checked")
		if kind := attributes["type"]; kind == "checkbox" && !checked || kind == "radio" && !checked {
			continue
		}
		values.Set(attributes["name"], attributes["value"])
	}
	for _, found := range areaTag.FindAllStringSubmatch(page, -1) {
		values.Set(found[1], html.UnescapeString(found[2]))
	}
	for _, found := range selectTag.FindAllStringSubmatch(page, -1) {
		if selected := selectedTag.FindStringSubmatch(found[0]); selected != nil {
			values.Set(found[1], html.UnescapeString(selected[1]))
		}
	}
	return values
}

// fakeManager returns err for every swap, or hangs until the caller gives up.
type fakeManager struct {
	status   manager.Status
	notReady error
	err      error
	hang     bool
	swaps    []string
	ignored  []manager.Ignore // by the last one
}

func (m *fakeManager) Metrics(context.Context) []manager.Metrics {
	return []manager.Metrics{
		{Text: []byte("personal_plugin_up 1\n")},
		{Process: 3, Text: []byte("# TYPE personal_plugin_outbox_jobs gauge\npersonal_plugin_outbox_jobs{kind=\"event\"} 900\npersonal_plugin_outbox_jobs{kind=\"recovery\"} 2\npersonal_plugin_outbox_jobs{kind=\"invitation\"} 5\n")},
		{Process: 2, Text: []byte("personal_plugin_outbox_jobs{kind=\"recovery\"} 70\n")},
	}
}

func (m *fakeManager) Status() manager.Status      { return m.status }
func (m *fakeManager) Ready(context.Context) error { return m.notReady }

func (m *fakeManager) Use(ctx context.Context, version string, ignore ...manager.Ignore) error {
	m.ignored = ignore
	return m.swap(ctx, "use "+version)
}

func (m *fakeManager) Rehearse(ctx context.Context, version string, ignore ...manager.Ignore) error {
	m.ignored = ignore
	return m.swap(ctx, "rehearse "+version)
}

func (m *fakeManager) Rollback(ctx context.Context) error { return m.swap(ctx, "rollback") }

func (m *fakeManager) swap(ctx context.Context, what string) error {
	m.swaps = append(m.swaps, what)
	if m.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return m.err
}

// fakeCatalogue has the versions 1.3.0, 1.2.3 and 1.0.0.
type fakeCatalogue struct {
	err      error // of every read
	writeErr error // of every change
	unfit    error
	removed  []string
	bundle   string // last one installed
}

func (c *fakeCatalogue) List() ([]catalogue.Entry, error) {
	var entries []catalogue.Entry
	for _, version := range []string{"1.3.0", "1.2.3", "1.0.0"} {
		entries = append(entries, catalogue.Entry{Manifest: catalogue.Manifest{
			Version: version, SHA256: strings.Repeat("ab", 32), Notes: script + " of " + version,
		}})
	}
	return entries, c.err
}

func (c *fakeCatalogue) LoadState() (catalogue.State, error) {
	return catalogue.State{Active: "1.2.3", LastGood: "1.0.0"}, c.err
}

func (c *fakeCatalogue) Signer(catalogue.Entry) (string, error) {
	return "4583D1662199C9D8", c.unfit
}

func (c *fakeCatalogue) Remove(version string) error {
	if c.writeErr == nil {
		c.removed = append(c.removed, version)
	}
	return c.writeErr
}

func (c *fakeCatalogue) InstallBundle(_ context.Context, r io.Reader) (catalogue.Entry, error) {
	data, err := io.ReadAll(r)
	if c.bundle = string(data); c.writeErr != nil {
		err = c.writeErr
	}
	return catalogue.Entry{Manifest: catalogue.Manifest{Version: "1.4.0"}}, err
}

// eventLog is a log of plugin events, newest first.
type eventLog []manager.Event

func (l eventLog) Recent(n int) ([]manager.Event, error) { return l[:min(n, len(l))], nil }

// brokenEventLog fails.
type brokenEventLog struct{}

func (brokenEventLog) Recent(int) ([]manager.Event, error) {
	return nil, &fs.PathError{Op: "read", Path: "/secret", Err: io.ErrUnexpectedEOF}
}
