package system

import (
	"runtime"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// keepBusy occupies all processors until the test ends.
func keepBusy(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	var busy sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		busy.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	t.Cleanup(func() {
		close(ended)
		busy.Wait()
	})
}

// TestRules_AreInForceFromTheFirstRequest sends requests to new sites from the moment in which their
// host listens, on a busy machine: the first responses that are no outage are those of the settings.
func TestRules_AreInForceFromTheFirstRequest(t *testing.T) {
	keepBusy(t)
	for range 6 {
		o := options{database: testdb.SQLite(t), settings: cheap + required + twoFactor}
		s := launch(t, o)
		s.awaitURL(t, o)
		first := func(path string, p params) *response {
			var got *response
			eventually(t, path+" is served", func() bool {
				got = s.post(t, path, p)
				return got.Result.Code != "unavailable"
			})
			return got
		}
		var requests sync.WaitGroup
		requests.Go(func() {
			if r := first("register/", applicant(nil)); r.Result.Code != "" || r.Data["user_hash"] != nil {
				t.Errorf("registration: got %s, want success without a session", r.Raw)
			}
		})
		requests.Go(func() { first("two_factor/", params{}).want(t, "unauthenticated") }) // not not_found
		requests.Wait()
		s.stop(t)
	}
}
