package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// LiftLimits implements [personal.Administration].
func (s *Service) LiftLimits(context.Context, personal.LiftLimitsRequest) error {
	return refusal(personal.CodeNotFound)
}
