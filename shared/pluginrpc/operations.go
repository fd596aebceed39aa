package pluginrpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// operationsByMethod returns the rows of the list of operations by their RPC.
func operationsByMethod() map[string]personal.Operation {
	rows := map[string]personal.Operation{}
	for _, o := range personal.Operations() {
		rows[methodOf(o)] = o
	}
	return rows
}

// methodOf returns the full name of the RPC of an operation: it has the operation's name,
// except for one that is older than it.
func methodOf(o personal.Operation) string {
	switch {
	case o.Name == personal.OpRevokeUserSessions:
		return personalv1.AdministrationService_EndUserSessions_FullMethodName
	case o.Administration:
		return "/" + personalv1.AdministrationService_ServiceDesc.ServiceName + "/" + string(o.Name)
	}
	return "/" + personalv1.PersonalService_ServiceDesc.ServiceName + "/" + string(o.Name)
}

// changedUser returns the id of the user whom a call may have changed; 0 for none. all
// reports that it may be any user.
func changedUser(o personal.Operation, request, response any) (id int64, all bool) {
	switch o.Changes {
	case personal.ChangesNothing:
		return 0, false
	case personal.ChangesCaller:
		if r, ok := request.(interface {
			GetCredentials() *personalv1.Credentials
		}); ok {
			return r.GetCredentials().GetUserId(), false
		}
	case personal.ChangesNamedUser:
		for _, m := range []any{request, response} {
			switch m := m.(type) {
			case interface{ GetUserId() int64 }:
				return m.GetUserId(), false
			case interface{ GetId() int64 }:
				return m.GetId(), false
			case interface {
				GetCredentials() *personalv1.Credentials
			}:
				return m.GetCredentials().GetUserId(), false
			}
		}
	case personal.ChangesAll:
		// The result of an older plugin does not name the user, nor does one that was lost.
		if r, ok := response.(interface{ GetUserId() int64 }); ok && r.GetUserId() != 0 {
			return r.GetUserId(), false
		}
	}
	return 0, true
}
