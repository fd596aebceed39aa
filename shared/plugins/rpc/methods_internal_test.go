package rpc

import (
	"testing"

	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

func TestOperations_HaveOneRPCEach(t *testing.T) {
	rows := operationsByMethod()
	for _, service := range []grpc.ServiceDesc{personalv1.PersonalService_ServiceDesc, personalv1.AdministrationService_ServiceDesc} {
		for _, m := range service.Methods {
			method := "/" + service.ServiceName + "/" + m.MethodName
			if _, ok := rows[method]; !ok {
				t.Errorf("%s has no row: add it to shared/personal/operations.go", method)
			}
			delete(rows, method)
		}
	}
	for method, o := range rows {
		t.Errorf("%s has no RPC %s: add it to proto/personal/v1, or remove the row from shared/personal/operations.go", o.Name, method)
	}
}
