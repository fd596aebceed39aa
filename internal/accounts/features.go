package accounts

import (
	"cmp"
	"context"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// Features implements [personal.Service].
func (s *Service) Features(context.Context) (personal.Features, error) {
	return personal.Features{
		PasswordMinLength: s.settings.MinPassword,
		PasswordMaxBytes:  password.MaxBytes,
		LoginMinLength:    minLogin,
		LoginMaxLength:    maxLogin,
		LoginWithEmail:    s.settings.LoginWithEmail,
		EmailVerification: cmp.Or(s.settings.EmailVerification, personal.VerificationOff),
		TwoFactor:         s.offersTwoFactor() == nil,
		Passkeys:          s.offersPasskeys() == nil,
		MailedCode:        s.offersMailedCode() == nil,
		DeletionGrace:     s.settings.DeletionGrace,
	}, nil
}
