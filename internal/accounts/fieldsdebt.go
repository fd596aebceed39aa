package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// RehearseFields implements [personal.Administration].
func (s *Service) RehearseFields(context.Context, []personal.Field) (personal.FieldsRehearsal, error) {
	return personal.FieldsRehearsal{}, refusal(personal.CodeNotFound)
}

// FillFields implements [personal.Administration].
func (s *Service) FillFields(context.Context, string) error { return refusal(personal.CodeNotFound) }

// FieldsFill implements [personal.Administration].
func (s *Service) FieldsFill(context.Context) (personal.FieldsFill, error) {
	return personal.FieldsFill{}, refusal(personal.CodeNotFound)
}
