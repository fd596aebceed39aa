package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// fakeManager swaps immediately, or fails with err.
type fakeManager struct {
	status manager.Status
	err    error
	asked  []string
}

func (m *fakeManager) Status() manager.Status { return m.status }

func (m *fakeManager) Use(_ context.Context, version string, ignore ...manager.Ignore) error {
	m.asked = append(m.asked, asked("use", version, ignore))
	return m.swap(version)
}

func (m *fakeManager) Rehearse(_ context.Context, version string, ignore ...manager.Ignore) error {
	m.asked = append(m.asked, asked("rehearse", version, ignore))
	return m.err
}

func asked(what, version string, ignore []manager.Ignore) string {
	for name, i := range map[string]manager.Ignore{" rehearsal": manager.AcceptDifferences, " age": manager.IgnoreMinAge} {
		if slices.Contains(ignore, i) {
			version += name
		}
	}
	return what + " " + version
}

func (m *fakeManager) Rollback(context.Context) error {
	m.asked = append(m.asked, "rollback")
	return m.swap("1.0.0")
}

func (m *fakeManager) swap(version string) error {
	if m.err == nil {
		m.status.Version, m.status.State = version, manager.StateBaking
	}
	return m.err
}

// fakeCatalogue has two versions and accepts any bundle, or fails with err.
type fakeCatalogue struct {
	err     error
	unfit   error             // the error of Signer
	signers map[string]string // by version
	install func(io.Reader) error
}

func (c *fakeCatalogue) List() ([]catalogue.Entry, error) {
	return []catalogue.Entry{entry("1.1.0", "faster"), entry("1.0.0", "")}, c.err
}

func (c *fakeCatalogue) LoadState() (catalogue.State, error) {
	return catalogue.State{Active: "1.1.0", LastGood: "1.0.0"}, c.err
}

func (c *fakeCatalogue) Signer(e catalogue.Entry) (string, error) {
	return c.signers[e.Manifest.Version], c.unfit
}

func (c *fakeCatalogue) InstallBundle(_ context.Context, r io.Reader) (catalogue.Entry, error) {
	if err := c.install(r); err != nil {
		return catalogue.Entry{}, err
	}
	return entry("1.2.0", "new"), nil
}

func entry(version, notes string) catalogue.Entry {
	one := catalogue.Range{Min: 1, Max: 1}
	return catalogue.Entry{Manifest: catalogue.Manifest{
		Name: catalogue.Name, Version: version, SHA256: "abc", Notes: notes, Protocol: one, Schema: one,
	}}
}

type fixture struct {
	manager   *fakeManager
	catalogue *fakeCatalogue
	options   adminapi.Options
}

func newFixture() *fixture {
	return &fixture{
		manager: &fakeManager{status: manager.Status{
			Active: manager.Active{State: manager.StateServing, Version: "1.1.0", Generation: 3, PID: 42},
		}},
		catalogue: &fakeCatalogue{install: func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		}},
		options: adminapi.Options{Log: slog.New(slog.DiscardHandler)},
	}
}

// send sends one request; headers are pairs of name and value.
func (f *fixture) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://cms.example/", strings.NewReader(body))
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	adminapi.New(f.manager, f.catalogue, f.options).ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("got %s, want JSON: %v", w.Body, err)
	}
	return v
}

func TestReport_NamesWhatRunsAndWhatIsInstalled(t *testing.T) {
	const versions = `"versions":[{"version":"1.1.0","sha256":"abc","protocol":{"min":1,"max":1},"schema":{"min":1,"max":1},"notes":"faster"},` +
		`{"version":"1.0.0","sha256":"abc","protocol":{"min":1,"max":1},"schema":{"min":1,"max":1},"last_good":true}]`
	f := newFixture()
	for _, path := range []string{"", "/"} {
		w := f.send(http.MethodGet, path, "")
		want := `{"active":{"version":"1.1.0","generation":3,"pid":42,"state":"serving","restarts":0},"previous":null,` + versions + `,"swap":null}` + "\n"
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%q: got %d\n%swant\n%s", path, w.Code, w.Body, want)
		}
	}
	moment := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.manager.status = manager.Status{
		Active:   manager.Active{State: manager.StateBaking, Version: "1.1.0", Generation: 4, PID: 43},
		Previous: &manager.VersionStatus{Version: "1.0.0", Generation: 3, PID: 42, State: manager.StateDraining},
		Swap:     &manager.SwapStatus{From: "1.0.0", To: "1.1.0", Step: "bake", Started: moment, Steps: []manager.SwapStep{}},
	}
	want := `{"active":{"version":"1.1.0","generation":4,"pid":43,"state":"baking","restarts":0},` +
		`"previous":{"version":"1.0.0","generation":3,"pid":42,"state":"draining"},` + versions +
		`,"swap":{"from":"1.0.0","to":"1.1.0","step":"bake","started":"2026-01-02T03:04:05Z","steps":[]}}` + "\n"
	if w := f.send(http.MethodGet, "/", ""); w.Body.String() != want {
		t.Errorf("baking: got\n%swant\n%s", w.Body, want)
	}
	f.manager.status.Previous, f.manager.status.Swap = nil, nil
	f.manager.status.Rehearsal = &manager.RehearsalStatus{Version: "1.1.0", Time: moment, Outcome: rpc.RehearsalDiffers,
		Checks: []rpc.RehearsalCheck{
			{Name: "same_answers", Outcome: rpc.RehearsalDiffers, Count: 7, Differences: []rpc.Difference{{Operation: "User", Field: "email"}}},
		}}
	want = `"rehearsal":{"version":"1.1.0","time":"2026-01-02T03:04:05Z","outcome":"differs","checks":[` +
		`{"name":"same_answers","outcome":"differs","count":7,"differences":[{"operation":"User","field":"email"}]}]}}` + "\n"
	if w := f.send(http.MethodGet, "/", ""); !strings.HasSuffix(w.Body.String(), want) {
		t.Errorf("after a rehearsal: got\n%swant\n%s", w.Body, want)
	}
	f.manager.status.Rehearsal = nil
	f.manager.status.UnknownSettings = []manager.UnknownSetting{
		{UnknownSetting: rpc.UnknownSetting{Key: "session.idel", Meant: "session.idle"}},
		{UnknownSetting: rpc.UnknownSetting{Key: "two_moons"}, KnownBy: "1.3.0"},
	}
	want = `"unknown_settings":[{"key":"session.idel","meant":"session.idle"},{"key":"two_moons","known_by":"1.3.0"}]},"previous"`
	if w := f.send(http.MethodGet, "/", ""); !strings.Contains(w.Body.String(), want) {
		t.Errorf("with unknown settings: got\n%swant\n%s", w.Body, want)
	}
	f.manager.status = manager.Status{Active: manager.Active{State: manager.StateRestarting}}
	if got := decode[adminapi.Overview](t, f.send(http.MethodGet, "/", "")); got.Active.Version != "1.1.0" {
		t.Errorf("while nothing serves: got active version %q, want 1.1.0", got.Active.Version)
	}
}

func TestSwap_RespondsWithReport(t *testing.T) {
	f := newFixture()
	for _, tt := range []struct{ path, body, asked, version string }{
		{"/use", `{"version":"1.2.3"}`, "use 1.2.3", "1.2.3"},
		{"/use", `{"version":"1.2.3","accept_differences":true}`, "use 1.2.3 rehearsal", "1.2.3"},
		{"/use", `{"version":"1.2.3","now":true}`, "use 1.2.3 age", "1.2.3"},
		{"/rehearse", `{"version":"1.3.0"}`, "rehearse 1.3.0", "1.2.3"},
		{"/rehearse", `{"version":"1.3.0","now":true}`, "rehearse 1.3.0 age", "1.2.3"},
		{"/rollback", "", "rollback", "1.0.0"},
	} {
		w := f.send(http.MethodPost, tt.path, tt.body)
		got := decode[adminapi.Overview](t, w)
		if w.Code != http.StatusOK || got.Active.Version != tt.version || got.Active.State != manager.StateBaking {
			t.Errorf("%s: got %d %s, want that %s bakes", tt.path, w.Code, w.Body, tt.version)
		}
		if last := f.manager.asked[len(f.manager.asked)-1]; last != tt.asked {
			t.Errorf("%s: got the request %q, want %q", tt.path, last, tt.asked)
		}
	}
}

func TestSwap_RefusalNamesStepAndReason(t *testing.T) {
	busy := manager.SwapStatus{From: "1.0.0", To: "1.1.0", Step: "migrate"}
	for name, tt := range map[string]struct {
		err  error
		code int
		want adminapi.ErrorResponse
	}{
		"at a step": {
			&manager.SwapError{Step: "find", Version: "9.9.9", Err: catalogue.ErrNotFound}, http.StatusConflict,
			adminapi.ErrorResponse{Error: "swapping to plugin 9.9.9: find: not installed", Step: "find", Version: "9.9.9", Reason: "not installed"},
		},
		"while another is under way": {
			&manager.BusyError{Swap: busy}, http.StatusConflict,
			adminapi.ErrorResponse{Error: (&manager.BusyError{Swap: busy}).Error(), Reason: (&manager.BusyError{Swap: busy}).Error(), Swap: &busy},
		},
		"as the host stops": {
			errors.Join(manager.ErrStopped, &manager.SwapError{Step: "start", Err: errors.New("x")}), http.StatusServiceUnavailable,
			adminapi.ErrorResponse{Error: "the plugin is being stopped"},
		},
		"by an internal error": {
			errors.New("a secret path"), http.StatusInternalServerError,
			adminapi.ErrorResponse{Error: "the swap failed, see the log"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.manager.err = tt.err
			for path, body := range map[string]string{"/use": `{"version":"9.9.9"}`, "/rehearse": `{"version":"9.9.9"}`, "/rollback": ""} {
				w := f.send(http.MethodPost, path, body)
				want, _ := json.Marshal(tt.want)
				if w.Code != tt.code || strings.TrimSpace(w.Body.String()) != string(want) {
					t.Errorf("%s: got %d %swant %d %s", path, w.Code, w.Body, tt.code, want)
				}
			}
		})
	}
}

func TestSwap_EndedWaitIsAccepted(t *testing.T) {
	f := newFixture()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.manager.err = ctx.Err()
	r := httptest.NewRequest(http.MethodPost, "/rollback", nil).WithContext(ctx)
	w := httptest.NewRecorder()
	adminapi.New(f.manager, f.catalogue, f.options).ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Errorf("got %d %s, want 202", w.Code, w.Body)
	}
}

func TestAPI_InvalidRequestChangesNothing(t *testing.T) {
	good := `{"version":"1.2.3"}`
	for name, tt := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
		allow              string
	}{
		"an unknown path":          {"GET", "/nothing", "", nil, 404, ""},
		"below a known one":        {"POST", "/use/it", good, nil, 404, ""},
		"a change of the status":   {"POST", "/", good, nil, 405, "GET, HEAD"},
		"a swap by GET":            {"GET", "/use", "", nil, 405, "POST"},
		"a rehearsal by GET":       {"GET", "/rehearse", "", nil, 405, "POST"},
		"a rehearsal of nothing":   {"POST", "/rehearse", `{}`, nil, 400, ""},
		"a rollback by GET":        {"GET", "/rollback", "", nil, 405, "POST"},
		"an upload by PUT":         {"PUT", "/install", "", nil, 405, "POST"},
		"events deleted":           {"DELETE", "/events", "", nil, 405, "GET, HEAD"},
		"a form":                   {"POST", "/use", "version=1.2.3", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, ""},
		"no body":                  {"POST", "/use", "", nil, 400, ""},
		"no JSON":                  {"POST", "/use", "1.2.3", nil, 400, ""},
		"no version":               {"POST", "/use", `{}`, nil, 400, ""},
		"a number":                 {"POST", "/use", `{"version":1}`, nil, 400, ""},
		"an unknown key":           {"POST", "/use", `{"version":"1.2.3","force":true}`, nil, 400, ""},
		"two objects":              {"POST", "/use", good + good, nil, 400, ""},
		"garbage after it":         {"POST", "/use", good + "x", nil, 400, ""},
		"a large body":             {"POST", "/use", `{"version":"` + strings.Repeat("1", 5000) + `"}`, nil, 413, ""},
		"a large end":              {"POST", "/use", good + strings.Repeat(" ", 5000), nil, 413, ""},
		"another site's page":      {"POST", "/use", good, []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		"another origin's page":    {"POST", "/rollback", "", []string{"Origin", "https://evil.example"}, 403, ""},
		"a limit that is a word":   {"GET", "/events?limit=many", "", nil, 400, ""},
		"a limit that is too high": {"GET", "/events?limit=1001", "", nil, 400, ""},
		"a limit below one":        {"GET", "/events?limit=0", "", nil, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			w := f.send(tt.method, tt.path, tt.body, tt.headers...)
			if w.Code != tt.want || w.Header().Get("Allow") != tt.allow {
				t.Errorf("got %d, Allow %q, want %d, %q; %s", w.Code, w.Header().Get("Allow"), tt.want, tt.allow, w.Body)
			}
			if decode[adminapi.ErrorResponse](t, w).Error == "" || len(f.manager.asked) > 0 {
				t.Errorf("got %s and the requests %q, want an error and none", w.Body, f.manager.asked)
			}
			for header, want := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "application/json; charset=utf-8",
			} {
				if got := w.Header().Get(header); got != want {
					t.Errorf("%s: got %q, want %q", header, got, want)
				}
			}
		})
	}
}

func TestReport_UnreadableCatalogueIsInternalError(t *testing.T) {
	f := newFixture()
	f.catalogue.err = errors.New("/secret/path: input/output error")
	if w := f.send(http.MethodGet, "/", ""); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got %d %s, want 500 without the cause", w.Code, w.Body)
	}
}

type fakeEventLog struct{ asked int }

func (h *fakeEventLog) Recent(n int) ([]manager.Event, error) {
	h.asked = n
	return []manager.Event{{Type: manager.EventSwapRefused, Version: "1.2.3", Step: "start", Reason: "it ended"}}, nil
}

func TestEvents_AreLimited(t *testing.T) {
	f := newFixture()
	if w := f.send(http.MethodGet, "/events", ""); w.Code != http.StatusOK || w.Body.String() != `{"events":[]}`+"\n" {
		t.Errorf("without an event log: got %d %s, want no events", w.Code, w.Body)
	}
	eventLog := &fakeEventLog{}
	f.options.EventLog = eventLog
	for path, limit := range map[string]int{"/events": 100, "/events?limit=7": 7} {
		got := decode[adminapi.Events](t, f.send(http.MethodGet, path, ""))
		if eventLog.asked != limit || len(got.Events) != 1 || got.Events[0].Step != "start" {
			t.Errorf("%s: got limit %d and %v, want limit %d and one event", path, eventLog.asked, got, limit)
		}
	}
}

func TestReport_NamesSigner(t *testing.T) {
	f := newFixture()
	f.catalogue.signers = map[string]string{"1.1.0": "4583D1662199C9D8"}
	got := decode[adminapi.Overview](t, f.send(http.MethodGet, "", ""))
	if got.Versions[0].Signer != "4583D1662199C9D8" || got.Versions[1].Signer != "" {
		t.Errorf("signed: got %+v, want a signer of the first version only", got.Versions)
	}
	f.catalogue.unfit = &catalogue.RefusedError{Version: "1.1.0", Kind: catalogue.ErrUnsigned}
	got = decode[adminapi.Overview](t, f.send(http.MethodGet, "", ""))
	if got.Versions[0].Unfit != "not signed" {
		t.Errorf("not signed: got %+v, want that the first version is unfit", got.Versions)
	}
	f.catalogue.unfit = errors.New("/secret: input/output error")
	if w := f.send(http.MethodGet, "", ""); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("unreadable disk: got %d %s, want 500 without the cause", w.Code, w.Body)
	}
}
