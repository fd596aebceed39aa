package pluginrpc

import (
	"net/netip"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// The functions of this file convert the requests and responses of CreateUser, Explain,
// LiftLimits, RehearseFields and FieldsFill.

func createUserToPB(r personal.CreateUserRequest) *personalv1.CreateUserRequest {
	return &personalv1.CreateUserRequest{
		Login: r.Login, Email: r.Email, Fields: inputsToPB(r.Fields), Invite: r.Invite, Locale: r.Locale,
	}
}

func createUserFromPB(r *personalv1.CreateUserRequest) personal.CreateUserRequest {
	return personal.CreateUserRequest{
		Login: r.GetLogin(), Email: r.GetEmail(), Fields: inputsFromPB(r.GetFields()), Invite: r.GetInvite(), Locale: r.GetLocale(),
	}
}

// createdUser is the id of a user, without which a creation must not count as a success.
type createdUser int64

func createdFromPB(r *personalv1.CreateUserResponse) createdUser { return createdUser(r.GetId()) }

func explainToPB(r personal.ExplainRequest) *personalv1.ExplainRequest {
	return &personalv1.ExplainRequest{Login: r.Login, Addresses: addressesToPB(r.Addresses)}
}

func explainFromPB(r *personalv1.ExplainRequest) personal.ExplainRequest {
	return personal.ExplainRequest{Login: r.GetLogin(), Addresses: addressesFromPB(r.GetAddresses())}
}

func liftLimitsToPB(r personal.LiftLimitsRequest) *personalv1.LiftLimitsRequest {
	return &personalv1.LiftLimitsRequest{UserId: r.UserID, Addresses: addressesToPB(r.Addresses)}
}

func liftLimitsFromPB(r *personalv1.LiftLimitsRequest) personal.LiftLimitsRequest {
	return personal.LiftLimitsRequest{UserID: r.GetUserId(), Addresses: addressesFromPB(r.GetAddresses())}
}

func addressesToPB(addresses []netip.Addr) []string { return convertAll(addresses, netip.Addr.String) }

// addressesFromPB turns a malformed address into the zero Addr, which the operation
// refuses.
func addressesFromPB(texts []string) []netip.Addr {
	return convertAll(texts, func(text string) netip.Addr {
		address, _ := netip.ParseAddr(text)
		return address
	})
}

func explanationToPB(e personal.Explanation) *personalv1.ExplainResponse {
	response := &personalv1.ExplainResponse{Verdicts: convertAll(e.Verdicts, verdictToPB)}
	if e.User != nil {
		response.User = userToPB(*e.User)
	}
	return response
}

func explanationFromPB(r *personalv1.ExplainResponse) personal.Explanation {
	e := personal.Explanation{Verdicts: convertAll(r.GetVerdicts(), verdictFromPB)}
	if r.GetUser() != nil {
		user := userFromPB(r.GetUser())
		e.User = &user
	}
	return e
}

func verdictToPB(v personal.Verdict) *personalv1.Verdict {
	return &personalv1.Verdict{
		Reason: string(v.Reason), Action: string(v.Action), Limit: v.Limit, Address: v.Address,
		Until: timeToPB(v.Until), Since: timeToPB(v.Since), Kind: v.Kind, Reply: v.Reply, Count: int64(v.Count),
	}
}

func verdictFromPB(v *personalv1.Verdict) personal.Verdict {
	return personal.Verdict{
		Reason: personal.Reason(v.GetReason()), Action: personal.Action(v.GetAction()), Limit: v.GetLimit(), Address: v.GetAddress(),
		Until: timeFromPB(v.GetUntil()), Since: timeFromPB(v.GetSince()), Kind: v.GetKind(), Reply: v.GetReply(), Count: int(v.GetCount()),
	}
}

func rehearsalToPB(r personal.FieldsRehearsal) *personalv1.RehearseFieldsResponse {
	return &personalv1.RehearseFieldsResponse{
		Accounts: r.Accounts, Violations: r.Violations, Fillable: r.Fillable, Complete: r.Complete,
		Examples: convertAll(r.Examples, func(v personal.FieldsViolation) *personalv1.FieldsViolation {
			return &personalv1.FieldsViolation{UserId: v.UserID, Login: v.Login, Fields: convertTexts[string](v.Fields)}
		}),
	}
}

func rehearsalFromPB(r *personalv1.RehearseFieldsResponse) personal.FieldsRehearsal {
	return personal.FieldsRehearsal{
		Accounts: r.GetAccounts(), Violations: r.GetViolations(), Fillable: r.GetFillable(), Complete: r.GetComplete(),
		Examples: convertAll(r.GetExamples(), func(v *personalv1.FieldsViolation) personal.FieldsViolation {
			return personal.FieldsViolation{UserID: v.GetUserId(), Login: v.GetLogin(), Fields: convertTexts[personal.FieldErrorCode](v.GetFields())}
		}),
	}
}

func fieldsFillToPB(f personal.FieldsFill) *personalv1.FieldsFillResponse {
	return &personalv1.FieldsFillResponse{
		Revision: f.Revision, State: string(f.State), Checked: f.Checked, Total: f.Total, Filled: f.Filled,
		Started: timeToPB(f.Started), Ended: timeToPB(f.Ended),
	}
}

func fieldsFillFromPB(r *personalv1.FieldsFillResponse) personal.FieldsFill {
	return personal.FieldsFill{
		Revision: r.GetRevision(), State: personal.FillState(r.GetState()), Checked: r.GetChecked(), Total: r.GetTotal(), Filled: r.GetFilled(),
		Started: timeFromPB(r.GetStarted()), Ended: timeFromPB(r.GetEnded()),
	}
}
