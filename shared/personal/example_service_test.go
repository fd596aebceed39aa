package personal_test

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// fakeService returns a service that registers and signs in everyone.
func fakeService() personal.Service {
	return &personaltest.Service{
		FieldsFunc: func(context.Context) ([]personal.Field, error) { return nil, nil },
		RegisterFunc: func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, nil
		},
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, nil
		},
	}
}
