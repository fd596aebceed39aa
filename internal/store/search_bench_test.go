package store_test

import (
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/shared/personal"
)

// BenchmarkSearchAccounts searches 100,000 accounts. The worst case is a search that
// matches nothing and reads all of them.
func BenchmarkSearchAccounts(b *testing.B) {
	benchmark(b, func(b *testing.B, url string, s *store.Store, _ accounts.Session) {
		multiplyAccounts(b, url)
		for _, search := range []struct {
			name string
			q    accounts.AccountSearch
			want int
		}{
			{"the first page", accounts.AccountSearch{}, 50},
			{"a page far behind", accounts.AccountSearch{After: 1000}, 50},
			{"a part of many e-mails", accounts.AccountSearch{Text: "@example", Key: "@example"}, 50},
			{"the oldest login as a whole", accounts.AccountSearch{Text: "anna", Key: "anna"}, 1},
			{"a part of the oldest login", accounts.AccountSearch{Text: "ann", Key: "ann"}, 1},
			{"nothing", accounts.AccountSearch{Text: "nobody", Key: "nobody"}, 0},
			{"nothing, in Cyrillic", accounts.AccountSearch{Text: "Никто", Key: "никто"}, 0},
			{"a user field, 10,000 accounts without a match", accounts.AccountSearch{Field: "role", Value: "editor"}, 0},
			{"nothing, disabled only", accounts.AccountSearch{State: personal.UserDisabled}, 0},
		} {
			b.Run(search.name, func(b *testing.B) {
				search.q.Limit = 50
				for b.Loop() {
					found, err := s.SearchAccounts(b.Context(), search.q)
					if err != nil || len(found.Accounts) != search.want {
						b.Fatalf("%d accounts, error %v", len(found.Accounts), err)
					}
				}
			})
		}
	})
}

// multiplyAccounts makes 100,000 accounts from the existing one.
func multiplyAccounts(b *testing.B, url string) {
	b.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		b.Fatal(err)
	}
	defer pools.Close()
	for _, statement := range []string{
		`INSERT INTO personal_accounts (login, login_key, name, email, email_key, search,
				password_hash, credential_version, fields, disabled, created, updated)
			WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
			SELECT 'User' || i, 'user' || i, 'Иван Petrov ' || i, 'User' || i || '@example.org', 'user' || i || '@example.org',
				'user' || i || ' ' || 'user' || i || '@example.org' || ' ' || 'иван petrov ' || i,
				password_hash, credential_version, fields, disabled, created, updated
			FROM n CROSS JOIN personal_accounts WHERE login_key = 'anna' ORDER BY i`,
		`ANALYZE`,
	} {
		if _, err := pools.Write.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
}
