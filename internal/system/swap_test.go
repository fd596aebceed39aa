package system

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// Swaps of TestSwap_LosesNoRequest on each database, and clients that send requests
// during them. TestSoakSwaps has a thousand, and clients that do not pause.
const (
	swaps   = 2 // there and back
	clients = 16
	pause   = 60 * time.Millisecond // of each client: a request begins about every 4 ms
)

// TestSwap_LosesNoRequest swaps between two versions while clients sign in and refresh:
// no request may fail, and there are many during each swap.
func TestSwap_LosesNoRequest(t *testing.T) {
	other, older := testkit.OtherPlugin(t)
	testdb.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		s.install(t, other, older)
		versions := []string{older, s.installAnother(t)}
		var clientsDone sync.WaitGroup
		stop := make(chan struct{})
		failures := make(chan error, clients)
		var answered atomic.Int64
		for range clients {
			u := s.newUser(t)
			clientsDone.Go(func() {
				if err := s.live(u, stop, pause, func(time.Duration) { answered.Add(1) }); err != nil {
					failures <- err
				}
			})
		}
		for i := range swaps {
			before := answered.Load()
			s.use(t, versions[i%2])
			if n := answered.Load() - before; n < clients {
				t.Errorf("got %d responses during a swap, want %d at least", n, clients)
			}
		}
		close(stop)
		clientsDone.Wait()
		close(failures)
		for err := range failures {
			t.Error(err)
		}
		if active := s.plugin(t).Active; active.Version != versions[(swaps-1)%2] || active.Generation != swaps+1 {
			t.Errorf("got version %s of generation %d, want %s of generation %d", active.Version, active.Generation, versions[(swaps-1)%2], swaps+1)
		}
	})
}

// TestSwap_SignInFloodDoesNotRollBack lets a flood of sign-ins queue for the database
// connections that the new process's health checks need too. The old process has its
// own connections, which are idle, and stays healthy. The database is slow, so that the
// queue takes longer than a health check may while the processors are idle.
func TestSwap_SignInFloodDoesNotRollBack(t *testing.T) {
	t.Parallel()
	proxy, database := testkit.NewFaultProxy(t, testkit.Postgres(t))
	proxy.Delay = 200 * time.Millisecond
	var log journal
	c := moduleConfig(t)
	c.DatabaseURL = database
	c.Settings = func() ([]byte, error) { return []byte(cheap + unthrottled), nil }
	c.Manager.Bake = 8 * time.Second
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	m := openModule(t, c)
	newer := linkAnother(t, c.Data)
	if _, err := m.Service().Register(t.Context(), personal.RegisterRequest{
		Login: "anna", Password: "correct horse", ConfirmPassword: "correct horse", Email: "anna@example.com",
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.Manager().Use(t.Context(), newer); err != nil {
		t.Fatal(err)
	}

	proxy.Next(slices.Repeat([]testkit.Fault{testkit.DelayRequest}, 100_000)...)
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	served := make(chan struct{}, 1)
	callers := func(n int) {
		for range n {
			flood.Go(func() {
				for ctx.Err() == nil {
					_, err := m.Service().Authorize(ctx, personal.AuthorizeRequest{Login: "anna", Password: "correct horse"})
					if err != nil && ctx.Err() == nil && personal.CodeOf(err) != personal.CodeUnavailable {
						t.Errorf("sign-in: %v", err)
					}
					select {
					case served <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	callers(30) // a process that has served no call is not overloaded, so the others come after the first
	<-served
	callers(70)
	eventually(t, "the bake ends", func() bool { return m.Manager().Status().State != manager.StateBaking })
	if status := m.Manager().Status(); status.Version != newer || status.Generation != 2 {
		t.Errorf("got version %s of generation %d, want %s of generation 2", status.Version, status.Generation, newer)
	}
	stop()
	flood.Wait()
	failed, excused := len(log.linesWith("plugin is not healthy")), len(log.linesWith("the failed health check does not count"))
	t.Logf("%d health checks failed, %d were excused", failed, excused)
	if excused == 0 {
		t.Error("got no health check that failed and was excused, want that the flood delays some")
	}
}

// On SQLite, and with the default settings, the commands of docs/plugin-versions.md rehearse a swap:
// [TestDocs_CommandsRun].
func TestSwap_RehearsesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	c := moduleConfig(t)
	settings := strings.Replace(strictSettings(t), `requires = "0.2.0"`, `requires = "0.0.0-dev"`, 1)
	c.DatabaseURL, c.URL = testdb.Postgres(t), "https://www.site.example"
	c.Settings = func() ([]byte, error) { return []byte(settings), nil }
	c.Manager = manager.Options{Rehearse: manager.RehearseRefuse}
	m := openModule(t, c)
	newer := linkAnother(t, c.Data)
	if _, err := m.Administration().CreateUser(t.Context(), personal.CreateUserRequest{Login: "anna", Email: "anna@example.com"}); err != nil {
		t.Fatal(err)
	}
	if err := m.Manager().Use(t.Context(), newer); err != nil {
		t.Fatalf("swapping to an honest build: %v; %+v", err, m.Manager().Status().Rehearsal)
	}
	status := m.Manager().Status()
	i := slices.IndexFunc(status.Rehearsal.Checks, func(c rpc.RehearsalCheck) bool { return c.Name == "same_answers" })
	if status.Version != newer || status.Rehearsal.Outcome != rpc.RehearsalPassed || len(status.Rehearsal.Checks) < 10 || i < 0 {
		t.Errorf("got version %s after the rehearsal %+v, want that %s passed it", status.Version, status.Rehearsal, newer)
	}
	if left, err := filepath.Glob(filepath.Join(c.Data, "run", "scratch*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want that nothing is left of the rehearsal", left, err)
	}
}

// install adds a version to the catalogue of the running host.
func (s *system) install(t *testing.T, binary, version string) {
	t.Helper()
	out, err := exec.Command(testkit.Binaries(t).Host, "plugin", "install", "--data", s.data, binary).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != version {
		t.Fatalf("install %s: %v\n%s", version, err, out)
	}
}

// installAnother adds another build of the plugin under test and returns its version.
func (s *system) installAnother(t *testing.T) (version string) {
	t.Helper()
	return linkAnother(t, s.data)
}

// use swaps to a version. It returns after the switch.
func (s *system) use(t *testing.T, version string) {
	t.Helper()
	got, body := s.admin(t, http.MethodPost, "plugin/use", fmt.Sprintf(`{"version":%q}`, version), "Content-Type", jsonType)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("swap to %s: got %d %s", version, got.StatusCode, body)
	}
}

// live is a client that refreshes, and signs in at every fifth request, until it is
// stopped. It waits for the pause after each request, whose duration it passes to took.
func (s *system) live(u user, stop <-chan struct{}, pause time.Duration, took func(time.Duration)) error {
	as := u.pair
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-time.After(pause):
		}
		c := call{path: "auth_refresh/", as: as}
		if i%5 == 4 {
			c = call{path: "auth/", params: params{"login": u.login, "password": u.password}}
		}
		began := time.Now()
		r, err := s.exchange(c)
		took(time.Since(began))
		if err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if r.Status != http.StatusOK {
			return fmt.Errorf("request %d, %s: got %d %s", i, c.path, r.Status, r.Result.Code)
		}
		var data struct {
			ID   int64  `json:"user_id"`
			Hash string `json:"user_hash"`
		}
		if err := json.Unmarshal(r.Raw, &struct{ Data any }{&data}); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		as.ID, as.Hash = data.ID, data.Hash
	}
}
