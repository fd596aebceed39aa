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

// newer is a connection to a plugin that knows more than the last release did.
type newer struct {
	grpc.ClientConnInterface
	t testing.TB
}

func (n newer) Invoke(_ context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	if request := args.(*personalv1.AuthorizeRequest); len(request.ProtoReflect().GetUnknown()) > 0 || request.GetLogin() != "anna" {
		n.t.Errorf("the plugin got %v", request)
	}
	answer := reply.(*personalv1.AuthorizeResponse)
	answer.Credentials = &personalv1.Credentials{UserId: 7}
	answer.ProtoReflect().SetUnknown(unknown())
	return nil
}

func unknown() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
}

func TestReleased_DropsUnknownFieldsAndMethods(t *testing.T) {
	conn := pluginrpctest.Released(t, newer{t: t}, "../../../proto/released.binpb")
	request := &personalv1.AuthorizeRequest{Login: "anna"}
	request.ProtoReflect().SetUnknown(unknown())
	answer := &personalv1.AuthorizeResponse{}
	if err := conn.Invoke(t.Context(), personalv1.PersonalService_Authorize_FullMethodName, request, answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.ProtoReflect().GetUnknown()) > 0 || answer.GetCredentials().GetUserId() != 7 {
		t.Errorf("the host got %v", answer)
	}
	err := conn.Invoke(t.Context(), "/personal.v1.PersonalService/Teleport", request, answer)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("an operation of later: %v", err)
	}
}
