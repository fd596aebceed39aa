package adminpages_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

func TestThePageShowsWhatRunsAndWhatIsInstalled(t *testing.T) {
	f := newFixture(t)
	f.manager.status.Restarts, f.manager.status.LastError = 2, "lost: "+evil
	page := f.page(t)
	wantAll(t, page, "serving", "4242", "Generation 3", "3 h 0 min", "answers", "Roll back to 1.0.0", "Restarts", "lost: &lt;script&gt;",
		"&lt;script&gt;alert(1)&lt;/script&gt; of 1.3.0", "abababababab…", strings.Repeat("ab", 32), "4583D1662199C9D8", "last good",
		`id="use-1.3.0"`, `id="remove-1.3.0"`, `id="use-1.0.0"`, `hx-trigger="every 3s"`)
	wantNone(t, page, evil, `id="remove-1.2.3"`, `id="remove-1.0.0"`, `id="use-1.2.3"`, "http-equiv", "plugin_")
	if loose := regexp.MustCompile(`<style|\sstyle=|\son[a-z]+=|<script>|hx-on|hx-vals`).FindString(page); loose != "" {
		t.Errorf("the page has %q, which its policy forbids", loose)
	}
}

func TestEveryStateHasAName(t *testing.T) {
	for state, want := range map[pluginmanager.State]string{
		pluginmanager.StateStopped: "stopped", pluginmanager.StateStarting: "starting", pluginmanager.StateServing: "serving",
		pluginmanager.StateBaking: "serving, on trial", pluginmanager.StateRestarting: "restarting",
		pluginmanager.StateDraining: "stopping", pluginmanager.StateFailed: "failed", "another": "another",
	} {
		f := newFixture(t)
		f.manager.status.State = state
		wantAll(t, f.page(t), ">"+want+"</span>")
	}
}

func TestAPluginThatIsNotWellIsShownWithTheReason(t *testing.T) {
	f := newFixture(t)
	f.manager.status = pluginmanager.Status{State: pluginmanager.StateFailed, LastError: "no database"}
	f.manager.unwell = errors.New("the plugin is failed: " + evil)
	f.catalogue.unfit = &plugincatalogue.RefusedError{Kind: plugincatalogue.ErrUnsigned}
	page := f.page(t)
	wantAll(t, page, "does not answer", "the plugin is failed: &lt;script&gt;", "no database", "not signed", `hx-trigger="every 700ms"`, "<strong>1.2.3</strong>")
	wantNone(t, page, evil, "Up for")
}

// swapping is a swap to 1.3.0 at a step.
func swapping(step string) *pluginmanager.SwapStatus {
	began := time.Now().Add(-21 * time.Second)
	return &pluginmanager.SwapStatus{From: "1.2.3", To: "1.3.0", Step: step, Started: began, Steps: []pluginmanager.SwapStep{
		{Name: "find", Began: began, Took: 200 * time.Microsecond},
		{Name: "start", Began: began, Took: 1234 * time.Millisecond, Detail: evil},
		{Name: step, Began: began},
	}}
}

func TestASwapIsShownStepByStep(t *testing.T) {
	f := newFixture(t)
	f.manager.status.Swap = swapping("migrate")
	page := f.page(t)
	wantAll(t, page, "Swap from 1.2.3 to 1.3.0", "find the version", "&lt; 1 ms", "start the process", "1.2 s", "migrate the database", "under way",
		`hx-trigger="every 700ms"`, "Swapping to 1.3.0.", `<noscript><meta http-equiv="refresh"`)
	wantNone(t, page, evil, "Roll back", `id="use-`, "On trial for", `id="remove-1.3.0"`)
}

func TestATrialShowsWhatIsLeftOfItAndTheWayBack(t *testing.T) {
	f := newFixture(t)
	f.manager.status.State, f.manager.status.Version = pluginmanager.StateBaking, "1.3.0"
	f.manager.status.Previous = &pluginmanager.VersionStatus{Version: "1.2.3", PID: 4141}
	f.manager.status.Swap = swapping("bake")
	page := f.page(t)
	wantAll(t, page, "On trial for about 40 s more", "Roll back to 1.2.3", "4141", "kept warm", "on trial", `id="use-1.2.3"`)
	wantNone(t, page, `id="remove-1.2.3"`, `id="remove-1.3.0"`)
}

func TestARefusalStaysOnShowUntilTheNextSwap(t *testing.T) {
	f := newFixture(t)
	refused := pluginmanager.Event{Time: time.Now(), Type: pluginmanager.EventSwapRefused, Version: "1.3.0", From: "1.2.3", Step: "preflight", Reason: "schema 7 " + evil}
	f.plugin.EventLog = fakeHistory{{Type: pluginmanager.EventProcessLost, Version: "1.2.3"}, refused, {Type: pluginmanager.EventSwapStarted, Version: "1.3.0"}}
	page := f.page(t)
	wantAll(t, page, `<div class="notice bad">`, "1.3.0 was refused at the step: preflight", "schema 7 &lt;script&gt;")
	wantNone(t, page, evil)

	f.plugin.EventLog = fakeHistory{{Type: pluginmanager.EventSwapStarted, Version: "1.3.0"}, refused}
	wantNone(t, f.page(t), `<div class="notice bad">`)
	f.plugin.EventLog = fakeHistory{{Type: pluginmanager.EventRolledBack, From: "1.3.0", Version: "1.2.3", Reason: "it is faulty"}}
	wantAll(t, f.page(t), `<div class="notice warn">`, "Rolled back from 1.3.0 to 1.2.3", "it is faulty")
}

func TestPartsAreSentAgainOnlyWhenTheyChange(t *testing.T) {
	f := newFixture(t)
	page := f.page(t)
	for _, part := range []string{"now", "versions", "totals"} {
		path := regexp.MustCompile(`hx-get="(/admin/plugin/` + part + `\?seen=[0-9a-f]+)"`).FindStringSubmatch(page)
		if path == nil {
			t.Fatalf("the page does not ask for %s", part)
		}
		if w := f.send(t, f.get(path[1])); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", part, w.Code, w.Body)
		}
		w := f.send(t, f.get("/admin/plugin/"+part+"?seen=other"))
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "hx-get") || strings.Contains(body, "<html") {
			t.Errorf("%s that changed: %d %s", part, w.Code, w.Body)
		}
	}
	f.manager.status.State = pluginmanager.StateRestarting
	if w := f.send(t, f.get(regexp.MustCompile(`/admin/plugin/now\?seen=[0-9a-f]+`).FindString(page))); w.Code != http.StatusOK {
		t.Errorf("after a change: %d", w.Code)
	}
}

func TestACatalogueThatCannotBeReadIsAnErrorPage(t *testing.T) {
	f := newFixture(t)
	f.catalogue.err = errors.New("/secret: input/output error")
	for _, path := range []string{"", "/now", "/versions"} {
		w := f.send(t, f.get("/admin/plugin"+path))
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestEveryTextIsThereInRussianToo(t *testing.T) {
	f := newFixture(t)
	f.manager.status.State, f.manager.status.Swap = pluginmanager.StateBaking, swapping("bake")
	for _, kind := range []pluginmanager.EventType{
		pluginmanager.EventSwapStarted, pluginmanager.EventSwitched, pluginmanager.EventSwapRefused, pluginmanager.EventRolledBack, pluginmanager.EventSwapCompleted,
		pluginmanager.EventProcessLost, pluginmanager.EventRestarted, pluginmanager.EventFellBack, pluginmanager.EventGaveUp,
	} {
		f.plugin.EventLog = fakeHistory{{Type: kind, Version: "1.3.0", From: "1.2.3", Step: "check"}}
		r := f.get("/admin/plugin")
		r = r.WithContext(personal.WithCall(r.Context(), personal.Call{Locale: "ru"}))
		page := f.send(t, r).Body.String()
		wantAll(t, page, `lang="ru"`, "на испытании", "1,2 с", "Испытание продлится")
		wantNone(t, page, "plugin_", "%!")
	}
}
