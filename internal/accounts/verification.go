package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// ResendVerification implements [personal.Service].
func (s *Service) ResendVerification(context.Context, personal.ResendVerificationRequest) error {
	return refusal(personal.CodeNotFound)
}
