package rpc

import (
	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// operationsByMethod returns the rows of the list of operations by the full name of their RPC,
// which has the operation's name.
func operationsByMethod() map[string]personal.Operation {
	rows := map[string]personal.Operation{}
	for _, o := range personal.Operations() {
		service := personalv1.PersonalService_ServiceDesc.ServiceName
		if o.Administration {
			service = personalv1.AdministrationService_ServiceDesc.ServiceName
		}
		rows["/"+service+"/"+string(o.Name)] = o
	}
	return rows
}

// MethodNames returns the names of all operations, which metrics and traces show.
func MethodNames() []string {
	var names []string
	for _, o := range personal.Operations() {
		names = append(names, string(o.Name))
	}
	return names
}
