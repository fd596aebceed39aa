package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file convert the requests and responses of BeginTwoFactor,
// ConfirmTwoFactor, RenewRecoveryCodes and EndTwoFactor.

func beginTwoFactorToPB(r personal.BeginTwoFactorRequest) *personalv1.BeginTwoFactorRequest {
	return &personalv1.BeginTwoFactorRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func beginTwoFactorFromPB(r *personalv1.BeginTwoFactorRequest) personal.BeginTwoFactorRequest {
	return personal.BeginTwoFactorRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func twoFactorSecretFromPB(r *personalv1.BeginTwoFactorResponse) personal.TwoFactorSecret {
	return personal.TwoFactorSecret{Secret: r.GetSecret(), URI: r.GetUri()}
}

func confirmTwoFactorToPB(r personal.ConfirmTwoFactorRequest) *personalv1.ConfirmTwoFactorRequest {
	return &personalv1.ConfirmTwoFactorRequest{
		Credentials: credentialsToPB(r.Credentials),
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func confirmTwoFactorFromPB(r *personalv1.ConfirmTwoFactorRequest) personal.ConfirmTwoFactorRequest {
	return personal.ConfirmTwoFactorRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func renewRecoveryCodesToPB(r personal.RenewRecoveryCodesRequest) *personalv1.RenewRecoveryCodesRequest {
	return &personalv1.RenewRecoveryCodesRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func renewRecoveryCodesFromPB(r *personalv1.RenewRecoveryCodesRequest) personal.RenewRecoveryCodesRequest {
	return personal.RenewRecoveryCodesRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func endTwoFactorToPB(r personal.EndTwoFactorRequest) *personalv1.EndTwoFactorRequest {
	return &personalv1.EndTwoFactorRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func endTwoFactorFromPB(r *personalv1.EndTwoFactorRequest) personal.EndTwoFactorRequest {
	return personal.EndTwoFactorRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

// recoveryCodes are the codes of a response, see isComplete.
type recoveryCodes []string

func recoveryCodesFromPB(r *personalv1.RenewRecoveryCodesResponse) recoveryCodes {
	return r.GetRecoveryCodes()
}

func confirmedTwoFactorToPB(c personal.ConfirmedTwoFactor) *personalv1.ConfirmTwoFactorResponse {
	return &personalv1.ConfirmTwoFactorResponse{Credentials: credentialsToPB(c.Credentials), RecoveryCodes: c.RecoveryCodes}
}

func confirmedTwoFactorFromPB(r *personalv1.ConfirmTwoFactorResponse) personal.ConfirmedTwoFactor {
	return personal.ConfirmedTwoFactor{Credentials: issuedCredentialsFromPB(r), RecoveryCodes: r.GetRecoveryCodes()}
}
