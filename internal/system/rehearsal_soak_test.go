//go:build soak

package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// TestSoakRehearsals rehearses an honest version 200 times under load on each database: every
// rehearsal passes, no request fails, and p99 is at most twice as high.
func TestSoakRehearsals(t *testing.T) {
	total := count("PERSONAL_SOAK_REHEARSALS", 200)
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
		newer := s.installAnother(t)
		crowd := s.crowd(t)
		time.Sleep(10 * time.Second) // the load must run for some time
		quiet := crowd.latencies()
		skipped := map[string]int{}
		for i := range total {
			for _, c := range s.rehearse(t, newer).Checks {
				switch c.Outcome {
				case rpc.RehearsalPassed:
				case rpc.RehearsalSkipped:
					skipped[c.Name+": "+c.Reason]++
				default:
					t.Errorf("rehearsal %d: got %+v", i+1, c)
				}
			}
		}
		rehearsing := crowd.latencies()
		crowd.end(t)
		t.Logf("%d rehearsals; skipped: %v; %d requests, p99 %v without rehearsals, %v with one after the other",
			total, skipped, len(quiet)+len(rehearsing), p99(quiet), p99(rehearsing))
		if p99(rehearsing) > 2*p99(quiet) {
			t.Errorf("p99 of requests rises from %v to %v, want twice at most", p99(quiet), p99(rehearsing))
		}
	})
}

// rehearse rehearses a version without a swap.
func (s *system) rehearse(t *testing.T, version string) manager.RehearsalStatus {
	t.Helper()
	got, body := s.admin(t, http.MethodPost, "plugin/rehearse", fmt.Sprintf(`{"version":%q}`, version), "Content-Type", jsonType)
	var report struct{ Rehearsal manager.RehearsalStatus }
	if err := json.Unmarshal([]byte(body), &report); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("rehearse %s: got %d %s", version, got.StatusCode, body)
	}
	return report.Rehearsal
}
