package personaladmin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personaladmin/internal/traffic"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func version(v string) url.Values { return url.Values{"version": {v}} }

func TestPlugin_PageShowsRunningAndInstalledVersions(t *testing.T) {
	b := open(t)
	b.manager.status.Restarts, b.manager.status.LastError = 2, "lost: "+script
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "serving", "4242", "Generation 3", "3 h 0 min", "healthy", "Roll back to 1.0.0", "Restarts", "lost: &lt;script&gt;",
		" of 1.3.0", "abababababab…", strings.Repeat("ab", 32), "4583D1662199C9D8", "last good",
		`id="use-1.3.0"`, `id="remove-1.3.0"`, `id="use-1.0.0"`, `hx-trigger="every 3s"`)
	wantNone(t, page, `id="remove-1.2.3"`, `id="remove-1.0.0"`, `id="use-1.2.3"`, "http-equiv", "plugin_")
	wantNoMarkup(t, page)
	if loose := regexp.MustCompile(`<style|\sstyle=|\son[a-z]+=|<script>|hx-on|hx-vals`).FindString(page); loose != "" {
		t.Errorf("the page has %q, which its Content-Security-Policy forbids", loose)
	}
}

func TestPlugin_EveryStateHasAText(t *testing.T) {
	b := open(t)
	for state, want := range map[manager.State]string{
		manager.StateStopped: "stopped", manager.StateStarting: "starting", manager.StateServing: "serving",
		manager.StateBaking: "serving, baking", manager.StateRestarting: "restarting",
		manager.StateDraining: "stopping", manager.StateFailed: "failed", "another": "another",
	} {
		b.manager.status.State = state
		wantAll(t, b.page(t, "/admin/plugin"), ">"+want+"</span>")
	}
}

func TestPlugin_UptimeHasItsTwoLargestUnits(t *testing.T) {
	b := open(t)
	for uptime, want := range map[time.Duration]string{
		20 * time.Second: "less than a minute", 59*time.Minute + time.Second: "59 min", 90*time.Minute + time.Second: "1 h 30 min",
		49*time.Hour + time.Second: "2 d 1 h",
	} {
		b.manager.status.Started = time.Now().Add(-uptime)
		wantAll(t, b.page(t, "/admin/plugin/now"), "<dd>"+want)
	}
}

func TestPlugin_UnhealthyPluginIsShownWithReason(t *testing.T) {
	b := open(t)
	b.manager.status = manager.Status{Active: manager.Active{State: manager.StateFailed, LastError: "no database"}}
	b.manager.notReady = errors.New("the plugin is failed: " + script)
	b.catalogue.unfit = &catalogue.RefusedError{Kind: catalogue.ErrUnsigned}
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "not healthy", "the plugin is failed: &lt;script&gt;", "no database", "not signed", `hx-trigger="every 700ms"`,
		"<strong>1.2.3</strong>")
	wantNone(t, page, "Uptime")
	wantNoMarkup(t, page)
}

// swapping returns a swap to 1.3.0 at a step.
func swapping(step string) *manager.SwapStatus {
	began := time.Now().Add(-21 * time.Second)
	return &manager.SwapStatus{From: "1.2.3", To: "1.3.0", Step: step, Started: began, Steps: []manager.SwapStep{
		{Name: "find", Began: began, Took: 200 * time.Microsecond},
		{Name: "start", Began: began, Took: 1234 * time.Millisecond, Detail: script},
		{Name: step, Began: began},
	}}
}

func TestPlugin_SwapIsShownStepByStep(t *testing.T) {
	b := open(t)
	b.manager.status.Swap = swapping("migrate")
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "Swap from 1.2.3 to 1.3.0", "find the version", "&lt; 1 ms", "start the process", "1.2 s", "migrate the database",
		"in progress",
		`hx-trigger="every 700ms"`, "Swapping to 1.3.0.", `<noscript><meta http-equiv="refresh"`)
	wantNone(t, page, "Roll back", `id="use-`, "Baking for", `id="remove-1.3.0"`)
	wantNoMarkup(t, page)
}

func TestPlugin_BakeShowsRemainingTimeAndRollback(t *testing.T) {
	b := open(t)
	b.manager.status.State, b.manager.status.Version = manager.StateBaking, "1.3.0"
	b.manager.status.Previous = &manager.VersionStatus{Version: "1.2.3", PID: 4141}
	b.manager.status.Swap = swapping("bake")
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "Time left in the bake: 40 s", "Roll back to 1.2.3", "4141", "kept warm", ">baking<", `id="use-1.2.3"`)
	wantNone(t, page, `id="remove-1.2.3"`, `id="remove-1.3.0"`)
}

func TestPlugin_FailedSwapIsShownUntilTheNextSwap(t *testing.T) {
	b := open(t)
	refused := manager.Event{Time: time.Now(), Type: manager.EventSwapRefused, Version: "1.3.0", From: "1.2.3", Step: "preflight",
		Reason: "schema 7 " + script}
	b.plugin.EventLog = eventLog{{Type: manager.EventProcessLost, Version: "1.2.3"}, refused,
		{Type: manager.EventSwapStarted, Version: "1.3.0"}}
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, `<div class="notice bad">`, "Swap to 1.3.0 refused (step: preflight check)", "schema 7 &lt;script&gt;")
	wantNoMarkup(t, page)

	b.plugin.EventLog = eventLog{{Type: manager.EventSwapStarted, Version: "1.3.0"}, refused}
	wantNone(t, b.page(t, "/admin/plugin"), `<div class="notice bad">`)
	b.plugin.EventLog = eventLog{{Type: manager.EventRolledBack, From: "1.3.0", Version: "1.2.3", Reason: "it is faulty"}}
	wantAll(t, b.page(t, "/admin/plugin"), `<div class="notice warn">`, "Rolled back from 1.3.0 to 1.2.3", "it is faulty")
}

func TestPlugin_PartsAreSentOnlyWhenTheyChange(t *testing.T) {
	b := open(t)
	page := b.page(t, "/admin/plugin")
	for _, part := range []string{"now", "versions", "totals"} {
		path := regexp.MustCompile(`hx-get="(/admin/plugin/` + part + `\?seen=[0-9a-f]+)"`).FindStringSubmatch(page)
		if path == nil {
			t.Fatalf("the page does not poll %s", part)
		}
		if w := b.get(path[1]); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
			t.Errorf("%s without a change: got status %d, want 204: %s", part, w.Code, w.Body)
		}
		w := b.get("/admin/plugin/" + part + "?seen=other")
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "hx-get") || strings.Contains(body, "<html") {
			t.Errorf("%s after a change: got status %d, want 200 and a part of the page: %s", part, w.Code, body)
		}
	}
	b.manager.status.State = manager.StateRestarting
	if w := b.get(regexp.MustCompile(`/admin/plugin/now\?seen=[0-9a-f]+`).FindString(page)); w.Code != http.StatusOK {
		t.Errorf("after a change of the state: got status %d, want 200", w.Code)
	}
}

func TestPlugin_InternalErrorsAreNotShown(t *testing.T) {
	b := open(t)
	b.catalogue.err = errors.New("/secret: input/output error")
	for _, path := range []string{"/admin/plugin", "/admin/plugin/now", "/admin/plugin/versions"} {
		if w := b.get(path); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s with a broken catalogue: got status %d, want 500 without the cause: %s", path, w.Code, w.Body)
		}
	}
	b.catalogue.err, b.plugin.EventLog, b.events.EventLog = nil, brokenEventLog{}, brokenEventLog{}
	for _, path := range []string{
		"/admin/plugin", "/admin/plugin/now", "/admin/plugin/totals", "/admin/plugin/traffic?since=0", "/admin/events", "/admin/events/rows",
	} {
		if w := b.get(path); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s with a broken event log: got status %d, want 500 without the cause: %s", path, w.Code, w.Body)
		}
	}
}

func TestPlugin_EveryTextIsTranslated(t *testing.T) {
	b := open(t)
	b.locale = "ru"
	b.manager.status.State, b.manager.status.Swap = manager.StateBaking, swapping("bake")
	for _, kind := range []manager.EventType{
		manager.EventSwapStarted, manager.EventSwitched, manager.EventSwapRefused, manager.EventRolledBack, manager.EventSwapSettled,
		manager.EventProcessLost, manager.EventRestarted, manager.EventFellBack, manager.EventGaveUp,
		manager.EventRehearsed,
	} {
		b.manager.status.Rehearsal = rehearsed(rpc.RehearsalDiffers)
		b.plugin.EventLog = eventLog{{Type: kind, Version: "1.3.0", From: "1.2.3", Step: "rehearse"}}
		page := b.page(t, "/admin/plugin")
		wantAll(t, page, `lang="ru"`, "на обкатке", "1,2 с", "До конца обкатки", "Прогон 1.3.0", "есть отличия")
		wantNone(t, page, "plugin_", "%!")
	}
}

// rehearsed returns a rehearsal of 1.3.0 with that outcome; empty while it is under way.
func rehearsed(outcome rpc.RehearsalOutcome) *manager.RehearsalStatus {
	s := &manager.RehearsalStatus{Version: "1.3.0", Time: time.Now(), Outcome: outcome, Checks: []rpc.RehearsalCheck{
		{Name: "register", Outcome: rpc.RehearsalPassed, Count: 12},
	}}
	if outcome != "" {
		s.Checks = append(s.Checks, rpc.RehearsalCheck{
			Name: "same_answers", Outcome: outcome, Count: 601, Reason: script,
			Differences: []rpc.Difference{{Operation: "User", Field: "email"}, {Operation: "Explain"}},
		})
	}
	return s
}

func TestPlugin_RehearsalIsShownWhileItRunsAndAfterwards(t *testing.T) {
	b := open(t)
	b.manager.status.Swap, b.manager.status.Rehearsal = swapping("rehearse"), rehearsed("")
	wantAll(t, b.page(t, "/admin/plugin"), "Rehearsal of 1.3.0 <span class=\"badge \">in progress", "rehearse the version",
		`<th scope="row">register</th>`, `<td class="number" data-label="Comparisons">12</td>`)

	b.manager.status.Swap.RehearsalOnly = true
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "<h3>Rehearsal of 1.3.0</h3>", "Roll back to 1.0.0")
	wantNone(t, page, "Swap from", `id="plugin-restart"`, `id="rehearse-`)

	b.manager.status.Swap, b.manager.status.Rehearsal = nil, rehearsed(rpc.RehearsalDiffers)
	page = b.page(t, "/admin/plugin")
	wantAll(t, page, `<span class="badge warn">differs</span>`, `<td class="number" data-label="Comparisons">601</td>`,
		"<code>User.email</code>, <code>Explain</code>", "&lt;script&gt;",
		`id="rehearse-1.2.3"`, `id="rehearse-1.3.0"`)
	wantNoMarkup(t, page)
	wantNone(t, page, "<details><summary><h3>")

	b.manager.status.Rehearsal = rehearsed(rpc.RehearsalPassed)
	page = b.page(t, "/admin/plugin")
	wantAll(t, page, "<details><summary><h3>Rehearsal of 1.3.0", `<th scope="row">same_answers</th>`)
	wantNone(t, page, "Passed checks:")
}

func TestPlugin_RefusedRehearsalCanBeIgnored(t *testing.T) {
	b := open(t)
	refused := manager.Event{Type: manager.EventSwapRefused, Version: "1.3.0", Step: "preflight"}
	b.plugin.EventLog = eventLog{refused}
	wantNone(t, b.page(t, "/admin/plugin"), `id="plugin-anyway"`)
	refused.Step = "rehearse"
	b.plugin.EventLog = eventLog{refused}
	wantAll(t, b.page(t, "/admin/plugin"), `id="plugin-anyway"`, "Swap to 1.3.0 anyway", `name="accept_differences"`)
	b.manager.status.Swap = swapping("check")
	wantNone(t, b.page(t, "/admin/plugin"), `id="plugin-anyway"`)
	b.post("/admin/plugin/use", url.Values{"version": {"1.3.0"}, "accept_differences": {"1"}})
	if want := []manager.Ignore{manager.AcceptDifferences}; !slices.Equal(b.manager.ignored, want) {
		t.Errorf("got that the swap ignores %v, want %v", b.manager.ignored, want)
	}
}

func TestPlugin_YoungVersionCanBeUsedNow(t *testing.T) {
	b := open(t)
	b.manager.err = &manager.SwapError{Step: "find", Version: "1.3.0",
		Err: &manager.AgeError{Since: time.Now(), MinAge: 72 * time.Hour}}
	for _, action := range []string{"use", "rehearse"} {
		w := b.post("/admin/plugin/"+action, version("1.3.0"))
		if w.Code != http.StatusConflict || len(b.manager.ignored) != 0 {
			t.Errorf("%s: got status %d, ignored %v, want 409 and nothing", action, w.Code, b.manager.ignored)
		}
		wantAll(t, w.Body.String(), "plugin 1.3.0 is too young", "72h0m0s",
			`action="/admin/plugin/`+action+`"><input type="hidden" name="version" value="1.3.0"><input type="hidden" name="now"`)
	}
	b.manager.err = nil
	w := b.post("/admin/plugin/rehearse", url.Values{"version": {"1.3.0"}, "now": {"1"}})
	want := []manager.Ignore{manager.IgnoreMinAge}
	if w.Code != http.StatusSeeOther || !slices.Equal(b.manager.ignored, want) || b.manager.swaps[len(b.manager.swaps)-1] != "rehearse 1.3.0" {
		t.Errorf("got status %d, %q ignoring %v, want a rehearsal ignoring %v", w.Code, b.manager.swaps, b.manager.ignored, want)
	}
}

func TestPlugin_SwapRedirectsToThePage(t *testing.T) {
	for name, prepare := range map[string]func(*fakeManager){
		"quick swap":        func(*fakeManager) {},
		"slow swap":         func(m *fakeManager) { m.hang = true },
		"swap that refuses": func(m *fakeManager) { m.err = &manager.SwapError{Step: "find", Err: errors.New("no")} },
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			prepare(b.manager)
			for path, values := range map[string]url.Values{"/admin/plugin/use": version("1.3.0"), "/admin/plugin/rollback": nil} {
				if w := b.post(path, values); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
					t.Errorf("%s: got status %d to %q, want 303 to /admin/plugin: %s", path, w.Code, w.Header().Get("Location"), w.Body)
				}
			}
			if got := strings.Join(b.manager.swaps, ", "); got != "use 1.3.0, rollback" && got != "rollback, use 1.3.0" {
				t.Errorf("got the swaps %s, want both", got)
			}
		})
	}
}

func TestPlugin_SwapThatCannotStartIsExplained(t *testing.T) {
	b := open(t)
	for _, tt := range []struct {
		err    error
		status int
		want   string
	}{
		{&manager.BusyError{Swap: manager.SwapStatus{To: "1.4.0", Step: "migrate"}}, http.StatusConflict, "a swap to 1.4.0 is in progress (step: migrate the database)"},
		{&manager.BusyError{Swap: manager.SwapStatus{To: "1.4.0", RehearsalOnly: true}}, http.StatusConflict, "a rehearsal of 1.4.0 is in progress"},
		{manager.ErrStopped, http.StatusServiceUnavailable, "the plugin is stopping"},
		{errors.New("/secret"), http.StatusInternalServerError, "log"},
	} {
		b.manager.err = tt.err
		w := b.post("/admin/plugin/use", version("1.3.0"))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "/secret") {
			t.Errorf("%v: got status %d, want %d and %q: %s", tt.err, w.Code, tt.status, tt.want, w.Body)
		}
	}
}

func TestPlugin_OnlyUnusedVersionsCanBeRemoved(t *testing.T) {
	b := open(t)
	w := b.post("/admin/plugin/remove", version("1.3.0"))
	if w.Code != http.StatusSeeOther || len(b.catalogue.removed) != 1 {
		t.Fatalf("an unused version: got status %d, removed %v, want 303 and 1.3.0: %s", w.Code, b.catalogue.removed, w.Body)
	}
	r := httptest.NewRequest(http.MethodGet, "/admin/plugin", nil)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	wantAll(t, b.send(r).Body.String(), "The version has been removed.")

	b.catalogue.writeErr = &catalogue.RefusedError{Version: "1.0.0", Kind: catalogue.ErrInUse, Reason: script}
	w = b.post("/admin/plugin/remove", version("1.0.0"))
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "plugin 1.0.0: in use: &lt;script&gt;") {
		t.Errorf("a version that the catalogue keeps: got status %d, want 409 and the reason: %s", w.Code, w.Body)
	}
	b.catalogue.writeErr = errors.New("/secret")
	if w := b.post("/admin/plugin/remove", version("1.0.0")); w.Code != http.StatusInternalServerError {
		t.Errorf("a removal that fails: got status %d, want 500", w.Code)
	}
	b.catalogue.writeErr = nil
	b.manager.status.Swap = swapping("start")
	b.manager.status.Previous = &manager.VersionStatus{Version: "1.1.0"}
	for _, v := range []string{"1.2.3", "1.3.0", "1.1.0"} { // serves, is the candidate, is kept warm
		w := b.post("/admin/plugin/remove", version(v))
		if w.Code != http.StatusConflict || len(b.catalogue.removed) != 1 || !strings.Contains(w.Body.String(), "in use") {
			t.Errorf("%s, which is in use: got status %d, removed %v, want 409 and nothing", v, w.Code, b.catalogue.removed)
		}
	}
}

func TestPlugin_ReloadAfterAPostRedirectsToThePage(t *testing.T) {
	b := open(t)
	for _, action := range []string{"use", "rehearse", "rollback", "remove", "install"} {
		if w := b.get("/admin/plugin/" + action); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
			t.Errorf("GET %s: got status %d, want 303 to /admin/plugin", action, w.Code)
		}
	}
}

// upload returns a post of the upload form.
func upload(name, content string) *http.Request {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile(name, "personal.tar.gz")
	if err == nil {
		_, err = io.WriteString(file, content)
	}
	if err := errors.Join(err, form.Close()); err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/admin/plugin/install", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	return r
}

func TestPlugin_UploadsAreOffWithoutKeys(t *testing.T) {
	b := open(t)
	page := b.page(t, "/admin/plugin")
	wantAll(t, page, "only if signing keys are configured", "docs/plugin-versions.md#build-and-sign")
	wantNone(t, page, `type="file"`)
	w := b.send(upload("bundle", "x"))
	if w.Code != http.StatusForbidden || b.catalogue.bundle != "" || !strings.Contains(w.Body.String(), "uploads are off") {
		t.Errorf("got status %d and bundle %q, want 403 and none: %s", w.Code, b.catalogue.bundle, w.Body)
	}
}

func TestPlugin_UploadInstallsABundle(t *testing.T) {
	b := open(t)
	b.plugin.Uploads = adminapi.NewUploads(b.catalogue, 1000, slog.New(slog.DiscardHandler))
	wantAll(t, b.page(t, "/admin/plugin"), `type="file"`, `enctype="multipart/form-data"`)
	w := b.send(upload("bundle", "a bundle"))
	if w.Code != http.StatusSeeOther || b.catalogue.bundle != "a bundle" {
		t.Errorf("got status %d and bundle %q, want 303 and %q: %s", w.Code, b.catalogue.bundle, "a bundle", w.Body)
	}
	b.catalogue.writeErr = &catalogue.RefusedError{Version: "1.4.0", Kind: catalogue.ErrBadSignature, Reason: script}
	for name, tt := range map[string]struct {
		r      *http.Request
		status int
		want   string
	}{
		"badly signed bundle": {upload("bundle", "x"), http.StatusUnprocessableEntity, "not installed: 1.4.0: not signed"},
		"form without bundle": {upload("other", "x"), http.StatusBadRequest, "there is no bundle in the form"},
		"no multipart form":   {form("/admin/plugin/install", url.Values{"bundle": {"x"}}), http.StatusBadRequest, "there is no bundle in the form"},
	} {
		if w := b.send(tt.r); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: got status %d, want %d and %q: %s", name, w.Code, tt.status, tt.want, w.Body)
		}
	}
	b.catalogue.writeErr = nil
	if w := b.send(upload("bundle", strings.Repeat("x", 1000))); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a bundle that is too large: got status %d, want 413", w.Code)
	}
}

func TestTraffic_JSONHasSecondsAndMarks(t *testing.T) {
	b := open(t)
	now := time.Now()
	at := func(ago time.Duration, kind manager.EventType) manager.Event {
		return manager.Event{Time: now.Add(-ago), Type: kind, Version: "1.3.0", From: "1.2.3"}
	}
	b.plugin.EventLog = eventLog{
		at(-time.Minute, manager.EventProcessLost), // after the completed seconds
		at(10*time.Second, manager.EventSwapSettled),
		at(15*time.Second, manager.EventRehearsed),
		at(20*time.Second, manager.EventRolledBack),
		at(30*time.Second, manager.EventSwitched),
		at(time.Hour, manager.EventSwitched),
	}
	w := b.get("/admin/plugin/traffic?since=0")
	var got struct {
		From, Until int64
		All         traffic.Series
		Operations  map[string]traffic.Series
		Marks       []struct {
			At                  float64
			Kind, Version, Text string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("got status %d and error %v, want 200 and JSON: %s", w.Code, err, w.Body)
	}
	if len(got.All.Requests) != int(got.Until-got.From) || got.Operations == nil {
		t.Errorf("got %d seconds from %d until %d, want one value each", len(got.All.Requests), got.From, got.Until)
	}
	if len(got.Marks) != 2 || got.Marks[0].Kind != "switched" || got.Marks[0].Text != "Switched from 1.2.3 to 1.3.0" ||
		got.Marks[1].Kind != "rolled_back" {
		t.Errorf("got marks %+v, want the switch and the rollback", got.Marks)
	}
	for _, query := range []string{"", "?since=soon"} {
		if w := b.get("/admin/plugin/traffic" + query); w.Code != http.StatusBadRequest {
			t.Errorf("query %q: got status %d, want 400", query, w.Code)
		}
	}
}

func TestTraffic_TableHasTotalsAndEvents(t *testing.T) {
	b := open(t)
	for range 3 {
		b.plugin.Traffic.Count("auth", false, 5*time.Millisecond)
	}
	b.plugin.Traffic.Count("auth", true, 1500*time.Millisecond)
	b.plugin.Traffic.Count("profile", false, 50*time.Millisecond)
	b.plugin.EventLog = eventLog{{Time: time.Now(), Type: manager.EventProcessLost, Version: "1.2.3", Reason: script}}
	part := b.page(t, "/admin/plugin/totals")
	wantAll(t, part, "All operations", `<th scope="row">auth</th><td class="number">4</td><td class="number failed">1</td>`,
		" s</td>", "The process of 1.2.3 ended unexpectedly")
	if !regexp.MustCompile(`<th scope="row">profile</th>.*<td class="number">\d\d ms</td>`).MatchString(part) {
		t.Errorf("got no latency of profile in whole milliseconds, want one: %s", part)
	}
	wantNoMarkup(t, part)
}

func TestPlugin_BannersTellTheLatestFactAndCanBeDismissed(t *testing.T) {
	b := open(t)
	event := func(n int, kind manager.EventType) manager.Event {
		return manager.Event{Time: second(n), Type: kind, Version: "1.3.0", From: "1.2.3", Step: "check", Reason: script}
	}
	refused, lost, restarted := event(1, manager.EventSwapRefused), event(2, manager.EventProcessLost),
		event(3, manager.EventRestarted)
	started, switched, settled := event(4, manager.EventSwapStarted), event(5, manager.EventSwitched),
		event(6, manager.EventSwapSettled)
	switched.Time = time.Now()
	for _, test := range []struct {
		log  eventLog
		want string // of the banner; empty: there is none
	}{
		{eventLog{refused}, "<strong>Swap to 1.3.0 refused (step: check health)</strong>"},
		{eventLog{lost, refused}, "<strong>The process of 1.3.0 ended unexpectedly</strong>"},
		{eventLog{restarted, lost, refused}, ""},
		{eventLog{switched, started, refused}, "<strong>Switched from 1.2.3 to 1.3.0</strong>"},
		{eventLog{settled, switched, started, refused}, "<strong>Switched from 1.2.3 to 1.3.0</strong>"},
		{eventLog{started, settled, switched}, ""},
		{eventLog{settled, event(3, manager.EventSwitched)}, ""}, // long ago
	} {
		b.plugin.EventLog = test.log
		page := b.page(t, "/admin/plugin")
		if got := strings.Contains(page, `action="/admin/plugin/dismiss"`); got != (test.want != "") || !strings.Contains(page, test.want) {
			t.Errorf("after %d events: got a banner %t, want %q", len(test.log), got, test.want)
		}
	}
	b.plugin.EventLog = eventLog{lost}
	b.do(t, "/admin/plugin/dismiss", url.Values{"at": {hidden(b.page(t, "/admin/plugin"), "at")}})
	wantNone(t, b.page(t, "/admin/plugin"), "/admin/plugin/dismiss")
	later := event(4, manager.EventRolledBack)
	b.plugin.EventLog = eventLog{later, lost}
	wantAll(t, b.page(t, "/admin/plugin"), "<strong>Rolled back from 1.2.3 to 1.3.0</strong>", "/admin/plugin/dismiss")
	b.do(t, "/admin/plugin/dismiss", url.Values{"at": {"9223372036854775807"}}) // the future
	wantAll(t, b.page(t, "/admin/plugin"), "/admin/plugin/dismiss")
}

func TestPlugin_VersionsComeBeforeTheChart(t *testing.T) {
	b := open(t)
	page := b.page(t, "/admin/plugin")
	if versions, chart := strings.Index(page, `id="plugin-versions"`), strings.Index(page, `id="traffic"`); versions < 0 || versions > chart {
		t.Errorf("got the versions at %d and the chart at %d, want the versions first", versions, chart)
	}
	wantAll(t, page, "“Use” starts a version beside the running one", "For 60 s the previous version stays ready")
}
