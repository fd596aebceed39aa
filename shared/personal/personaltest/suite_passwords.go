package personaltest

import (
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// passwordSetters are the operations that set a password. Each creates an account of
// the given login and e-mail and returns the error of giving it the password.
func passwordSetters(s *suite) map[string]func(t *testing.T, login, email, password string) error {
	register := func(t *testing.T, login, email, password string) (personal.SignedIn, error) {
		return s.service.Register(t.Context(), personal.RegisterRequest{
			Login: login, Password: password, ConfirmPassword: password, Email: email,
			Fields: map[string]personal.Input{"city": personal.Text("riga")},
		})
	}
	return map[string]func(t *testing.T, login, email, password string) error{
		"Register": func(t *testing.T, login, email, password string) error {
			_, err := register(t, login, email, password)
			return err
		},
		"ChangePassword": func(t *testing.T, login, email, password string) error {
			in, err := register(t, login, email, Password)
			if err != nil {
				t.Fatalf("registering: %v", err)
			}
			_, err = s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
				Credentials: in.Credentials, OldPassword: Password, Password: password, ConfirmPassword: password,
			})
			return err
		},
		"RecoverConfirm": func(t *testing.T, login, email, password string) error {
			if _, err := register(t, login, email, Password); err != nil {
				t.Fatalf("registering: %v", err)
			}
			if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: login}); err != nil {
				t.Fatalf("requesting a recovery: %v", err)
			}
			_, err := s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
				Token: tokenIn(t, s.mailTo(t, email, 1)), Password: password, ConfirmPassword: password,
			})
			return err
		},
	}
}

func testComposedPassword(t *testing.T, s *suite) {
	const decomposed, composed = "cafe\u0301 au lait at noon", "caf\u00e9 au lait at noon"
	for operation, set := range passwordSetters(s) {
		t.Run(operation, func(t *testing.T) {
			login, email := s.newLogin()
			if err := set(t, login, email, decomposed); err != nil {
				t.Fatalf("setting the password: %v", err)
			}
			s.signIn(t, login, composed)
		})
	}
}

func testPersonalPassword(t *testing.T, s *suite) {
	for operation, set := range passwordSetters(s) {
		for _, word := range []string{"login", "e-mail"} {
			t.Run(word+" with "+operation, func(t *testing.T) {
				login, email := s.newLogin()
				login = "long-enough-" + login // to pass the minimum length
				password := map[string]string{"login": login, "e-mail": email}[word]
				wantFieldErrors(t, set(t, login, email, password), personal.CodeValidationFailed,
					personal.FieldErrors{"password": personal.FieldErrorTooCommon})
			})
		}
	}
}
