package accounts

import (
	"context"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// Features implements [personal.Service].
func (s *Service) Features(context.Context) (personal.Features, error) {
	verification := VerificationOff
	switch {
	case s.verificationRequired():
		verification = VerificationRequired
	case s.verifies(): // also "required" that is not in force
		verification = VerificationOptional
	}
	return personal.Features{
		PasswordMinLength: s.settings.MinPassword,
		PasswordMaxBytes:  password.MaxBytes,
		LoginMinLength:    minLogin,
		LoginMaxLength:    maxLogin,
		LoginWithEmail:    s.settings.LoginWithEmail,
		EmailVerification: verification,
		TwoFactor:         s.offersTwoFactor() == nil,
		Passkeys:          s.offersPasskeys() == nil,
		DeletionGrace:     s.settings.DeletionGrace,
	}, nil
}
