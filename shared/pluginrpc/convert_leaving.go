package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file convert the requests and responses of ResendVerification,
// Export, Delete and UndoDelete.

func resendVerificationToPB(r personal.ResendVerificationRequest) *personalv1.ResendVerificationRequest {
	return &personalv1.ResendVerificationRequest{Login: r.Login, Email: r.Email, Faults: convertTexts[string](r.FieldErrors)}
}

func resendVerificationFromPB(r *personalv1.ResendVerificationRequest) personal.ResendVerificationRequest {
	return personal.ResendVerificationRequest{
		Login:       r.GetLogin(),
		Email:       r.GetEmail(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func exportToPB(r personal.ExportRequest) *personalv1.ExportRequest {
	return &personalv1.ExportRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func exportRequestFromPB(r *personalv1.ExportRequest) personal.ExportRequest {
	return personal.ExportRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func exportedToPB(e personal.Export) (*personalv1.ExportResponse, error) {
	profile, err := profileToPB(e.Profile)
	if err != nil {
		return nil, err
	}
	return &personalv1.ExportResponse{
		UserId:   e.UserID,
		Profile:  profile,
		Created:  timeToPB(e.Created),
		Updated:  timeToPB(e.Updated),
		Sessions: convertAll(e.Sessions, sessionToPB),
		KnownAddresses: convertAll(e.KnownAddresses, func(a personal.KnownAddress) *personalv1.KnownAddress {
			return &personalv1.KnownAddress{Address: a.Address, LastSeen: timeToPB(a.LastSeen)}
		}),
		Events: convertAll(e.Events, func(e personal.ExportedEvent) *personalv1.ExportedEvent {
			return &personalv1.ExportedEvent{Type: string(e.Type), Time: timeToPB(e.Time), Address: e.Address, Actor: string(e.Actor)}
		}),
		PendingMails: convertAll(e.PendingMails, func(m personal.PendingMail) *personalv1.PendingMail {
			return &personalv1.PendingMail{Kind: m.Kind, Created: timeToPB(m.Created)}
		}),
		Truncated: e.Truncated,
	}, nil
}

func exportFromPB(e *personalv1.ExportResponse) personal.Export {
	return personal.Export{
		UserID:   e.GetUserId(),
		Profile:  profileFromPB(e),
		Created:  timeFromPB(e.GetCreated()),
		Updated:  timeFromPB(e.GetUpdated()),
		Sessions: sessionsFromPB(e),
		KnownAddresses: convertAll(e.GetKnownAddresses(), func(a *personalv1.KnownAddress) personal.KnownAddress {
			return personal.KnownAddress{Address: a.GetAddress(), LastSeen: timeFromPB(a.GetLastSeen())}
		}),
		Events: convertAll(e.GetEvents(), func(e *personalv1.ExportedEvent) personal.ExportedEvent {
			return personal.ExportedEvent{
				Type: personal.EventType(e.GetType()), Time: timeFromPB(e.GetTime()), Address: e.GetAddress(), Actor: personal.Actor(e.GetActor()),
			}
		}),
		PendingMails: convertAll(e.GetPendingMails(), func(m *personalv1.PendingMail) personal.PendingMail {
			return personal.PendingMail{Kind: m.GetKind(), Created: timeFromPB(m.GetCreated())}
		}),
		Truncated: e.GetTruncated(),
	}
}

func deleteToPB(r personal.DeleteRequest) *personalv1.DeleteRequest {
	return &personalv1.DeleteRequest{
		Credentials: credentialsToPB(r.Credentials),
		Password:    r.Password,
		Code:        r.Code,
		Faults:      convertTexts[string](r.FieldErrors),
	}
}

func deleteFromPB(r *personalv1.DeleteRequest) personal.DeleteRequest {
	return personal.DeleteRequest{
		Credentials: credentialsFromPB(r.GetCredentials()),
		Password:    r.GetPassword(),
		Code:        r.GetCode(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}

func undoDeleteToPB(r personal.UndoDeleteRequest) *personalv1.UndoDeleteRequest {
	return &personalv1.UndoDeleteRequest{Token: r.Token, Faults: convertTexts[string](r.FieldErrors)}
}

func undoDeleteFromPB(r *personalv1.UndoDeleteRequest) personal.UndoDeleteRequest {
	return personal.UndoDeleteRequest{
		Token:       r.GetToken(),
		FieldErrors: convertTexts[personal.FieldErrorCode](r.GetFaults()),
	}
}
