package pluginrpctest_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/pluginrpc/pluginrpctest"
)

// newer is a connection to a plugin that is newer than the last release.
type newer struct {
	grpc.ClientConnInterface
	t testing.TB
}

func (n newer) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	if request := args.(*personalv1.AuthorizeRequest); len(request.ProtoReflect().GetUnknown()) > 0 || request.GetLogin() != "anna" {
		n.t.Errorf("plugin: got %v, want login anna and no unknown fields", request)
	}
	response := reply.(*personalv1.AuthorizeResponse)
	response.Credentials = &personalv1.Credentials{UserId: 7}
	response.ProtoReflect().SetUnknown(unknown())
	return nil
}

func unknown() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
}

func TestReleased_DropsUnknownFieldsAndMethods(t *testing.T) {
	conn := pluginrpctest.Released(t, newer{t: t}, "../../../proto/released.binpb")
	request := &personalv1.AuthorizeRequest{Login: "anna"}
	request.ProtoReflect().SetUnknown(unknown())
	response := &personalv1.AuthorizeResponse{}
	if err := conn.Invoke(t.Context(), personalv1.PersonalService_Authorize_FullMethodName, request, response); err != nil {
		t.Fatal(err)
	}
	if len(response.ProtoReflect().GetUnknown()) > 0 || response.GetCredentials().GetUserId() != 7 {
		t.Errorf("host: got %v, want user 7 and no unknown fields", response)
	}
	err := conn.Invoke(t.Context(), "/personal.v1.PersonalService/Teleport", request, response)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("operation of a later version: got %v, want unimplemented", err)
	}
}
