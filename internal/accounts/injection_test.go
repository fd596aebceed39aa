package accounts_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// hostile are texts with a meaning in a query or a pattern, if they are not escaped.
var hostile = []string{
	`'`, `''`, `' OR '1'='1`, `' OR 1=1 --`, `'; DROP TABLE personal_accounts; --`, `"; DROP TABLE personal_accounts; --`,
	`x') UNION SELECT 1 --`, `'||(SELECT password_hash FROM personal_accounts LIMIT 1)||'`, `/* */`, `--`, `;`,
	`%`, `%%`, `_`, `a%z`, `a_z`, `!`, `!%`, `\`, `\\`, `\'`, `\%`, `[a-z]`, `*`, `.*`,
	`?`, `?0`, `?TableColumns`, `$1`, `:name`, `@p1`, `{0}`, "`", `"`, `$$`, `E'\x27'`,
	strings.Repeat(`'%_\`, personal.MaxSearchLength/4), strings.Repeat("я", personal.MaxSearchLength),
}

// wide are texts that are searched as others, which are escaped all the same.
var wide = map[string]string{`ʼ`: `'`, `＇`: `'`, `％`: `%`, `＿`: `_`, `！`: `!`}

func TestFindUsers_HostileTextsAreLiteral(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		names := map[int64]string{}
		for i, text := range append(slices.Clone(hostile), "abcz", "plain", `a\z`) {
			if name := "<" + text + ">"; len(name) <= 200 { // the maximum length of a name
				names[f.registerNamed(t, fmt.Sprint("user", i), name)] = name
			}
		}
		for _, text := range slices.Concat(hostile, slices.Collect(maps.Keys(wide))) {
			var want []int64
			for id, name := range names {
				if strings.Contains(name, cmp.Or(wide[text], text)) {
					want = append(want, id)
				}
			}
			slices.Sort(want)
			page, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Search: text, Limit: personal.MaxUserLimit})
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if got := idsOf(page); !slices.Equal(got, want) {
				t.Errorf("searching %q: got %v, want %v", text, got, want)
			}
		}
		for _, text := range []string{"'\x00", "\x00; DROP TABLE personal_accounts", "\xff'", strings.Repeat("'", personal.MaxSearchLength+1),
			strings.Repeat("%", 1<<20)} {
			_, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Search: text})
			if personal.CodeOf(err) != personal.CodeValidationFailed {
				t.Errorf("searching %.20q: got %v, want validation_failed", text, err)
			}
		}
		page, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Limit: personal.MaxUserLimit})
		if err != nil || len(page.Users) != len(names) {
			t.Errorf("got %d users (error %v), want %d", len(page.Users), err, len(names))
		}
	})
}

func (f *fixture) registerNamed(t *testing.T, login, name string) int64 {
	t.Helper()
	in, err := f.service.Register(t.Context(), personal.RegisterRequest{
		Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: login + "@m.example",
		Fields: map[string]personal.Input{"name": personal.Text(name)},
	})
	if err != nil {
		t.Fatalf("registering %q: %v", name, err)
	}
	return in.Credentials.UserID
}

func idsOf(page personal.UserPage) (ids []int64) {
	for _, u := range page.Users {
		ids = append(ids, u.ID)
	}
	slices.Sort(ids)
	return ids
}
