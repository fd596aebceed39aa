package pluginrpc_test

import (
	"context"
	"net/netip"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
	"github.com/cms-personal/personal/shared/pluginrpc/pluginrpctest"
)

func TestCall_AllocatesLittle(t *testing.T) {
	conn := pluginrpctest.NewConn(t, func(personal.Host) personal.Service { return fixed(nil) }, newFakeHost("1"))
	service := pluginrpc.NewService(conn, newFakeHost("1"))
	health := grpc_health_v1.NewHealthClient(conn)
	bare := testing.AllocsPerRun(1000, func() {
		if _, err := health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: "plugin"}); err != nil {
			t.Fatal(err)
		}
	})
	call := testing.AllocsPerRun(1000, func() {
		ctx := personal.WithCall(context.Background(), personal.Call{RequestID: "r", Locale: "en", Agent: "Browser/1", Address: netip.MustParseAddr("192.0.2.1")})
		if _, err := service.Fields(ctx); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("bare %v call %v", bare, call)
}

func BenchmarkFieldsInProcess(b *testing.B) {
	conn := pluginrpctest.NewConn(b, func(personal.Host) personal.Service { return fixed(nil) }, newFakeHost("1"))
	service := pluginrpc.NewService(conn, newFakeHost("1"))
	b.ReportAllocs()
	for b.Loop() {
		ctx := personal.WithCall(context.Background(), personal.Call{RequestID: "r", Locale: "en", Agent: "Browser/1", Address: netip.MustParseAddr("192.0.2.1")})
		if _, err := service.Fields(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
