package system

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// session is a row of sessions/.
type session struct {
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Expires  time.Time `json:"expires"`
	Address  string    `json:"address"`
	Agent    string    `json:"agent"`
	Current  bool      `json:"current"`
}

// currentSession returns the session of the pair.
func (s *system) currentSession(t testing.TB, as pair) session {
	t.Helper()
	var list []session
	s.getAs(t, as, "sessions/").wantData(t, "sessions").read(t, "sessions", &list)
	for _, session := range list {
		if session.Current {
			return session
		}
	}
	t.Fatalf("no session is current: %+v", list)
	return session{}
}

// current returns the id of the pair's session.
func (s *system) current(t testing.TB, as pair) string {
	t.Helper()
	return s.currentSession(t, as).ID
}

// grace is the grace period in TestSession_Rotation.
const grace = time.Second

// attempts is how often a test tries to be done within the grace period.
const attempts = 60

// TestSession_Rotation follows hashes through refreshes by the real clock: a lost or
// repeated response never signs a user out, and a stolen hash is noticed. All orders of
// events, by their own clock, are tested in internal/accounts.
func TestSession_Rotation(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, *system){
		"every superseded hash within the grace period returns the current one": testGracePeriod,
		"predecessor of an unused hash stays valid":                             testUnusedSuccessor,
		"predecessor of a used hash is valid for the grace period":              testUsedSuccessor,
		"hash before the predecessor is theft after the grace period":           testTheft,
		"hash of an ended session is not theft":                                 testEndedSessions,
	}
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		s := start(t, options{database: database, settings: cheap + unthrottled + fmt.Sprintf("[session]\ngrace = \"%v\"\n", grace)})
		t.Run("rotation", func(t *testing.T) {
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel() // mostly waiting
					test(t, s)
				})
			}
		})
	})
}

// chain registers a user and refreshes n times. It returns the hashes, the first one
// first, and the times before and after the last refresh.
func (s *system) chain(t testing.TB, n int) (hashes []pair, before, after time.Time) {
	t.Helper()
	hashes = []pair{s.newUser(t).pair}
	for range n {
		before = time.Now()
		hashes = append(hashes, s.refresh(t, hashes[len(hashes)-1]))
	}
	return hashes, before, time.Now()
}

func testGracePeriod(t *testing.T, s *system) {
	for range attempts {
		if presentedInTime(t, s) {
			return
		}
	}
	t.Errorf("each of %d times, a refresh and 6 calls took longer than the grace period of %v", attempts, grace)
}

// presentedInTime presents all superseded hashes. It returns false if the grace period
// was over before that was done.
func presentedInTime(t *testing.T, s *system) bool {
	hashes, before, _ := s.chain(t, 3)
	for _, superseded := range hashes[:3] {
		identified, refreshed := s.getAs(t, superseded, "profile/"), s.getAs(t, superseded, "auth_refresh/")
		if time.Since(before) >= grace { // real time: the attempt is repeated
			return false
		}
		identified.want(t, "")
		if refreshed.pair(t) != hashes[3] {
			t.Fatal("a superseded hash does not return the current one")
		}
	}
	return true
}

func testUnusedSuccessor(t *testing.T, s *system) {
	hashes, _, after := s.chain(t, 1)
	for range 2 {
		outlast(after, grace)
		s.wantAlive(t, "the predecessor of an unused hash", hashes[0])
		if got := s.refresh(t, hashes[0]); got != hashes[1] {
			t.Fatal("a repeated refresh returned another hash")
		}
		after = time.Now()
	}
	s.wantAlive(t, "the current hash", hashes[1])
}

func testUsedSuccessor(t *testing.T, s *system) {
	for range attempts {
		hashes, _, after := s.chain(t, 1)
		outlast(after, grace)
		used := time.Now()
		s.wantAlive(t, "the current hash", hashes[1])
		r := s.getAs(t, hashes[0], "auth_refresh/")
		if time.Since(used) >= grace { // real time: the attempt is repeated
			continue
		}
		if got := r.pair(t); got != hashes[1] {
			t.Fatal("a repeated refresh returned another hash")
		}
		outlast(time.Now(), grace)
		s.wantAlive(t, "the current hash after the grace period", hashes[1])
		s.wantTheft(t, hashes[0], hashes[1])
		return
	}
	t.Errorf("each of %d times, two calls took longer than the grace period of %v", attempts, grace)
}

func testTheft(t *testing.T, s *system) {
	for _, path := range []string{"auth_refresh/", "profile/"} {
		hashes, _, after := s.chain(t, 2)
		outlast(after, grace)
		email := s.getAs(t, hashes[2], "profile/").profile(t)["email"].(string)
		s.getAs(t, hashes[0], path).want(t, "unauthenticated")
		s.wantTheft(t, hashes[1], hashes[2])
		s.mailTo(t, mailtext.SessionTheft, email)
	}
}

// wantTheft presents a superseded hash and checks that this ends the session, and that
// one event reports it.
func (s *system) wantTheft(t testing.TB, superseded, current pair) {
	t.Helper()
	s.getAs(t, superseded, "auth_refresh/").want(t, "unauthenticated")
	s.wantDead(t, "the current hash of a stolen session", current)
	eventually(t, "the event is published", func() bool { return s.events(t, "session_theft", superseded.ID) == 1 })
}

func testEndedSessions(t *testing.T, s *system) {
	u := s.newUser(t)
	other := s.signIn(t, u)
	next := s.refresh(t, s.refresh(t, u.pair))
	s.postAs(t, next, "logout/", params{}).want(t, "")
	outlast(time.Now(), grace)
	s.getAs(t, u.pair, "auth_refresh/").want(t, "unauthenticated")
	s.getAs(t, next, "auth_refresh/").want(t, "unauthenticated")
	s.wantAlive(t, "another session", other)

	otherNext := s.refresh(t, other)
	s.postAs(t, s.signIn(t, u), "password/", params{"old_password": u.password, "password": recovered, "confirm_password": recovered}).want(t,
		"")
	outlast(time.Now(), grace)
	s.getAs(t, other, "auth_refresh/").want(t, "unauthenticated")
	s.getAs(t, otherNext, "auth_refresh/").want(t, "unauthenticated")

	u.password = recovered
	last := s.signIn(t, u)
	s.do(t, call{method: http.MethodPost, path: "recover/", params: params{"login": u.login}}).want(t, "")
	s.post(t, "recover_confirm/", confirm(s.mailTo(t, mailtext.Recovery, u.email).token(t), "third horse 10")).want(t, "")
	s.getAs(t, last, "auth_refresh/").want(t, "unauthenticated")

	eventually(t, "the event of the recovery is published", func() bool { return s.events(t, "recovered", u.ID) == 1 })
	if n := s.events(t, "session_theft", u.ID); n != 0 {
		t.Errorf("got %d events of theft for ended sessions, want none", n)
	}
}

func TestSession_Expiry(t *testing.T) {
	t.Parallel()
	const idle, absolute = 3 * time.Second, 6 * time.Second
	settings := "[session]\nidle = \"3s\"\nabsolute = \"6s\"\ngrace = \"1s\"\n[recovery]\nlifetime = \"2s\"\n[registration]\nverification_lifetime = \"1s\"\n"
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		s := start(t, options{database: database, settings: cheap + unthrottled + settings})
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		token := s.mailTo(t, mailtext.Recovery, u.email).token(t)
		verification := s.mailTo(t, mailtext.Verification, u.email).token(t)

		unused := s.signIn(t, u)
		before := time.Now()
		used := s.signIn(t, u)
		after := time.Now()
		slow := false // the machine left the session unused for too long
		last := before
		keepUsing := func() bool {
			r := s.getAs(t, used, "profile/")
			slow = slow || time.Since(last) >= idle/2 // real time: not judged then
			last = time.Now()
			return r.Success == 1
		}
		for time.Since(after) < idle+time.Second { // real time: a pause
			if !keepUsing() && !slow && time.Since(before) < absolute { // real time: not judged then
				t.Fatalf("a session in use expired after %v", time.Since(before))
			}
			outlast(time.Now(), 200*time.Millisecond)
		}
		s.wantDead(t, "a session beyond its idle time", unused)
		s.getAs(t, unused, "auth_refresh/").want(t, "unauthenticated")
		s.post(t, "recover_confirm/", confirm(token, recovered)).want(t, "invalid_token")
		s.post(t, "email_confirm/", params{"token": verification}).want(t, "invalid_token")
		for time.Since(after) < absolute+time.Second { // real time: a pause
			keepUsing()
			outlast(time.Now(), 200*time.Millisecond)
		}
		s.wantDead(t, "a session beyond its absolute lifetime", used)
		s.getAs(t, used, "auth_refresh/").want(t, "unauthenticated")
		if n := s.events(t, "session_theft", u.ID); n != 0 {
			t.Errorf("got %d events of theft for expired sessions, want none", n)
		}
		s.signIn(t, u)
	})
}
