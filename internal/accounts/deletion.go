package accounts

import (
	"context"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// Delete implements [personal.Service].
func (s *Service) Delete(context.Context, personal.DeleteRequest) (time.Time, error) {
	return time.Time{}, refusal(personal.CodeNotFound)
}

// UndoDelete implements [personal.Service].
func (s *Service) UndoDelete(context.Context, personal.UndoDeleteRequest) (int64, error) {
	return 0, refusal(personal.CodeNotFound)
}
