package pluginrpc

import (
	"path"

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

// MethodNames returns the names of all operations as their RPCs have them, which metrics and
// traces show.
func MethodNames() []string {
	var names []string
	for _, o := range personal.Operations() {
		names = append(names, path.Base(methodOf(o)))
	}
	return names
}

// methodOf returns the full name of the RPC of an operation: it has the operation's name,
// except for two that are older than it.
func methodOf(o personal.Operation) string {
	switch {
	case o.Name == personal.OpRevokeUserSessions:
		return personalv1.AdministrationService_EndUserSessions_FullMethodName
	case o.Name == personal.OpRemoveOwnTwoFactor:
		return personalv1.PersonalService_EndTwoFactor_FullMethodName
	case o.Administration:
		return "/" + personalv1.AdministrationService_ServiceDesc.ServiceName + "/" + string(o.Name)
	}
	return "/" + personalv1.PersonalService_ServiceDesc.ServiceName + "/" + string(o.Name)
}
