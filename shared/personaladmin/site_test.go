package personaladmin_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personaladmin/internal/mailbox"
)

// requests returns a request of every route, with the id 1 and the name x in its path.
func (b *browser) requests(t *testing.T) (all []*http.Request) {
	t.Helper()
	for _, pattern := range b.pages.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{$}", "", "{id}", "1", "{name}", "x", "{action}", "use").Replace(path)
		r := httptest.NewRequest(method, path, nil)
		if method == http.MethodPost {
			r = form(path, url.Values{"version": {"1.3.0"}, "user": {"1"}, "do": {"disable"}})
		}
		all = append(all, r)
	}
	if len(all) < 40 {
		t.Fatalf("got %d routes, want all of them", len(all))
	}
	return all
}

// changes counts what the administrator has changed at the fakes.
func (b *browser) changes() int {
	return len(b.manager.swaps) + len(b.catalogue.removed) + len(b.catalogue.bundle)
}

func TestRoutes_RefuseWithoutTheGuardsWord(t *testing.T) {
	b := openWithBox(t, mailbox.Box(t.TempDir()))
	source := string(b.fields.Get().Source)
	for _, r := range b.requests(t) {
		b.log.Reset()
		w := b.stranger().send(r)
		body := w.Body.String()
		if w.Code != http.StatusForbidden || w.Header().Get("HX-Refresh") != "true" ||
			!strings.Contains(body, "This page is for administrators.") {
			t.Errorf("%s %s: got status %d, want 403 and why: %s", r.Method, r.URL.Path, w.Code, body)
		}
		for _, secret := range []string{"1.2.3", "anna", "nav_"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s %s: the page has %q", r.Method, r.URL.Path, secret)
			}
		}
	}
	if b.changes() != 0 || string(b.fields.Get().Source) != source {
		t.Errorf("strangers changed %v %v or the fields", b.manager.swaps, b.catalogue.removed)
	}
}

func TestRoutes_RefuseOtherSites(t *testing.T) {
	b := openWithBox(t, mailbox.Box(t.TempDir()))
	posts := 0
	for _, r := range b.requests(t) {
		if r.Method == http.MethodGet {
			continue // changes nothing: TestRoutes_GetChangesNothing
		}
		posts++
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := b.send(r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "a page of another site") {
			t.Errorf("%s: got status %d, want 403", r.URL.Path, w.Code)
		}
	}
	if posts < 20 || b.changes() != 0 {
		t.Errorf("%d posts changed %v %v, want 20 or more and nothing", posts, b.manager.swaps, b.catalogue.removed)
	}
	if !strings.Contains(b.log.String(), "a page of another origin") {
		t.Errorf("got the log %q, want the refusal", &b.log)
	}
}

func TestRoutes_GetChangesNothing(t *testing.T) {
	b := openWithBox(t, mailbox.Box(t.TempDir()))
	source := string(b.fields.Get().Source)
	for _, r := range b.requests(t) {
		if r.Method == http.MethodGet {
			b.send(r)
		}
	}
	if b.changes() != 0 || string(b.fields.Get().Source) != source {
		t.Errorf("got the changes %v %v, want none", b.manager.swaps, b.catalogue.removed)
	}
}

func TestSections_OthersAreNotShown(t *testing.T) {
	all, _ := openMany(t, newManyUsers())
	for _, chosen := range all.sections {
		b := open(t)
		pages, err := personaladmin.NewOf(b.pages.API(), personaladmin.Config{Guard: guard, Log: slog.New(slog.DiscardHandler)}, chosen)
		if err != nil {
			t.Fatal(err)
		}
		own, patterns := pages.Routes(), b.pages.Routes()
		b.handler = pages
		for i, r := range b.requests(t) {
			if slices.Contains(own, patterns[i]) {
				continue
			}
			if w := b.send(r); w.Code != http.StatusNotFound {
				t.Errorf("only %s: %s: got status %d, want 404", chosen.Name(), patterns[i], w.Code)
			}
		}
		page := b.page(t, personaladmin.Path+"/"+chosen.Name())
		for _, other := range []string{"overview", "users", "support", "fields", "mail", "events", "plugin"} {
			if other != chosen.Name() && strings.Contains(page, `href="/admin/`+other) {
				t.Errorf("only %s: the page links to %s", chosen.Name(), other)
			}
		}
	}
}

func TestFront_LeadsToTheFirstSection(t *testing.T) {
	b := open(t)
	for _, path := range []string{"/admin", "/admin/"} {
		if w := b.get(path); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/overview" {
			t.Errorf("GET %s: got status %d to %q, want 303 to /admin/overview", path, w.Code, w.Header().Get("Location"))
		}
	}
}

func TestForms_OnlySchemaAndUserFormsMayBeLarge(t *testing.T) {
	b := open(t)
	const usual, large = 192 << 10, 1 << 20
	for path, limit := range map[string]int{
		"/admin/users/1":        large,
		"/admin/users/1/email":  usual,
		"/admin/users/1/delete": usual,
		"/admin/users/new":      large,
		"/admin/users/selected": usual,
		"/admin/users/delete":   usual,
		"/admin/users/undo":     usual,
		"/admin/fields/json":    large,
		"/admin/fields/new":     large,
		"/admin/fields/move":    usual,
		"/admin/plugin/use":     usual,
	} {
		for over, refused := range map[int]bool{0: false, 1: true} {
			filler := url.Values{"filler": {strings.Repeat("x", limit+over-len("filler="))}}
			w := b.post(path, filler)
			if (w.Code == http.StatusRequestEntityTooLarge) != refused {
				t.Errorf("%s with %d bytes: got status %d, want 413: %t", path, limit+over, w.Code, refused)
			}
		}
	}
	unreadable := form("/admin/plugin/use", nil)
	unreadable.Body = io.NopCloser(strings.NewReader("version=%ff"))
	if w := b.send(unreadable); w.Code != http.StatusBadRequest {
		t.Errorf("an unreadable form: got status %d, want 400", w.Code)
	}
}
