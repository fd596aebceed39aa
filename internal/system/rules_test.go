package system

import (
	"path/filepath"
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

// TestRules_AreInForceFromTheFirstRequest sends requests from the moment in which a host listens, on
// a busy machine: the first responses that are no outage are those of the settings.
func TestRules_AreInForceFromTheFirstRequest(t *testing.T) {
	o := options{database: testdb.SQLite(t), settings: cheap + required + twoFactor, data: filepath.Join(t.TempDir(), "data")}
	s := start(t, o)
	u := secured{user: s.newConfirmedUser(t)}
	u.authenticator = s.beginTwoFactor(t, u.user)
	s.confirmTwoFactor(t, &u.user, u.codeOf(stepNow()))
	s.stop(t)
	keepBusy(t)
	for range 6 {
		s = launch(t, o)
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
		requests.Go(func() { first("auth/", params{"login": u.login, "password": u.password}).want(t, "code_required") })
		requests.Go(func() { first("two_factor/", params{}).want(t, "unauthenticated") })
		requests.Wait()
		s.stop(t)
	}
}
