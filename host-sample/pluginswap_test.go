package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// swapper is a manager whose swap takes its steps one by one, each when a
// status has shown the one before, or is refused at the step named.
type swapper struct {
	mu       sync.Mutex
	status   pluginmanager.Status
	seen     chan struct{} // gets one for each status asked for
	refuseAt string
}

var swapSteps = []string{"find", "stage", "start", "switch", "workers"}

func (s *swapper) Status() pluginmanager.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	if status.Swap != nil {
		swap := *status.Swap
		swap.Steps = append([]pluginmanager.SwapStep(nil), swap.Steps...)
		status.Swap = &swap
	}
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return status
}

func (s *swapper) Use(ctx context.Context, version string) error {
	began := time.Now()
	s.change(func(st *pluginmanager.Status) {
		st.Swap = &pluginmanager.SwapStatus{From: st.Version, To: version, Started: began}
	})
	for _, name := range append(swapSteps, "bake") {
		if name == s.refuseAt {
			s.change(func(st *pluginmanager.Status) { st.Swap = nil })
			return &pluginmanager.SwapError{Step: name, Version: version, Err: plugincatalogue.ErrTampered}
		}
		s.change(func(st *pluginmanager.Status) {
			if n := len(st.Swap.Steps); n > 0 {
				st.Swap.Steps[n-1].Took = 12 * time.Millisecond
			}
			st.Swap.Step = name
			st.Swap.Steps = append(st.Swap.Steps, pluginmanager.SwapStep{Name: name, Began: began})
		})
		select {
		case <-s.seen:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.change(func(st *pluginmanager.Status) {
		st.Previous = &pluginmanager.VersionStatus{Version: st.Version, Generation: 1, PID: 41, State: pluginmanager.StateDraining}
		st.Version, st.Generation, st.PID, st.State = version, 2, 42, pluginmanager.StateBaking
	})
	return nil
}

func (s *swapper) Rollback(ctx context.Context) error { return s.Use(ctx, "1.0.0") }

func (s *swapper) change(f func(*pluginmanager.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// announceFake makes a data folder on which a host seems to run, which is the
// manager behind the guard.
func announceFake(t *testing.T, manager pluginadmin.Manager) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	folder, err := openDataFolder(dir, quietLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := folder.close(); err != nil {
			t.Error(err)
		}
	})
	token, err := folder.adminToken()
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := openCatalogue(folder.path("plugins"))
	if err != nil {
		t.Fatal(err)
	}
	admin := newAdminAPI(token, nil, pluginadmin.New(manager, catalogue, pluginadmin.Options{Log: quietLog()}), noLink, admin.NewAccessLog(quietLog()), quietLog())
	server := httptest.NewServer(admin.routes())
	t.Cleanup(server.Close)
	if err := folder.announce(server.URL); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newSwapper() *swapper {
	return &swapper{
		seen:   make(chan struct{}),
		status: pluginmanager.Status{State: pluginmanager.StateServing, Version: "1.0.0", Generation: 1, PID: 41},
	}
}

func TestUseShowsEachStepOnceAndEndsWhenSwitched(t *testing.T) {
	s := newSwapper()
	dir := announceFake(t, s)
	code, stdout, stderr := runCommandToTheEnd(t, "plugin", "use", "1.1.0", "--data", dir)
	want := ""
	for _, step := range swapSteps {
		want += step + strings.Repeat(" ", 11-len(step)) + "12ms\n"
	}
	want += "plugin 1.1.0 serves, process 42; it is baking: 1.0.0 is kept warm, to go back to\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, %q, standard output\n%swant\n%s", code, stderr, stdout, want)
	}
	code, stdout, stderr = runCommandToTheEnd(t, "plugin", "rollback", "--data", dir) // the swap before is there still
	if code != 0 || strings.Count(stdout, "12ms\n") != len(swapSteps) || !strings.Contains(stdout, "plugin 1.0.0 serves") {
		t.Errorf("rollback: exit code %d, %q, standard output\n%s", code, stderr, stdout)
	}
}

func TestARefusedUseSaysAtWhichStepAndWhy(t *testing.T) {
	for _, step := range swapSteps {
		s := newSwapper()
		s.refuseAt = step
		code, stdout, stderr := runCommandToTheEnd(t, "plugin", "use", "1.1.0", "--data", announceFake(t, s))
		if code != 1 || !strings.HasSuffix(stdout, step+strings.Repeat(" ", 11-len(step))+"refused\n") {
			t.Errorf("%s: exit code %d, standard output\n%s", step, code, stdout)
		}
		if want := "host-sample: refused at the step " + step + ": contents differ from the manifest\n"; stderr != want {
			t.Errorf("standard error %q, want %q", stderr, want)
		}
	}
}

func TestStatusIsReadableOrRaw(t *testing.T) {
	s := newSwapper()
	s.status.Swap = &pluginmanager.SwapStatus{From: "0.9.0", To: "1.0.0", Step: "bake", Steps: []pluginmanager.SwapStep{
		{Name: "find", Took: time.Second, Detail: "found"}, {Name: "bake"},
	}}
	s.status.LastError = "it ended"
	dir := announceFake(t, s)
	_, stdout, _ := runCommandToTheEnd(t, "plugin", "status", "--data", dir)
	want := `active  1.0.0  serving, generation 1, process 41
swap    1.0.0  from 0.9.0, step bake

steps of the swap:
  find       1s  found
  bake       under way

last error: it ended
`
	if stdout != want {
		t.Errorf("status:\n%swant\n%s", stdout, want)
	}
	_, stdout, _ = runCommandToTheEnd(t, "plugin", "status", "--json", "--data", dir)
	var report pluginadmin.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Active.PID != 41 {
		t.Errorf("--json: %v, %s", err, stdout)
	}
}

func TestWithoutAHostTheCommandsSaySo(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token was shown to a stranger: %v", r.Header)
	}))
	defer stranger.Close()
	killed := announceFake(t, newSwapper()) // its announcement is copied to where nobody holds the lock
	left := t.TempDir()
	for _, name := range []string{"host.lock", "admin-token"} {
		data, err := os.ReadFile(filepath.Join(killed, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := json.Marshal(address{URL: stranger.URL, PID: os.Getpid()})
	if err := os.WriteFile(filepath.Join(left, "host.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a killed host": left, "an empty folder": t.TempDir(), "no folder": filepath.Join(t.TempDir(), "none")} {
		for _, args := range [][]string{{"use", "1.0.0"}, {"rollback"}, {"status"}} {
			code, stdout, stderr := runCommandToTheEnd(t, append(append([]string{"plugin"}, args...), "--data", dir)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "no host runs on the data folder "+dir) {
				t.Errorf("%s, %v: exit code %d, %q, %q", name, args, code, stdout, stderr)
			}
		}
	}
	data, _ = json.Marshal(address{URL: stranger.URL, PID: os.Getpid() + 1}) // of the host before, killed
	if err := os.WriteFile(filepath.Join(killed, "host.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCommandToTheEnd(t, "plugin", "status", "--data", killed); code != 1 || !strings.Contains(stderr, "does not listen yet") {
		t.Errorf("a host that starts: exit code %d, %q", code, stderr)
	}
}

func TestASwapFailsNoRequest(t *testing.T) {
	h := start(t, "--bake", "1h")
	h.send(http.MethodGet, "/api/v1/personal/fields/", "") // the plugin serves
	if code, stdout, stderr := runCommandToTheEnd(t, "plugin", "install", copyAs(t, "1.1.0"), "--data", h.data); code != 0 || stdout != "1.1.0\n" {
		t.Fatalf("install: exit code %d, %q, %q", code, stdout, stderr)
	}
	failed, asked := h.keepAsking(t, func() {
		for _, tt := range []struct{ args, want string }{
			{"use 9.9.9", "find       refused\n"},
			{"use 1.1.0", "plugin 1.1.0 serves"},
			{"rollback", "plugin 1.0.0 serves"},
			{"use 1.1.0", "it is baking: 1.0.0 is kept warm"},
			{"status", `active     1.1.0  baking`},
		} {
			_, stdout, stderr := runCommandToTheEnd(t, append([]string{"plugin", "--data", h.data}, strings.Fields(tt.args)...)...)
			if !strings.Contains(stdout, tt.want) {
				t.Errorf("%s: %q, %q; the log:\n%s", tt.args, stdout, stderr, h.log)
			}
		}
	})
	if failed > 0 || asked == 0 {
		t.Errorf("%d of %d requests failed; the log:\n%s", failed, asked, h.log)
	}
	if code, body := h.send(http.MethodGet, "/readyz", ""); code != http.StatusOK || !strings.Contains(body, `"state":"baking","version":"1.1.0"`) {
		t.Errorf("readyz: %d %s", code, body)
	}
	if _, body := h.send(http.MethodGet, "/metrics", ""); !strings.Contains(body, "personal_plugin_up 1\n") {
		t.Error("a version on trial does not count as up")
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("exit code %d; the log:\n%s", code, h.log)
	}
	events, err := os.ReadFile(filepath.Join(h.data, "plugin-events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"refused", "switched", "rolled_back"} {
		if !strings.Contains(string(events), `"kind":"`+kind+`"`) {
			t.Errorf("the journal lacks %s:\n%s", kind, events)
		}
	}
}

// keepAsking sends requests for as long as work takes, and counts those that
// fail.
func (r *running) keepAsking(t *testing.T, work func()) (failed, asked int) {
	t.Helper()
	done := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			asked++
			response, err := http.Get(r.url + "/api/v1/personal/fields/")
			if err != nil {
				failed++
				continue
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				failed++
			}
		}
	})
	work()
	close(done)
	asking.Wait()
	return failed, asked
}

func TestARollbackThatLeavesNoSwapEndsItsLine(t *testing.T) {
	var out strings.Builder
	began := time.Now()
	p := &progress{w: &out}
	p.show(&pluginmanager.SwapStatus{Started: began, Steps: []pluginmanager.SwapStep{{Name: "find", Began: began}}})
	p.show(nil)
	p.end("done")
	p.end("done")
	if want := "find       done\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestABusyHostIsNamedWithoutAStep(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, open: "find"}
	p.refused("")
	busy := &faultError{pluginadmin.ErrorResponse{Error: "a swap from plugin 1.0.0 to 1.1.0 is under way"}}
	if out.String() != "…\n" || busy.Error() != "a swap from plugin 1.0.0 to 1.1.0 is under way" {
		t.Errorf("%q, %v", out.String(), busy)
	}
}

func TestASignedBundleIsUploaded(t *testing.T) {
	secret, public := signingKey(t)
	stranger, _ := signingKey(t)
	trusted, err := trust([]string{public})
	if err != nil {
		t.Fatal(err)
	}
	catalogue, err := openCatalogue(t.TempDir(), trusted)
	if err != nil {
		t.Fatal(err)
	}
	api := pluginadmin.New(newSwapper(), catalogue, pluginadmin.Options{Uploads: uploads(catalogue, quietLog()), Log: quietLog()})
	upload := func(bundle string) *httptest.ResponseRecorder {
		f, err := os.Open(bundle)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := httptest.NewRequest(http.MethodPost, "/install", f)
		r.Header.Set("Content-Type", "application/gzip")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	if w := upload(signedBundle(t, "1.2.3", stranger)); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "not signed by a key configured") {
		t.Errorf("a stranger's: %d %s", w.Code, w.Body)
	}
	for range 2 { // the same again changes nothing
		if w := upload(signedBundle(t, "1.2.3", secret)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"version":"1.2.3"`) {
			t.Errorf("ours: %d %s", w.Code, w.Body)
		}
	}
	if entries, err := catalogue.List(); err != nil || len(entries) != 1 {
		t.Errorf("installed are %v, %v", entries, err)
	}
}
