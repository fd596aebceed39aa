package accounts

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

// CreateUser implements [personal.Administration].
func (s *Service) CreateUser(context.Context, personal.CreateUserRequest) (int64, error) {
	return 0, refusal(personal.CodeNotFound)
}
