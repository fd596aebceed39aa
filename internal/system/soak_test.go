//go:build soak

package system

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// How many swaps and kills the soak makes; fewer can be asked for by the
// environment, to try the soak itself.
func asked(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// TestSoakSwaps makes a thousand swaps under load: no request may fail, and what
// the host holds must be the same at the end as at the beginning.
func TestSoakSwaps(t *testing.T) {
	count := asked("PERSONAL_SOAK_SWAPS", 1000)
	versions := []string{"1.0.0", "1.1.0"}
	testkit.Binaries(t)             // are not to lie in the folder that is this test's own
	t.Setenv("TMPDIR", t.TempDir()) // of the host and the plugins
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
	for _, version := range versions {
		s.install(t, testkit.PluginVersion(t, version), version)
	}
	crowd := s.crowd(t)
	time.Sleep(10 * time.Second) // what is measured is time
	quiet := crowd.latencies()
	samples := map[string][]float64{}
	var took []time.Duration
	for i := range count {
		began := time.Now()
		s.use(t, versions[i%2])
		took = append(took, time.Since(began))
		for name, value := range s.holdings(t) {
			samples[name] = append(samples[name], value)
		}
	}
	swapping := crowd.latencies()
	crowd.end(t)

	t.Logf("%d swaps, of %v, 99 of 100 within %v, the longest %v", count, median(took), p99(took), slices.Max(took))
	t.Logf("%d requests; p99 %v without swaps, %v with", len(quiet)+len(swapping), p99(quiet), p99(swapping))
	if median(took) > time.Second {
		t.Errorf("a swap takes %v", median(took))
	}
	if p99(swapping) > 3*p99(quiet) {
		t.Errorf("p99 rises from %v to %v", p99(quiet), p99(swapping))
	}
	for name, values := range samples {
		part := max(1, len(values)/10)
		first, last := median(values[:part]), median(values[len(values)-part:])
		t.Logf("%s: %v at first, %v at last", name, first, last)
		if last > first*1.05+1 {
			t.Errorf("%s grows from %v to %v", name, first, last)
		}
	}
}

// TestSoakKills kills the plugin over and over under load: every answer is a
// success or the contract's 503, and it serves again soon.
func TestSoakKills(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
	u := s.newUser(t)
	l := s.mixedLoad(t, u)
	var longest time.Duration
	for range asked("PERSONAL_SOAK_KILLS", 50) {
		pid, served := s.plugin(t).Active.PID, l.seen("")
		eventually(t, "calls are served", func() bool { return l.seen("") > served+20 })
		served = l.seen("")
		began := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another process serves", func() bool {
			now := s.plugin(t).Active.PID
			return now != 0 && now != pid && l.seen("") > served
		})
		longest = max(longest, time.Since(began))
	}
	l.end(t)
	t.Logf("served again after %v at most", longest)
	if longest > 2*time.Second {
		t.Errorf("served again only after %v", longest)
	}
}

// holdings are what the host holds: descriptors, goroutines, memory, and files in
// its run folder.
func (s *system) holdings(t testing.TB) map[string]float64 {
	t.Helper()
	response, text := s.web(t, http.MethodGet, "/metrics", "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("/metrics answers %d", response.StatusCode)
	}
	held := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "process_open_fds", "go_goroutines", "process_resident_memory_bytes": // sockets are among the first

			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			held[name] = n
		}
	}
	sockets, err := os.Readlink(filepath.Join(s.data, "run", "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"files in the run folder": filepath.Join(s.data, "run"), "sockets": sockets, "temporary files": os.TempDir()} {
		files := 0
		_ = filepath.WalkDir(folder, func(string, os.DirEntry, error) error { files++; return nil }) // what goes meanwhile is not there
		held[name] = float64(files)
	}
	return held
}

// crowd are clients that live until it ends.
type crowd struct {
	stop     chan struct{}
	clients  sync.WaitGroup
	mu       sync.Mutex
	took     []time.Duration
	failures []error
}

func (s *system) crowd(t testing.TB) *crowd {
	c := &crowd{stop: make(chan struct{})}
	for range clients {
		u := s.newUser(t)
		c.clients.Go(func() {
			err := s.live(u, c.stop, func(d time.Duration) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.took = append(c.took, d)
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.failures = append(c.failures, err)
			}
		})
	}
	return c
}

// latencies returns what requests took since it was last asked.
func (c *crowd) latencies() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

func (c *crowd) end(t testing.TB) {
	t.Helper()
	close(c.stop)
	c.clients.Wait()
	for _, err := range c.failures {
		t.Error(err)
	}
}

func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
