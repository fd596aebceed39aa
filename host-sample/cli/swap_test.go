package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// swapper is a manager whose swap takes one step each time that its status is
// requested. It refuses the step refuseAt.
type swapper struct {
	mu       sync.Mutex
	status   manager.Status
	seen     chan struct{} // receives once for each status request
	refuseAt string
	ignored  []manager.Ignore // by the last one

	rehearses bool // a swap has a rehearsal
}

var swapSteps = []string{"find", "stage", "start", "switch", "workers"}

func (s *swapper) Status() manager.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	if status.Swap != nil {
		swap := *status.Swap
		swap.Steps = append([]manager.SwapStep(nil), swap.Steps...)
		status.Swap = &swap
	}
	select {
	case s.seen <- struct{}{}:
	default:
	}
	return status
}

func (s *swapper) Use(ctx context.Context, version string, ignore ...manager.Ignore) error {
	s.ignored = ignore
	began := time.Now()
	s.change(func(st *manager.Status) {
		st.Swap = &manager.SwapStatus{From: st.Version, To: version, Started: began}
	})
	steps := append(slices.Clone(swapSteps), "bake")
	if s.rehearses {
		steps = slices.Insert(steps, 3, "rehearse")
		s.change(func(st *manager.Status) { st.Rehearsal = rehearsalOf(version, rpc.RehearsalFailed) })
	}
	for _, name := range steps {
		if name == s.refuseAt {
			s.change(func(st *manager.Status) { st.Swap = nil })
			return &manager.SwapError{Step: name, Version: version, Err: catalogue.ErrTampered}
		}
		s.change(func(st *manager.Status) {
			if n := len(st.Swap.Steps); n > 0 {
				st.Swap.Steps[n-1].Took = 12 * time.Millisecond
			}
			st.Swap.Step = name
			st.Swap.Steps = append(st.Swap.Steps, manager.SwapStep{Name: name, Began: began})
		})
		select {
		case <-s.seen:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.change(func(st *manager.Status) {
		st.Previous = &manager.VersionStatus{Version: st.Version, Generation: 1, PID: 41, State: manager.StateDraining}
		st.Version, st.Generation, st.PID, st.State = version, 2, 42, manager.StateBaking
	})
	return nil
}

func (s *swapper) Rollback(ctx context.Context) error { return s.Use(ctx, "1.0.0") }

// Rehearse fails at the step refuseAt, if that is rehearse.
func (s *swapper) Rehearse(_ context.Context, version string, ignore ...manager.Ignore) error {
	s.ignored = ignore
	outcome := rpc.RehearsalPassed
	if s.refuseAt == "rehearse" {
		outcome = rpc.RehearsalFailed
	}
	s.change(func(st *manager.Status) { st.Rehearsal = rehearsalOf(version, outcome) })
	if s.refuseAt == "rehearse" {
		return &manager.SwapError{Step: "rehearse", Version: version, Err: errors.New("sign_in failed"), RehearsalOnly: true}
	}
	return nil
}

func rehearsalOf(version string, outcome rpc.RehearsalOutcome) *manager.RehearsalStatus {
	return &manager.RehearsalStatus{Version: version, Time: time.Now(), Outcome: outcome, Checks: []rpc.RehearsalCheck{
		{Name: "register", Outcome: rpc.RehearsalPassed, Count: 12},
		{Name: "sign_in", Outcome: outcome, Count: 3, Differences: []rpc.Difference{{Operation: "Authorize", Field: "error_code"}, {Operation: "Refresh"}}, Reason: "why"},
	}}
}

func (s *swapper) change(f func(*manager.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// announceFake returns a data folder on which a host seems to run: an admin API over
// the manager.
func announceFake(t *testing.T, manager adminapi.Manager) string {
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
	catalogue, err := openCatalogue(folder.path("plugins"), quietLog())
	if err != nil {
		t.Fatal(err)
	}
	admin := &adminAPI{
		token: sha256.Sum256([]byte(token)), plugin: adminapi.New(manager, catalogue, adminapi.Options{Log: quietLog()}),
		link: noLink, record: personaladmin.NewAccessLog(quietLog()), log: quietLog(),
	}
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
		status: manager.Status{Active: manager.Active{State: manager.StateServing, Version: "1.0.0", Generation: 1, PID: 41}},
	}
}

func TestUse_ShowsEachStepOnce(t *testing.T) {
	s := newSwapper()
	dir := announceFake(t, s)
	code, stdout, stderr := runToEnd(t, "plugin", "use", "1.1.0", "--data", dir)
	want := ""
	for _, step := range swapSteps {
		want += step + strings.Repeat(" ", 11-len(step)) + "12ms\n"
	}
	want += "plugin 1.1.0 serves, process 42; it is baking: 1.0.0 is kept warm for a rollback\n"
	if code != 0 || stdout != want {
		t.Errorf("got exit code %d, %q, standard output\n%swant\n%s", code, stderr, stdout, want)
	}
	code, stdout, stderr = runToEnd(t, "plugin", "rollback", "--data", dir) // the status still shows the first swap
	if code != 0 || strings.Count(stdout, "12ms\n") != len(swapSteps) || !strings.Contains(stdout, "plugin 1.0.0 serves") {
		t.Errorf("rollback: got exit code %d, %q, standard output\n%s, want each step once", code, stderr, stdout)
	}
}

func TestUse_RefusalNamesStepAndReason(t *testing.T) {
	for _, step := range swapSteps {
		s := newSwapper()
		s.refuseAt = step
		code, stdout, stderr := runToEnd(t, "plugin", "use", "1.1.0", "--data", announceFake(t, s))
		if code != 1 || !strings.HasSuffix(stdout, step+strings.Repeat(" ", 11-len(step))+"refused\n") {
			t.Errorf("%s: got exit code %d, standard output\n%s, want 1 and the step refused", step, code, stdout)
		}
		if want := "host-sample: refused at the step " + step + ": contents differ from the manifest\n"; stderr != want {
			t.Errorf("got standard error %q, want %q", stderr, want)
		}
	}
}

const rehearsalTable = `
  check     outcome  comparisons  where, and why
  register  passed   12           -
  sign_in   failed   3            Authorize.error_code, Refresh (why)
`

func TestRehearse_PrintsTable(t *testing.T) {
	s := newSwapper()
	dir := announceFake(t, s)
	code, stdout, stderr := runToEnd(t, "plugin", "rehearse", "1.1.0", "--now", "--data", dir)
	if code != 0 || !strings.Contains(stdout, "rehearsal of 1.1.0: passed\n") || !strings.Contains(stdout, "a swap to plugin 1.1.0 would go on") ||
		strings.Contains(stdout, "serves") {
		t.Errorf("got exit code %d, %q, standard output\n%swant the table", code, stderr, stdout)
	}
	if want := []manager.Ignore{manager.IgnoreMinAge}; !slices.Equal(s.ignored, want) {
		t.Errorf("got that it ignores %v, want %v", s.ignored, want)
	}
	s.refuseAt = "rehearse"
	code, stdout, stderr = runToEnd(t, "plugin", "rehearse", "1.1.0", "--data", dir)
	if code != 1 || !strings.Contains(stdout, "rehearsal of 1.1.0: failed"+rehearsalTable) ||
		stderr != "host-sample: refused at the step rehearse: sign_in failed\n" {
		t.Errorf("got exit code %d, %q, standard output\n%swant 1, the table\n%s", code, stderr, stdout, rehearsalTable)
	}
	if _, stdout, _ := runToEnd(t, "plugin", "status", "--data", dir); !strings.Contains(stdout, "rehearsal of 1.1.0: failed"+rehearsalTable) {
		t.Errorf("got status\n%swant the table", stdout)
	}
	s.refuseAt = ""
	_, stdout, _ = runToEnd(t, "plugin", "use", "1.1.0", "--accept-differences", "--now", "--data", dir)
	if strings.Contains(stdout, "rehearsal of") {
		t.Errorf("got\n%swant no table of an earlier rehearsal", stdout)
	}
	if want := []manager.Ignore{manager.AcceptDifferences, manager.IgnoreMinAge}; !slices.Equal(s.ignored, want) {
		t.Errorf("got that the swap ignores %v, want %v", s.ignored, want)
	}
}

func TestUse_PrintsItsRehearsal(t *testing.T) {
	s := newSwapper()
	s.rehearses = true
	dir := announceFake(t, s)
	if code, stdout, _ := runToEnd(t, "plugin", "use", "1.1.0", "--data", dir); code != 0 ||
		!strings.Contains(stdout, "rehearsal of 1.1.0: failed"+rehearsalTable) {
		t.Errorf("got exit code %d, standard output\n%swant the table", code, stdout)
	}
	s.refuseAt = "rehearse"
	code, stdout, _ := runToEnd(t, "plugin", "use", "1.1.0", "--data", dir)
	want := "refused\n\nrehearsal of 1.1.0: failed" + rehearsalTable + "\nto swap all the same: plugin use 1.1.0 --accept-differences\n"
	if code != 1 || !strings.HasSuffix(stdout, want) {
		t.Errorf("got exit code %d, standard output\n%swant the table", code, stdout)
	}
}

func TestStatus_TextAndJSON(t *testing.T) {
	s := newSwapper()
	s.status.Swap = &manager.SwapStatus{From: "0.9.0", To: "1.0.0", Step: "bake", Steps: []manager.SwapStep{
		{Name: "find", Took: time.Second, Detail: "found"}, {Name: "bake"},
	}}
	s.status.LastError = "it ended"
	s.status.UnknownSettings = []manager.UnknownSetting{
		{UnknownSetting: rpc.UnknownSetting{Key: "session.idel", Meant: "session.idle"}},
		{UnknownSetting: rpc.UnknownSetting{Key: "two_moons"}, KnownBy: "1.3.0"},
	}
	dir := announceFake(t, s)
	_, stdout, _ := runToEnd(t, "plugin", "status", "--data", dir)
	want := `active  1.0.0  serving, generation 1, process 41
swap    1.0.0  from 0.9.0, step bake

steps of the swap:
  find       1s  found
  bake       under way

error: settings: unknown key: session.idel (did you mean session.idle?)

warning: settings: two_moons is ignored: version 1.3.0 knows it, this one does not

last error: it ended
`
	if stdout != want {
		t.Errorf("got status:\n%swant\n%s", stdout, want)
	}
	_, stdout, _ = runToEnd(t, "plugin", "status", "--json", "--data", dir)
	var report adminapi.Overview
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.Active.PID != 41 {
		t.Errorf("--json: got %v, %s, want the report", err, stdout)
	}
}

func TestSwap_FailsNoRequest(t *testing.T) {
	h := start(t, "--bake", "1h", "--rehearse", "off")
	h.send(http.MethodGet, "/api/v1/personal/fields/", "") // the plugin serves
	if code, stdout, stderr := runToEnd(t, "plugin", "install", fake(t, "1.1.0"), "--data", h.data); code != 0 || stdout != "1.1.0\n" {
		t.Fatalf("install: got exit code %d, %q, %q, want 1.1.0", code, stdout, stderr)
	}
	failed, sent := h.sendDuring(t, func() {
		for _, tt := range []struct{ args, want string }{
			{"use 9.9.9", "find       refused\n"},
			{"use 1.1.0", "plugin 1.1.0 serves"},
			{"rollback", "plugin 1.0.0 serves"},
			{"use 1.1.0", "it is baking: 1.0.0 is kept warm"},
			{"status", `active     1.1.0  baking`},
		} {
			_, stdout, stderr := runToEnd(t, append([]string{"plugin", "--data", h.data}, strings.Fields(tt.args)...)...)
			if !strings.Contains(stdout, tt.want) {
				t.Errorf("%s: got %q, %q, want %q; the log:\n%s", tt.args, stdout, stderr, tt.want, h.log)
			}
		}
	})
	if failed > 0 || sent == 0 {
		t.Errorf("got %d of %d requests failed, want none; the log:\n%s", failed, sent, h.log)
	}
	if code, body := h.send(http.MethodGet, "/readyz", ""); code != http.StatusOK ||
		!strings.Contains(body, `"state":"baking","version":"1.1.0"`) {
		t.Errorf("readyz: got %d %s, want 200 and baking", code, body)
	}
	if _, body := h.send(http.MethodGet, "/metrics", ""); !strings.Contains(body, "personal_plugin_up 1\n") {
		t.Error("personal_plugin_up: want 1 while a version bakes")
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0; the log:\n%s", code, h.log)
	}
	events, err := os.ReadFile(filepath.Join(h.data, "plugin-events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"refused", "switched", "rolled_back"} {
		if !strings.Contains(string(events), `"kind":"`+kind+`"`) {
			t.Errorf("got no plugin event %s:\n%s", kind, events)
		}
	}
}

// sendDuring sends requests while work runs, and counts those that fail.
func (r *running) sendDuring(t *testing.T, work func()) (failed, sent int) {
	t.Helper()
	done := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			sent++
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
	sending.Wait()
	return failed, sent
}

func TestProgress_VanishedSwapCompletesLine(t *testing.T) {
	var out strings.Builder
	began := time.Now()
	p := &progress{w: &out}
	p.show(&manager.SwapStatus{Started: began, Steps: []manager.SwapStep{{Name: "find", Began: began}}})
	p.show(nil)
	p.end("done")
	p.end("done")
	if want := "find       done\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestProgress_RefusalWithoutStep(t *testing.T) {
	var out strings.Builder
	p := &progress{w: &out, open: "find"}
	p.refuse("")
	busy := &hostError{adminapi.ErrorResponse{Error: "a swap from plugin 1.0.0 to 1.1.0 is under way"}}
	if out.String() != "…\n" || busy.Error() != "a swap from plugin 1.0.0 to 1.1.0 is under way" {
		t.Errorf("got %q, %v, want the host's message alone", out.String(), busy)
	}
}
