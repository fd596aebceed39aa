package accounts_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

func TestNewPassword_WordOfTheSiteIsTooCommon(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), func(s *accounts.Settings) { s.PasswordWords = []string{"example"} })
	ada := f.register(t, "ada")
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	const guessable = "Example2026"
	for name, call := range map[string]func() error{
		"registering": func() error {
			_, err := f.service.Register(t.Context(), personal.RegisterRequest{
				Login: "bob", Email: "bob@m.example", Password: guessable, ConfirmPassword: guessable,
			})
			return err
		},
		"changing it": func() error {
			_, err := f.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
				Credentials: ada.Credentials, OldPassword: goodPassword, Password: guessable, ConfirmPassword: guessable,
			})
			return err
		},
		"recovering": func() error {
			_, err := f.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
				Token: f.tokens()[0], Password: guessable, ConfirmPassword: guessable,
			})
			return err
		},
	} {
		var refused *personal.Error
		if err := call(); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(personal.FieldErrors{"password": personal.FieldErrorTooCommon}, refused.FieldErrors); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
