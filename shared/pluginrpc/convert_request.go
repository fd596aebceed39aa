package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

func authorizeToPB(r personal.AuthorizeRequest) *personalv1.AuthorizeRequest {
	return &personalv1.AuthorizeRequest{
		Login:    r.Login,
		Password: r.Password,
		Faults:   mapTexts[string](r.FieldErrors),
	}
}

func authorizeFromPB(r *personalv1.AuthorizeRequest) personal.AuthorizeRequest {
	return personal.AuthorizeRequest{
		Login:       r.GetLogin(),
		Password:    r.GetPassword(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func registerToPB(r personal.RegisterRequest) *personalv1.RegisterRequest {
	return &personalv1.RegisterRequest{
		Login:           r.Login,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Email:           r.Email,
		Fields:          inputsToPB(r.Fields),
		Faults:          mapTexts[string](r.FieldErrors),
	}
}

func registerFromPB(r *personalv1.RegisterRequest) personal.RegisterRequest {
	return personal.RegisterRequest{
		Login:           r.GetLogin(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		Email:           r.GetEmail(),
		Fields:          inputsFromPB(r.GetFields()),
		FieldErrors:     mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func recoverToPB(r personal.RecoverRequest) *personalv1.RecoverRequest {
	return &personalv1.RecoverRequest{
		Login:  r.Login,
		Email:  r.Email,
		Faults: mapTexts[string](r.FieldErrors),
	}
}

func recoverFromPB(r *personalv1.RecoverRequest) personal.RecoverRequest {
	return personal.RecoverRequest{
		Login:       r.GetLogin(),
		Email:       r.GetEmail(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func recoverConfirmToPB(r personal.RecoverConfirmRequest) *personalv1.RecoverConfirmRequest {
	return &personalv1.RecoverConfirmRequest{
		Token:           r.Token,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Faults:          mapTexts[string](r.FieldErrors),
	}
}

func recoverConfirmFromPB(r *personalv1.RecoverConfirmRequest) personal.RecoverConfirmRequest {
	return personal.RecoverConfirmRequest{
		Token:           r.GetToken(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		FieldErrors:     mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func updateProfileToPB(r personal.UpdateProfileRequest) *personalv1.UpdateProfileRequest {
	return &personalv1.UpdateProfileRequest{
		Credentials: credentialsToPB(r.Credentials),
		Fields:      inputsToPB(r.Fields),
	}
}

func updateProfileFromPB(r *personalv1.UpdateProfileRequest) personal.UpdateProfileRequest {
	return personal.UpdateProfileRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Fields:      inputsFromPB(r.GetFields()),
	}
}

func changePasswordToPB(r personal.ChangePasswordRequest) *personalv1.ChangePasswordRequest {
	return &personalv1.ChangePasswordRequest{
		Credentials:     credentialsToPB(r.Credentials),
		OldPassword:     r.OldPassword,
		Password:        r.Password,
		ConfirmPassword: r.ConfirmPassword,
		Faults:          mapTexts[string](r.FieldErrors),
	}
}

func changePasswordFromPB(r *personalv1.ChangePasswordRequest) personal.ChangePasswordRequest {
	return personal.ChangePasswordRequest{
		Credentials:     credentialsFromPB(r.GetCredentials()),
		OldPassword:     r.GetOldPassword(),
		Password:        r.GetPassword(),
		ConfirmPassword: r.GetConfirmPassword(),
		FieldErrors:     mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func changeEmailToPB(r personal.ChangeEmailRequest) *personalv1.ChangeEmailRequest {
	return &personalv1.ChangeEmailRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Email:       r.Email,
		Faults:      mapTexts[string](r.FieldErrors),
	}
}

func changeEmailFromPB(r *personalv1.ChangeEmailRequest) personal.ChangeEmailRequest {
	return personal.ChangeEmailRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Email:       r.GetEmail(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func confirmEmailToPB(r personal.ConfirmEmailRequest) *personalv1.ConfirmEmailRequest {
	return &personalv1.ConfirmEmailRequest{
		Token:  r.Token,
		Faults: mapTexts[string](r.FieldErrors),
	}
}

func confirmEmailFromPB(r *personalv1.ConfirmEmailRequest) personal.ConfirmEmailRequest {
	return personal.ConfirmEmailRequest{
		Token:       r.GetToken(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func logoutToPB(r personal.LogoutRequest) *personalv1.LogoutRequest {
	return &personalv1.LogoutRequest{
		Credentials: credentialsToPB(r.Credentials),
		All:         r.All,
		Faults:      mapTexts[string](r.FieldErrors),
	}
}

func logoutFromPB(r *personalv1.LogoutRequest) personal.LogoutRequest {
	return personal.LogoutRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		All:         r.GetAll(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func revokeSessionToPB(r personal.RevokeSessionRequest) *personalv1.RevokeSessionRequest {
	return &personalv1.RevokeSessionRequest{
		Credentials: credentialsToPB(r.Credentials),
		Id:          r.ID,
		Faults:      mapTexts[string](r.FieldErrors),
	}
}

func revokeSessionFromPB(r *personalv1.RevokeSessionRequest) personal.RevokeSessionRequest {
	return personal.RevokeSessionRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		ID:          r.GetId(),
		FieldErrors: mapTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}
