package accounts

import "time"

// LimitRehearsal sets how long a rehearsal may take.
func LimitRehearsal(s *Service, d time.Duration) { s.rehearsalTime = d }

// RequireVerification changes the setting, which a restart of the process would do.
func (s *Service) RequireVerification(on bool) {
	s.settings.EmailVerification = VerificationOptional
	if on {
		s.settings.EmailVerification = VerificationRequired
	}
}

// OfferTwoFactor changes the setting, which a restart of the process would do.
func (s *Service) OfferTwoFactor(on bool) { s.settings.TwoFactor = on }
