package store_test

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/userfields"
)

// benchmark runs f on each kind of database, with one signed-in account.
func benchmark(b *testing.B, f func(b *testing.B, url string, s *store.Store, session accounts.Session)) {
	for _, kind := range []struct {
		name string
		open func(testing.TB) string
	}{{"SQLite", testdb.SQLite}, {"PostgreSQL", testdb.Postgres}} {
		b.Run(kind.name, func(b *testing.B) {
			url := kind.open(b)
			s := migrated(b, url, store.Options{})
			name := "Anna"
			account := accounts.Account{
				Login: "anna", LoginKey: "anna", Name: &name, Email: accounts.Email{Address: "anna@example.org", Key: "anna@example.org"},
				PasswordHash: "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g",
				Fields:       userfields.Values{"city": "Omsk", "tags": []string{"a", "b"}, "age": int64(42)},
			}
			session := accounts.Session{Selector: [8]byte{1}, Created: s.Now(), Rotated: s.Now(), LastSeen: s.Now(), Agent: "a browser"}
			_, err := s.CreateAccount(b.Context(), account, session, func(int64) []accounts.NewJob { return nil })
			if err != nil {
				b.Fatal(err)
			}
			if session, _, err = s.FindSession(b.Context(), session.Selector, accounts.WholeAccount); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			f(b, url, s, session)
		})
	}
}

func BenchmarkFindSession(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		for b.Loop() {
			if _, _, err := s.FindSession(b.Context(), session.Selector, accounts.AccountProfile); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// atOnce runs f with 32 sessions at once, and reports the CPU time of this process:
// on PostgreSQL without the server's.
func atOnce(b *testing.B, s *store.Store, first accounts.Session, f func(session *accounts.Session) error) {
	const callers = 32
	sessions := make([]accounts.Session, callers)
	for i := range sessions {
		session := accounts.Session{AccountID: first.AccountID, Selector: [8]byte{2, byte(i)}, Created: s.Now(), Rotated: s.Now(),
			LastSeen: s.Now()}
		if _, err := s.OpenSession(b.Context(), accounts.OpenSession{Session: session, MaxSessions: 2 * callers}); err != nil {
			b.Fatal(err)
		}
		var err error
		if sessions[i], _, err = s.FindSession(b.Context(), session.Selector, accounts.AccountState); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	before := cpuTime(b)
	var all sync.WaitGroup
	for i := range sessions {
		all.Go(func() {
			for range b.N/callers + 1 {
				if err := f(&sessions[i]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func BenchmarkFindSessionAtOnce(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		atOnce(b, s, session, func(session *accounts.Session) error {
			_, _, err := s.FindSession(b.Context(), session.Selector, accounts.AccountProfile)
			return err
		})
	})
}

func BenchmarkRotateSession(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		for b.Loop() {
			if err := rotate(b, s, &session); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRotateSessionAtOnce(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		atOnce(b, s, session, func(session *accounts.Session) error { return rotate(b, s, session) })
	})
}

func rotate(b *testing.B, s *store.Store, session *accounts.Session) error {
	before := *session
	session.Rotations++
	binary.BigEndian.PutUint64(session.Current[:], uint64(session.Rotations))
	return s.RotateSession(b.Context(), before, func(time.Time) accounts.Session { return *session })
}
