package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// RequireVerification switches VerificationRequired on or off: it is in force only while
// every plugin version that can run on the database enforces it. Until the first call it
// is off, and works like VerificationOptional. It may be called at any time.
func (s *Service) RequireVerification(on bool) { s.requireVerification.Store(on) }

// verificationRequired reports whether new accounts must verify their e-mail before they
// can sign in.
func (s *Service) verificationRequired() bool { return s.requireVerification.Load() }

// ResendVerification implements [personal.Service].
func (s *Service) ResendVerification(context.Context, personal.ResendVerificationRequest) error {
	return refusal(personal.CodeNotFound)
}
