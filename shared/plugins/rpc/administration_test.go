package rpc_test

import (
	"context"
	"net"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// wantNoAdministration checks that every operation returns not_found.
func wantNoAdministration(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	client := newClient(conn, newFakeHost("1"))
	administration := reflect.TypeFor[personal.Administration]()
	for i := range administration.NumMethod() {
		m := administration.Method(i)
		var request any
		if m.Type.NumIn() == 2 {
			request = filled(m.Type.In(1))
		}
		if _, err := callOperation(t.Context(), client, m, request); personal.CodeOf(err) != personal.CodeNotFound {
			t.Errorf("%s: got %v, want not_found", m.Name, err)
		}
	}
}

// A plugin of a version without an administration does not know the gRPC service.
func TestAdministration_OlderPluginIsNotFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	old := grpc.NewServer()
	ended := make(chan error, 1)
	go func() { ended <- old.Serve(listener) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		old.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	wantNoAdministration(t, conn)
}

func TestUser_WithoutIDIsInternalError(t *testing.T) {
	withoutID := personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) {
		return personal.UserRecord{User: personal.User{Login: "anna"}}, nil
	})
	record, err := serve(t, withoutID, newFakeHost("1")).User(t.Context(), 7)
	if personal.CodeOf(err) != personal.CodeInternal || !reflect.ValueOf(record).IsZero() {
		t.Errorf("got %v, %v; want internal", record, err)
	}
}

func TestUser_UnsetValuesStayUnset(t *testing.T) {
	want := personal.UserRecord{User: personal.User{ID: 7, Login: "anna"}, Fields: []personal.ProfileField{{Name: "town"}}}
	bare := personaltest.HandledBy(func(context.Context, personal.OperationName, any) (any, error) { return want, nil })
	got, err := serve(t, bare, newFakeHost("1")).User(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-sent +received):\n%s", diff)
	}
}
