//go:build extended

package accounts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// TestFindUsers_TakesAsLongAtAMillionUsersAsAtAThousand compares the medians of runs that
// alternate between both databases, so that other load on the machine slows both down. It
// asks for what has to be read at the far end of the table, too.
func TestFindUsers_TakesAsLongAtAMillionUsersAsAtAThousand(t *testing.T) {
	const (
		few, many = 1_000, 1_000_000
		runs      = 101
		rounds    = 3
		maxRatio  = 1.5
	)
	for _, kind := range []struct {
		name string
		open func(testing.TB) string
	}{{"SQLite", testdb.SQLite}, {"PostgreSQL", testdb.Postgres}} {
		t.Run(kind.name, func(t *testing.T) {
			small, large := newFixture(t, kind.open(t)), newFixture(t, kind.open(t))
			for f, n := range map[*fixture]int{small: few, large: many} {
				testkit.Populate(t, f.url, n, `'{"age":' || (i % 100) || ',"role":"' || CASE WHEN i % 20 = 0 THEN 'editor' ELSE 'author' END || '"}'`)
				addStates(t, f.url)
				f.host.UserFieldsFunc = func(context.Context) (personal.Schema, error) {
					return personal.Schema{Revision: "1", Fields: []personal.Field{
						{Name: "role", Type: personal.TypeEnum, Options: []personal.Option{{Value: "editor"}, {Value: "author"}}},
					}}, nil
				}
			}
			registered := func(i int64) time.Time { return time.UnixMicro(1700000000000000 + i) }
			disabled, oldest := fmt.Sprintf("user%d", testkit.DisabledOfPopulation), fmt.Sprintf("user%d", testkit.DisabledOfPopulation+1)
			for _, test := range []struct {
				name string
				r    personal.FindUsersRequest
				want string // the login that the page must contain; "": any 50 users; "none": no user
			}{
				{"first page", personal.FindUsersRequest{}, ""},
				{"active users", personal.FindUsersRequest{State: personal.UserActive}, ""},
				{"disabled users, all old", personal.FindUsersRequest{State: personal.UserDisabled}, disabled},
				{"users who must confirm their e-mail, all old", personal.FindUsersRequest{State: personal.UserUnconfirmed}, "user21"},
				{"users with a second factor, all old", personal.FindUsersRequest{State: personal.UserTwoFactor}, "user41"},
				{"oldest first", personal.FindUsersRequest{Oldest: true}, ""},
				{"registered since a moment", personal.FindUsersRequest{Since: registered(10)}, ""},
				{"registered in the first days", personal.FindUsersRequest{Until: registered(500)}, ""},
				{"registered in the first days, oldest first", personal.FindUsersRequest{Since: registered(10), Until: registered(500), Oldest: true}, ""},
				{"registered in the first days, disabled", personal.FindUsersRequest{Until: registered(500), State: personal.UserDisabled}, disabled},
				{"with a value of a user field", personal.FindUsersRequest{Field: "role", Value: "editor"}, ""},
				{"with user fields", personal.FindUsersRequest{Fields: []string{"role"}}, ""},
				{"login of the oldest user", personal.FindUsersRequest{Search: oldest}, oldest},
				{"e-mail of the oldest user", personal.FindUsersRequest{Search: oldest + "@example.org"}, oldest},
				{"id of the oldest user", personal.FindUsersRequest{Search: "21"}, oldest},
				{"login of an active user", personal.FindUsersRequest{Search: oldest, State: personal.UserActive}, oldest},
				{"login of a disabled user", personal.FindUsersRequest{Search: disabled, State: personal.UserDisabled}, disabled},
				{"login of a disabled user among the active ones", personal.FindUsersRequest{Search: disabled, State: personal.UserActive}, "none"},
				{"login of an active user among the disabled ones", personal.FindUsersRequest{Search: oldest, State: personal.UserDisabled}, "none"},
			} {
				for round := 1; ; round++ { // the databases work in the background after so many inserts
					a, b := alternate(t, runs, small, large, test.r, test.want)
					ratio := float64(b) / float64(a)
					t.Logf("%-50s %9v at %d users, %9v at %d: ratio %.2f", test.name, a.Round(time.Microsecond), few, b.Round(time.Microsecond), many,
						ratio)
					if ratio <= maxRatio {
						break
					}
					if round == rounds {
						t.Errorf("%s: %d users take %.2f times as long as %d in round %d, want at most %.1f", test.name, many, ratio, few, round, maxRatio)
						break
					}
				}
			}
		})
	}
}

// addStates makes 20 of the oldest accounts wait for their e-mail, and gives 20 others a second
// factor.
func addStates(t *testing.T, url string) {
	t.Helper()
	secret := "x'00'"
	if strings.HasPrefix(url, "postgres") {
		secret = "decode('00', 'hex')"
	}
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	for _, statement := range []string{
		"UPDATE personal_accounts SET unverified_key = email_key, unverified_email = email WHERE id BETWEEN 21 AND 40",
		"UPDATE personal_accounts SET two_factor_secret = " + secret + ", two_factor_key = 'key' WHERE id BETWEEN 41 AND 60",
		"ANALYZE",
	} {
		if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// alternate searches both databases in turn and returns the median duration of each.
func alternate(t *testing.T, runs int, small, large *fixture, r personal.FindUsersRequest, want string) (a, b time.Duration) {
	t.Helper()
	took := map[*fixture][]time.Duration{}
	for range runs {
		for _, f := range []*fixture{small, large} {
			start := time.Now()
			page, err := f.service.FindUsers(t.Context(), r)
			took[f] = append(took[f], time.Since(start))
			if err != nil {
				t.Fatalf("%+v: %v", r, err)
			}
			if !contains(page.Users, want) {
				t.Fatalf("%+v: got the users %+v, want %q", r, page.Users, want)
			}
		}
	}
	return median(took[small]), median(took[large])
}

// contains reports whether a page is as the test wants it.
func contains(page []personal.User, login string) bool {
	switch login {
	case "":
		return len(page) == personal.DefaultUserLimit
	case "none":
		return len(page) == 0
	}
	return slices.ContainsFunc(page, func(u personal.User) bool { return strings.EqualFold(u.Login, login) })
}

func median(of []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
