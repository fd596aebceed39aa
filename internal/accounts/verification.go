package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// RequireVerification sets whether new accounts must confirm their e-mail before
// their first sign-in. It is safe for concurrent use.
func (s *Service) RequireVerification(on bool) { s.required.Store(on) }

func (s *Service) verificationRequired() bool { return s.required.Load() }

// ResendVerification implements [personal.Service].
func (s *Service) ResendVerification(context.Context, personal.ResendVerificationRequest) error {
	return refusal(personal.CodeNotFound)
}
