package store_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/userfields"
)

// benchmark runs f on each kind of database, with one signed-in account.
func benchmark(b *testing.B, f func(b *testing.B, url string, s *store.Store, session accounts.Session)) {
	for _, kind := range []struct {
		name string
		open func(testing.TB) string
	}{{"SQLite", testkit.SQLite}, {"PostgreSQL", testkit.Postgres}} {
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

func BenchmarkFindSessionAtOnce(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, _, err := s.FindSession(b.Context(), session.Selector, accounts.AccountProfile); err != nil {
					b.Error(err)
				}
			}
		})
	})
}

func BenchmarkRotateSession(b *testing.B) {
	benchmark(b, func(b *testing.B, _ string, s *store.Store, session accounts.Session) {
		for b.Loop() {
			before := session
			session.Rotations++
			binary.BigEndian.PutUint64(session.Current[:], uint64(session.Rotations))
			if err := s.RotateSession(b.Context(), before, func(time.Time) accounts.Session { return session }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
