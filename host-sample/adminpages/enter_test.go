package adminpages_test

import (
	"net/http"
	"strings"
	"testing"
)

// A link is opened by many programs before a person does: that spends nothing.
func TestTheLinkLetsABrowserInOnceAndByAPostOnly(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	code := f.entry.NewCode()
	for range 2 {
		w := f.send(t, f.get("/admin/enter?code="+code))
		if w.Code != http.StatusOK || len(w.Result().Cookies()) != 0 || !strings.Contains(w.Body.String(), code) {
			t.Fatalf("opened: %d %s", w.Code, w.Body)
		}
	}
	w := f.send(t, f.form("/admin/enter", "code", code))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
		t.Fatalf("posted: %d %s", w.Code, w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("the cookie is %v", c)
	}
	if w := f.send(t, f.form("/admin/enter", "code", code)); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("posted again: %d %s", w.Code, w.Body)
	}
	f.cookie = c
	if w := f.send(t, f.form("/admin/leave", "", "")); w.Code != http.StatusSeeOther {
		t.Errorf("left: %d %s", w.Code, w.Body)
	}
	if w := f.send(t, f.get("/admin/plugin")); w.Code != http.StatusUnauthorized {
		t.Errorf("after leaving: %d", w.Code)
	}
}

func TestStrangersSeeAndChangeNothing(t *testing.T) {
	f := newFixture(t)
	f.cookie = nil
	var requests []*http.Request
	for _, path := range []string{"", "/now", "/versions", "/totals", "/traffic?since=0", "/use"} {
		requests = append(requests, f.get("/admin/plugin"+path))
	}
	for _, path := range []string{"use", "rollback", "remove", "install"} {
		requests = append(requests, f.form("/admin/plugin/"+path, "version", "1.0.0"))
	}
	requests = append(requests, f.get("/admin/"), f.form("/admin/leave", "", ""))
	for _, r := range requests {
		w := f.send(t, r)
		if w.Code != http.StatusUnauthorized || w.Header().Get("HX-Refresh") != "true" || strings.Contains(w.Body.String(), "1.2.3") || !strings.Contains(w.Body.String(), "admin-link") {
			t.Errorf("%s %s: %d %s", r.Method, r.URL.Path, w.Code, w.Body)
		}
	}
	if len(f.manager.asked)+len(f.catalogue.removed) != 0 {
		t.Errorf("a stranger changed %v %v", f.manager.asked, f.catalogue.removed)
	}
}

func TestPagesOfOtherOriginsAndNamesChangeNothing(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"use", "rollback", "remove", "install"} {
		r := f.form("/admin/plugin/"+path, "version", "1.3.0")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := f.send(t, r); w.Code != http.StatusForbidden {
			t.Errorf("%s by another origin: %d", path, w.Code)
		}
		r = f.form("/admin/plugin/"+path, "version", "1.3.0")
		r.Host = "evil.example"
		if w := f.send(t, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s by another name: %d", path, w.Code)
		}
	}
	for _, why := range []string{"a page of another origin", "a name that is not its own"} {
		if strings.Count(f.told.String(), why) != 4 {
			t.Errorf("refused and not told as %s:\n%s", why, &f.told)
		}
	}
	if len(f.manager.asked)+len(f.catalogue.removed) != 0 {
		t.Errorf("somebody changed %v %v", f.manager.asked, f.catalogue.removed)
	}
}
