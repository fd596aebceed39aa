package accounts

import (
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// LimitPreview sets how long a preview of user fields may take.
func LimitPreview(s *Service, d time.Duration) { s.previewTime = d }

// RequireVerification changes the setting, which a restart of the process would do.
func (s *Service) RequireVerification(on bool) {
	s.settings.EmailVerification = personal.VerificationOptional
	if on {
		s.settings.EmailVerification = personal.VerificationRequired
	}
}

// OfferTwoFactor changes the setting, which a restart of the process would do.
func (s *Service) OfferTwoFactor(on bool) { s.settings.TwoFactor = on }
