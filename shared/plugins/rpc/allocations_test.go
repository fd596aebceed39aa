package rpc_test

import (
	"context"
	"net/netip"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

// maxAllocations is how many allocations a call that does nothing may have, in host and
// plugin together, beyond those of a call to gRPC's own health service. There are 31; a
// few more may come with an update of gRPC.
const maxAllocations = 36

func TestCall_AllocatesLittleBesideGRPC(t *testing.T) {
	host := newFakeHost("1")
	conn := rpctest.NewConn(t, func(personal.Host) personal.Service { return empty }, host)
	health := grpc_health_v1.NewHealthClient(conn)
	bare := testing.AllocsPerRun(500, func() {
		if _, err := health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: "plugin"}); err != nil {
			t.Fatal(err)
		}
	})
	service := rpc.NewClient(conn, host)
	call := testing.AllocsPerRun(500, func() {
		if _, err := service.Fields(callContext()); err != nil {
			t.Fatal(err)
		}
	})
	if got := call - bare; got > maxAllocations {
		t.Errorf("got %v allocations, want at most %v", got, maxAllocations)
	}
}

// empty is a service without fields.
var empty = &personaltest.Service{FieldsFunc: func(context.Context) ([]personal.Field, error) { return nil, nil }}

// callContext is the context of a visitor's request.
func callContext() context.Context {
	return personal.WithCall(context.Background(), personal.Call{
		RequestID: "r", Locale: "en", Agent: "Browser/1", Address: netip.MustParseAddr("192.0.2.1"),
	})
}
