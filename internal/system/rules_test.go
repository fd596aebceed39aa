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
	var busy sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		busy.Go(func() {
			for t.Context().Err() == nil {
			}
		})
	}
	t.Cleanup(busy.Wait)
}

// TestRules_AreInForceFromTheFirstRequest sends requests from the moment in which a host listens, on a
// busy machine: the first responses that are no outage are those of the settings. Most hosts are those
// of new sites. The last one has an account with a second factor.
func TestRules_AreInForceFromTheFirstRequest(t *testing.T) {
	first := func(s *system, path string, p params) (got *response) {
		eventually(t, path+" is served", func() bool {
			got = s.post(t, path, p)
			return got.Result.Code != "unavailable"
		})
		return got
	}
	const required = "[registration]\nemail_verification = \"required\"\nenabled = true\n"
	known := options{database: testdb.SQLite(t), settings: cheap + unverified + twoFactor, data: filepath.Join(t.TempDir(), "data")}
	s := start(t, known)
	u := s.newSecured(t)
	s.stop(t)
	known.settings = cheap + required + twoFactor
	keepBusy(t)
	for i := range 6 {
		o := options{database: testdb.SQLite(t), settings: known.settings}
		s := launch(t, o)
		s.awaitURL(t, o)
		if i%2 == 0 {
			first(s, "two_factor/", params{}).want(t, "unauthenticated") // not not_found
		} else if r := first(s, "register/", applicant(nil)); r.Result.Code != "" || r.Data["user_hash"] != nil {
			t.Errorf("registration: got %s, want success without a session", r.Raw)
		}
		s.stop(t)
	}
	s = launch(t, known)
	s.awaitURL(t, known)
	first(s, "auth/", params{"login": u.login, "password": u.password}).want(t, "code_required")
}
