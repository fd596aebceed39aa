package adminpages_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

func TestASwapIsBegunAndThePageShowsHowItGoesOn(t *testing.T) {
	for name, prepare := range map[string]func(*fakeManager){
		"at once":        func(*fakeManager) {},
		"takes its time": func(m *fakeManager) { m.hang = true },
		"refused":        func(m *fakeManager) { m.err = &pluginmanager.SwapError{Step: "find", Err: errors.New("no")} },
	} {
		f := newFixture(t)
		prepare(f.manager)
		for _, r := range []*http.Request{f.form("/admin/plugin/use", "version", "1.3.0"), f.form("/admin/plugin/rollback", "", "")} {
			if w := f.send(t, r); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
				t.Errorf("%s, %s: %d %s", name, r.URL.Path, w.Code, w.Body)
			}
		}
		if got := strings.Join(f.manager.asked, ", "); got != "use 1.3.0, rollback" {
			t.Errorf("%s: asked for %s", name, got)
		}
	}
}

func TestASwapThatDoesNotBeginSaysWhy(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{&pluginmanager.BusyError{Swap: pluginmanager.SwapStatus{To: "1.4.0", Step: "migrate"}}, http.StatusConflict, "a swap to 1.4.0 is under way (step: migrate the database)"},
		{pluginmanager.ErrStopped, http.StatusServiceUnavailable, "the plugin is being stopped"},
		{errors.New("/secret"), http.StatusInternalServerError, "log"},
	} {
		f := newFixture(t)
		f.manager.err = tt.err
		w := f.send(t, f.form("/admin/plugin/use", "version", "1.3.0"))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "/secret") {
			t.Errorf("%v: %d %s", tt.err, w.Code, w.Body)
		}
	}
}

func TestAVersionIsRemovedUnlessItIsNeeded(t *testing.T) {
	f := newFixture(t)
	w := f.send(t, f.form("/admin/plugin/remove", "version", "1.3.0"))
	if w.Code != http.StatusSeeOther || len(f.catalogue.removed) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r := f.get("/admin/plugin")
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	wantAll(t, f.send(t, r).Body.String(), "The version has been removed.")

	f.catalogue.refusal = &plugincatalogue.RefusedError{Version: "1.0.0", Kind: plugincatalogue.ErrInUse, Reason: evil}
	w = f.send(t, f.form("/admin/plugin/remove", "version", "1.0.0"))
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "plugin 1.0.0: in use: &lt;script&gt;") {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
	f.catalogue.refusal = nil
	f.manager.status.Swap = swapping("start")
	for _, version := range []string{"1.2.3", "1.3.0"} { // serves, and is about to
		if w := f.send(t, f.form("/admin/plugin/remove", "version", version)); w.Code != http.StatusConflict || len(f.catalogue.removed) != 1 {
			t.Errorf("%s: %d, removed are %v", version, w.Code, f.catalogue.removed)
		}
	}
}

func TestAChangeThatIsLoadedAgainLeadsToThePage(t *testing.T) {
	f := newFixture(t)
	for _, action := range []string{"use", "rollback", "remove", "install"} {
		if w := f.send(t, f.get("/admin/plugin/"+action)); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
			t.Errorf("%s: %d", action, w.Code)
		}
	}
}
