package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// Export implements [personal.Service].
func (s *Service) Export(context.Context, personal.ExportRequest) (personal.Export, error) {
	return personal.Export{}, refusal(personal.CodeNotFound)
}
