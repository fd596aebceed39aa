package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// Explain implements [personal.Administration].
func (s *Service) Explain(context.Context, personal.ExplainRequest) (personal.Explanation, error) {
	return personal.Explanation{}, refusal(personal.CodeNotFound)
}
