package adminpages_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/host-sample/adminentry"
	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// evil is what must never be markup, wherever it comes from.
const evil = `<script>alert(1)</script>`

// fakeManager answers every swap with err, or lets it take for ever.
type fakeManager struct {
	status pluginmanager.Status
	unwell error
	err    error
	hang   bool
	asked  []string
}

func (m *fakeManager) Status() pluginmanager.Status { return m.status }
func (m *fakeManager) Ready(context.Context) error  { return m.unwell }

func (m *fakeManager) Use(ctx context.Context, version string) error {
	return m.swap(ctx, "use "+version)
}

func (m *fakeManager) Rollback(ctx context.Context) error { return m.swap(ctx, "rollback") }

func (m *fakeManager) swap(ctx context.Context, what string) error {
	m.asked = append(m.asked, what)
	if m.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return m.err
}

// fakeCatalogue has the versions 1.3.0, 1.2.3 and 1.0.0.
type fakeCatalogue struct {
	err     error // of everything that is read
	refusal error // of what is changed
	unfit   error
	removed []string
	taken   string
}

func (c *fakeCatalogue) List() ([]plugincatalogue.Entry, error) {
	var entries []plugincatalogue.Entry
	for _, version := range []string{"1.3.0", "1.2.3", "1.0.0"} {
		entries = append(entries, plugincatalogue.Entry{Manifest: plugincatalogue.Manifest{
			Version: version, SHA256: strings.Repeat("ab", 32), Notes: evil + " of " + version,
		}})
	}
	return entries, c.err
}

func (c *fakeCatalogue) LoadState() (plugincatalogue.State, error) {
	return plugincatalogue.State{Active: "1.2.3", LastGood: "1.0.0"}, c.err
}

func (c *fakeCatalogue) Signer(plugincatalogue.Entry) (string, error) {
	return "4583D1662199C9D8", c.unfit
}

func (c *fakeCatalogue) Remove(version string) error {
	if c.refusal == nil {
		c.removed = append(c.removed, version)
	}
	return c.refusal
}

func (c *fakeCatalogue) InstallBundle(_ context.Context, r io.Reader) (plugincatalogue.Entry, error) {
	data, err := io.ReadAll(r)
	if c.taken = string(data); c.refusal != nil {
		err = c.refusal
	}
	return plugincatalogue.Entry{Manifest: plugincatalogue.Manifest{Version: "1.4.0"}}, err
}

type fakeHistory []pluginmanager.Event

func (h fakeHistory) Recent(n int) ([]pluginmanager.Event, error) { return h[:min(n, len(h))], nil }

// fixture are the admin pages over fakes, and an administrator's browser.
type fixture struct {
	manager   *fakeManager
	catalogue *fakeCatalogue
	plugin    adminpages.Plugin
	entry     *adminentry.Entry
	guard     *adminentry.Guard
	cookie    *http.Cookie
	told      strings.Builder // of who came and who was refused
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		manager: &fakeManager{status: pluginmanager.Status{
			State: pluginmanager.StateServing, Version: "1.2.3", Generation: 3, PID: 4242, Started: time.Now().Add(-3 * time.Hour),
		}},
		catalogue: &fakeCatalogue{},
		entry:     adminentry.New(),
	}
	f.guard = adminentry.NewGuard(f.entry, adminentry.NewRecord(slog.New(slog.NewTextHandler(&f.told, nil))))
	f.plugin = adminpages.Plugin{
		Manager: f.manager, Catalogue: f.catalogue, EventLog: fakeHistory{}, Traffic: traffic.NewRecorder(), Bake: time.Minute,
	}
	w := f.send(t, f.form("/admin/enter", "code", f.entry.NewCode()))
	if w.Code != http.StatusSeeOther || len(w.Result().Cookies()) != 1 {
		t.Fatalf("entering: %d %s", w.Code, w.Body)
	}
	f.cookie = w.Result().Cookies()[0]
	return f
}

// get makes a request of the administrator's.
func (f *fixture) get(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	if f.cookie != nil {
		r.AddCookie(f.cookie)
	}
	return r
}

// form makes a post of the administrator's of one value.
func (f *fixture) form(path, name, value string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080"+path, strings.NewReader(url.Values{name: {value}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if f.cookie != nil {
		r.AddCookie(f.cookie)
	}
	return r
}

func (f *fixture) send(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := adminpages.New(adminpages.Options{Guard: f.guard, Plugin: f.plugin, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// page returns the whole page.
func (f *fixture) page(t *testing.T) string {
	t.Helper()
	w := f.send(t, f.get("/admin/plugin"))
	if w.Code != http.StatusOK {
		t.Fatalf("the page: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
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
