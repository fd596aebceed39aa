package store_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
)

func TestCheckUse_ReadsASession(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		if err := s.CheckUse(t.Context()); err != nil {
			t.Errorf("without sessions: got %v, want none", err)
		}
		for _, key := range []string{"a", "b"} {
			if _, err := s.CreateAccount(t.Context(), accounts.Account{LoginKey: key, CredentialVersion: 1},
				accounts.Session{Selector: token.Selector{key[0]}, Created: s.Now(), LastSeen: s.Now(), Rotated: s.Now()},
				func(int64) []accounts.NewJob { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CheckUse(t.Context()); err != nil {
			t.Errorf("got %v, want none", err)
		}
		execute(t, url, "ALTER TABLE personal_sessions RENAME COLUMN marks TO scars")
		if err := s.CheckUse(t.Context()); err == nil {
			t.Error("got no error, want that sessions cannot be read")
		}
	})
}

func TestCheckUse_NamesTheRightsThatLack(t *testing.T) {
	database := testkit.Postgres(t)
	role := "limited_" + value[string](t, database, "SELECT current_database()")
	migrated(t, database, store.Options{})
	execute(t, database, `CREATE ROLE "`+role+`" LOGIN PASSWORD 'secret'`)
	defer func() {
		execute(t, database, `DROP OWNED BY "`+role+`"`)
		execute(t, database, `DROP ROLE "`+role+`"`)
	}()
	execute(t, database, `GRANT USAGE ON SCHEMA public TO "`+role+`"`)
	execute(t, database, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "`+role+`"`)
	execute(t, database, `REVOKE INSERT, UPDATE, DELETE ON personal_schema FROM "`+role+`"`)
	withRole, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	withRole.User = url.UserPassword(role, "secret")
	s := open(t, withRole.String(), store.Options{})
	if err := s.CheckUse(t.Context()); err != nil {
		t.Errorf("got %v, want none", err)
	}
	execute(t, database, `REVOKE DELETE ON personal_jobs FROM "`+role+`"`)
	execute(t, database, `REVOKE SELECT ON personal_sweeps FROM "`+role+`"`)
	err = s.CheckUse(t.Context())
	var setup *dbconn.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), "DELETE on personal_jobs, SELECT on personal_sweeps") {
		t.Errorf("got %v, want the rights", err)
	}
}
