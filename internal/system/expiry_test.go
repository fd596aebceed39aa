package system

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestExpiry waits for sessions and mailed tokens to run out.
func TestExpiry(t *testing.T) {
	t.Parallel()
	const idle, absolute = 3 * time.Second, 6 * time.Second
	settings := "[session]\nidle = \"3s\"\nabsolute = \"6s\"\ngrace = \"1s\"\n[recovery]\nlifetime = \"2s\"\n"
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + settings})
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		token := s.mailTo(t, u.email).token(t)

		unused := s.signIn(t, u)
		before := time.Now()
		used := s.signIn(t, u)
		after := time.Now()
		slow := false // a gap that a session need not bear
		last := before
		keepUsing := func() bool {
			a := s.getAs(t, used, "profile/")
			slow = slow || time.Since(last) >= idle/2
			last = time.Now()
			return a.Success == 1
		}
		for time.Since(after) < idle+time.Second {
			if !keepUsing() && !slow && time.Since(before) < absolute {
				t.Fatalf("a session in use ended after %v", time.Since(before))
			}
			pass(time.Now(), 200*time.Millisecond)
		}
		s.wantDead(t, "a session left unused", unused)
		s.getAs(t, unused, "auth_refresh/").want(t, "unauthenticated")
		s.post(t, "recover_confirm/", confirm(token, recovered)).want(t, "invalid_token")
		for time.Since(after) < absolute+time.Second {
			keepUsing()
			pass(time.Now(), 200*time.Millisecond)
		}
		s.wantDead(t, "a session beyond its absolute end", used)
		s.getAs(t, used, "auth_refresh/").want(t, "unauthenticated")
		if s.events(t, "session_theft", u.ID) != 0 {
			t.Error("an expired session raised an alarm")
		}
		s.signIn(t, u)
	})
}
