//go:build soak

package system

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestSoakRehearsals rehearses an honest version again and again under load on each database: every
// rehearsal passes, within 30 s in the median, no request fails, and p99 is at most twice as high.
func TestSoakRehearsals(t *testing.T) {
	total := count("PERSONAL_SOAK_REHEARSALS", 20)
	testkit.Databases(t, func(t *testing.T, database string) {
		binary, sites := testkit.Binaries(t).Plugin, []string{strictSettings(t), moreSettings(t)}
		s := start(t, options{database: database, settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
		crowd := s.crowd(t)
		time.Sleep(10 * time.Second) // the load must run for some time
		quiet := crowd.latencies()
		var took []time.Duration
		for i := range total {
			began := time.Now()
			if r := rehearse(t, binary, sites[i%len(sites)]); r.refused {
				t.Errorf("rehearsal %d:\n%v", i+1, r)
			}
			took = append(took, time.Since(began))
		}
		rehearsing := crowd.latencies()
		crowd.end(t)
		t.Logf("%d rehearsals, in the median within %v; %d requests, p99 %v without rehearsals, %v with one after the other",
			total, median(took), len(quiet)+len(rehearsing), p99(quiet), p99(rehearsing))
		if median(took) > 30*time.Second {
			t.Errorf("a rehearsal takes %v in the median, want 30s at most", median(took))
		}
		if p99(rehearsing) > 2*p99(quiet) {
			t.Errorf("p99 of requests rises from %v to %v, want twice at most", p99(quiet), p99(rehearsing))
		}
	})
}
