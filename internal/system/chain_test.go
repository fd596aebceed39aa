package system

import (
	"net/http"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// grace is session.grace in TestChain.
const grace = time.Second

// TestChain follows hashes through refreshes: a lost or doubled response never
// logs a user out, a stolen old hash does not go unnoticed.
func TestChain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		test func(*testing.T, *system)
	}{
		{"within the grace every earlier hash leads to the newest", testGrace},
		{"the predecessor is good until its successor is used", testUnusedSuccessor},
		{"and for the grace after that first use", testUsedSuccessor},
		{"a hash from before the predecessor is theft after the grace", testTheft},
		{"an old hash after logout, a password change or recovery is no alarm", testEndedSessions},
	}
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + "[session]\ngrace = \"1s\"\n"})
		t.Run("chains", func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel() // they mostly wait
					test.test(t, s)
				})
			}
		})
	})
}

func (s *system) refresh(t testing.TB, p pair) pair {
	t.Helper()
	return s.getAs(t, p, "auth_refresh/").wantData(t, "user_id", "user_hash").pair(t)
}

// chain registers somebody and refreshes n times: the first hash is the oldest.
// It returns the time before the last refresh and the time after it.
func (s *system) chain(t testing.TB, n int) (hashes []pair, before, after time.Time) {
	t.Helper()
	hashes = []pair{s.newUser(t).pair}
	for range n {
		before = time.Now()
		hashes = append(hashes, s.refresh(t, hashes[len(hashes)-1]))
	}
	return hashes, before, time.Now()
}

func testGrace(t *testing.T, s *system) {
	for range 10 {
		if testGraceInTime(t, s) {
			return
		}
	}
	t.Fatal("the machine is too slow for a grace of 1s")
}

// testGraceInTime returns false if the grace was over before all was shown.
func testGraceInTime(t *testing.T, s *system) bool {
	hashes, before, _ := s.chain(t, 3)
	for _, earlier := range hashes[:3] {
		identified, refreshed := s.getAs(t, earlier, "profile/"), s.getAs(t, earlier, "auth_refresh/")
		if time.Since(before) >= grace {
			return false
		}
		identified.want(t, "")
		if refreshed.pair(t) != hashes[3] {
			t.Fatal("an earlier hash does not lead to the newest")
		}
	}
	return true
}

func testUnusedSuccessor(t *testing.T, s *system) {
	hashes, _, after := s.chain(t, 1)
	for range 2 {
		pass(after, grace)
		s.wantAlive(t, "the predecessor of an unused hash", hashes[0])
		if got := s.refresh(t, hashes[0]); got != hashes[1] {
			t.Fatal("a repeated refresh made another hash")
		}
		after = time.Now()
	}
	s.wantAlive(t, "the successor", hashes[1])
}

func testUsedSuccessor(t *testing.T, s *system) {
	for i := 0; ; i++ {
		hashes, _, after := s.chain(t, 1)
		pass(after, grace)
		used := time.Now()
		s.wantAlive(t, "the successor", hashes[1])
		a := s.getAs(t, hashes[0], "auth_refresh/")
		if time.Since(used) >= grace && i < 10 {
			continue // too slow to tell
		}
		if got := a.pair(t); got != hashes[1] {
			t.Fatal("a repeated refresh made another hash")
		}
		pass(time.Now(), grace)
		s.wantAlive(t, "the successor, again,", hashes[1])
		s.wantTheft(t, hashes[0], hashes[1])
		return
	}
}

func testTheft(t *testing.T, s *system) {
	for _, path := range []string{"auth_refresh/", "profile/"} {
		hashes, _, after := s.chain(t, 2)
		other := hashes[2]
		pass(after, grace)
		s.wantAlive(t, "the newest hash", other)
		s.getAs(t, hashes[0], path).want(t, "unauthenticated")
		s.wantTheft(t, hashes[1], other)
	}
}

// wantTheft shows an old hash and expects that its session ends by it, with one
// alarm.
func (s *system) wantTheft(t testing.TB, old, newest pair) {
	t.Helper()
	s.getAs(t, old, "auth_refresh/").want(t, "unauthenticated")
	s.wantDead(t, "the newest hash of a stolen session", newest)
	eventually(t, "the alarm", func() bool { return s.events(t, "session_theft", old.ID) == 1 })
}

func testEndedSessions(t *testing.T, s *system) {
	u := s.newUser(t)
	other := s.signIn(t, u)
	next := s.refresh(t, s.refresh(t, u.pair))
	s.postAs(t, next, "logout/", params{}).want(t, "")
	pass(time.Now(), grace)
	s.getAs(t, u.pair, "auth_refresh/").want(t, "unauthenticated")
	s.getAs(t, next, "auth_refresh/").want(t, "unauthenticated")
	s.wantAlive(t, "another session", other)

	otherNext := s.refresh(t, other)
	s.postAs(t, s.signIn(t, u), "password/", params{"old_password": u.password, "password": recovered, "confirm_password": recovered}).want(t, "")
	pass(time.Now(), grace)
	s.getAs(t, other, "auth_refresh/").want(t, "unauthenticated")
	s.getAs(t, otherNext, "auth_refresh/").want(t, "unauthenticated")

	u.password = recovered
	last := s.signIn(t, u)
	s.do(t, call{method: http.MethodPost, path: "recover/", params: params{"login": u.login}}).want(t, "")
	s.post(t, "recover_confirm/", confirm(s.mailTo(t, u.email).token(t), "third horse 10")).want(t, "")
	s.getAs(t, last, "auth_refresh/").want(t, "unauthenticated")

	eventually(t, "the recovery's event", func() bool { return s.events(t, "recovered", u.ID) == 1 })
	if s.events(t, "session_theft", u.ID) != 0 {
		t.Error("an ended session's hash raised an alarm")
	}
}
