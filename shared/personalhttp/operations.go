package personalhttp

import (
	"context"

	"github.com/cms-personal/personal/shared/personal"
)

func authorize(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.AuthorizeRequest{Login: p.text("login"), Password: p.text("password")}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	signedIn, err := s.Authorize(ctx, r)
	return newSignedInData(signedIn), err
}

func refresh(ctx context.Context, s personal.Service, in *input) (any, error) {
	c, err := s.Refresh(ctx, in.credentials)
	return newCredentialsData(c), err
}

func register(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.RegisterRequest{
		Login:           p.text("login"),
		Password:        p.text("password"),
		ConfirmPassword: p.text("confirm_password"),
		Email:           p.text("email"),
		Fields:          in.params.except("login", "password", "confirm_password", "email"),
	}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	signedIn, err := s.Register(ctx, r)
	return newSignedInData(signedIn), err
}

func recoverPassword(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.RecoverRequest{Login: p.text("login"), Email: p.text("email")}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.Recover(ctx, r)
}

func confirmRecovery(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.RecoverConfirmRequest{
		Token:           p.text("token"),
		Password:        p.text("password"),
		ConfirmPassword: p.text("confirm_password"),
	}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.RecoverConfirm(ctx, r)
}

func profile(ctx context.Context, s personal.Service, in *input) (any, error) {
	found, err := s.Profile(ctx, in.credentials)
	return profileOnlyData{profileData(found)}, err
}

func updateProfile(ctx context.Context, s personal.Service, in *input) (any, error) {
	saved, err := s.UpdateProfile(ctx, personal.UpdateProfileRequest{
		Credentials: in.credentials,
		Fields:      in.params.except(),
	})
	return profileOnlyData{profileData(saved)}, err
}

func changePassword(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.ChangePasswordRequest{
		Credentials:     in.credentials,
		OldPassword:     p.text("old_password"),
		Password:        p.text("password"),
		ConfirmPassword: p.text("confirm_password"),
	}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	c, err := s.ChangePassword(ctx, r)
	return newCredentialsData(c), err
}

func changeEmail(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.ChangeEmailRequest{
		Credentials: in.credentials,
		Password:    p.text("password"),
		Email:       p.text("email"),
	}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.ChangeEmail(ctx, r)
}

func confirmEmail(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.ConfirmEmailRequest{Token: p.text("token")}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.ConfirmEmail(ctx, r)
}

func logout(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.LogoutRequest{Credentials: in.credentials, All: p.boolean("all")}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.Logout(ctx, r)
}

func sessions(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Sessions(ctx, in.credentials)
	return newSessionsData(list), err
}

func revokeSession(ctx context.Context, s personal.Service, in *input) (any, error) {
	p := reader{params: in.params}
	r := personal.RevokeSessionRequest{Credentials: in.credentials, ID: p.text("id")}
	if err := p.done(&r.FieldErrors); err != nil {
		return nil, err
	}
	return nil, s.RevokeSession(ctx, r)
}

func fields(ctx context.Context, s personal.Service, in *input) (any, error) {
	list, err := s.Fields(ctx)
	return newFieldsData(list, in.labels), err
}
