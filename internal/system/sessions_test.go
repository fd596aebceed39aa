package system

import (
	"testing"
	"time"
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
