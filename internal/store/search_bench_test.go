package store_test

import (
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// BenchmarkSearchAccounts searches 100,000 accounts. The worst case is a search that
// matches nothing and reads all of them.
func BenchmarkSearchAccounts(b *testing.B) {
	for name, database := range map[string]func(testing.TB) string{"SQLite": testdb.SQLite, "PostgreSQL": testdb.Postgres} {
		url := database(b)
		testkit.Populate(b, url, 100_000, "'{}'")
		execute(b, url, "UPDATE personal_accounts SET search = login_key || ' ' || email_key || ' иван petrov ' || id")
		s := migrated(b, url, store.Options{})
		for _, search := range []struct {
			name string
			q    accounts.AccountSearch
			want int
		}{
			{"the first page", accounts.AccountSearch{}, 50},
			{"a page far behind", accounts.AccountSearch{After: 1000}, 50},
			{"a part of many e-mails", accounts.AccountSearch{Text: "@example", Key: "@example"}, 50},
			{"nothing", accounts.AccountSearch{Text: "nobody", Key: "nobody"}, 0},
			{"nothing, in Cyrillic", accounts.AccountSearch{Text: "Никто", Key: "никто"}, 0},
			{"a user field, 10,000 accounts without a match", accounts.AccountSearch{Field: "role", Value: "editor"}, 0},
			{"nothing, disabled only", accounts.AccountSearch{Text: "nobody", Key: "nobody", State: personal.UserDisabled}, 0},
		} {
			b.Run(name+", "+search.name, func(b *testing.B) {
				search.q.Limit = 50
				for b.Loop() {
					found, err := s.SearchAccounts(b.Context(), search.q)
					if err != nil || len(found.Accounts) != search.want {
						b.Fatalf("%d accounts, error %v", len(found.Accounts), err)
					}
				}
			})
		}
	}
}
