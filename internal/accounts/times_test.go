package accounts_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// jump is how far the clock is ahead for a moment. What happens then is false afterwards.
const jump = accounts.MaxAhead + time.Minute

// during lets something happen while the clock is ahead.
func (f *fixture) during(jump time.Duration, happens func()) {
	f.clock.Advance(jump)
	happens()
	f.clock.Advance(-jump)
}

// The first request of a session makes its times true, so that its theft is found again, and that it ends
// in time.
func TestTimes_SessionThatWasUsedWhileTheClockWasAhead(t *testing.T) {
	refresh := func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
		return f.refreshTimes(t, c, 1, 0)
	}
	for name, request := range map[string]func(t *testing.T, f *fixture, old, c personal.Credentials) personal.Credentials{
		"refresh": func(t *testing.T, f *fixture, _, c personal.Credentials) personal.Credentials {
			return refresh(t, f, c)
		},
		"verification": func(t *testing.T, f *fixture, _, c personal.Credentials) personal.Credentials {
			f.profile(t, c)
			return c
		},
		"repeated old hash": func(t *testing.T, f *fixture, old, _ personal.Credentials) personal.Credentials {
			return refresh(t, f, old)
		},
		"page with old hash": func(t *testing.T, f *fixture, old, c personal.Credentials) personal.Credentials {
			f.profile(t, old)
			return c
		},
		"list of the session": func(t *testing.T, f *fixture, _, c personal.Credentials) personal.Credentials {
			wantNoFuture(t, f, c)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				f := newFixture(t, url, func(s *accounts.Settings) { s.SessionIdle, s.SessionAbsolute = time.Hour, 90*time.Minute })
				var old, c personal.Credentials
				f.during(jump, func() {
					old = f.register(t, "ada").Credentials
					c = f.refreshTimes(t, old, 3, time.Second)
				})
				c = request(t, f, old, c)
				wantNoFuture(t, f, c)
				f.clock.Advance(50 * time.Minute)
				c = refresh(t, f, c)
				f.clock.Advance(39 * time.Minute)
				f.profile(t, c)
				f.clock.Advance(time.Minute + f.settings.SupersededGrace) // since its creation
				_, err := f.service.Profile(t.Context(), c)
				wantCode(t, err, personal.CodeUnauthenticated)

				f.during(jump, func() {
					old = f.signInFrom(t, "ada", goodPassword, home, "")
					c = f.refreshTimes(t, old, 3, time.Second)
				})
				c = request(t, f, old, c)
				f.clock.Advance(f.settings.SupersededGrace + time.Second)
				_, err = f.service.Refresh(t.Context(), old)
				wantCode(t, err, personal.CodeUnauthenticated)
				_, err = f.service.Profile(t.Context(), c)
				wantCode(t, err, personal.CodeUnauthenticated)
				f.drain(t)
				thefts := 0
				for _, e := range f.host.Events() {
					if e.Type == personal.EventSessionTheft {
						thefts++
					}
				}
				if thefts != 1 {
					t.Errorf("got %d events of a theft, want one", thefts)
				}
			})
		})
	}
}

// wantNoFuture checks that the list of sessions has no time in the future but their ends.
func wantNoFuture(t *testing.T, f *fixture, c personal.Credentials) {
	t.Helper()
	sessions, err := f.service.Sessions(t.Context(), c)
	if err != nil {
		t.Fatalf("listing sessions: %v", err)
	}
	for _, s := range sessions {
		if now := f.clock.Now(); s.Created.After(now) || s.LastSeen.After(now) || s.Expires.After(now.Add(f.settings.SessionIdle)) {
			t.Errorf("at %v: got a session of the future: %+v", now, s)
		}
	}
}

func TestTimes_PasskeyAttemptsAndProofsOfAWrongClockAreInvalid(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := withPasskeys(t, url)
		u := f.passkeyUser(t, "ada")
		for _, jump := range []time.Duration{jump, accounts.MaxAhead} {
			valid := jump <= accounts.MaxAhead
			var signIn personal.AuthorizePasskeyRequest
			var attempt, credential string
			var proof personal.Proof
			f.during(jump, func() {
				u.in = f.signInFrom(t, "ada", goodPassword, home, "")
				signIn = u.request(t, "")
				attempt, credential = u.respond(t)
				proof = f.prove(t, t.Context(), u.in, "")
			})
			_, err := f.service.AuthorizePasskey(t.Context(), signIn)
			if (err == nil) != valid {
				t.Errorf("%v ahead: sign-in: got error %v, want success: %t", jump, err, valid)
			}
			err = provenUses["export"](t.Context(), f.service, u.in, proof.Proof)
			if (err == nil) != valid || err != nil && !isWrongProof(err) {
				t.Errorf("%v ahead: a proof: got error %v, want success: %t", jump, err, valid)
			}
			_, err = f.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.in, Attempt: attempt, Credential: credential})
			if (err == nil) != valid {
				t.Errorf("%v ahead: proving: got error %v, want success: %t", jump, err, valid)
			}
		}
	})
}
