package accounts_test

import (
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func BenchmarkRefresh(b *testing.B) {
	f := newFixture(b, testdb.SQLite(b))
	c := f.register(b, "ada").Credentials
	b.ReportAllocs()
	for b.Loop() {
		next, err := f.service.Refresh(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		c = next
	}
}

// BenchmarkProfile measures what RequireUser costs a page of the CMS.
func BenchmarkProfile(b *testing.B) {
	f := newFixture(b, testdb.SQLite(b))
	c := f.register(b, "ada").Credentials
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.service.Profile(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
