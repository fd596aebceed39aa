package accounts_test

import (
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// The contract suite sets passwords with each operation.
func TestNewPassword_WordOfTheSiteIsTooCommon(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), func(s *accounts.Settings) { s.PasswordWords = []string{"example"} })
	const guessable = "Example2026"
	_, err := f.service.Register(t.Context(), personal.RegisterRequest{
		Login: "bob", Email: "bob@m.example", Password: guessable, ConfirmPassword: guessable,
	})
	wantFields(t, err, personal.FieldErrors{"password": personal.FieldErrorTooCommon})
}
