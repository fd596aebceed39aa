package pluginrpctest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Released returns a connection that is limited to the protocol of the last release, as
// if one side were of that release: other operations are Unimplemented, and other
// fields are dropped. image is the file with its descriptors, proto/released.binpb.
func Released(t testing.TB, conn grpc.ClientConnInterface, image string) grpc.ClientConnInterface {
	t.Helper()
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatalf("reading the released protocol: %v", err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatalf("reading the released protocol: %v", err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatalf("reading the released protocol: %v", err)
	}
	return released{ClientConnInterface: conn, files: files}
}

type released struct {
	grpc.ClientConnInterface
	files *protoregistry.Files
}

// Invoke implements [grpc.ClientConnInterface].
func (r released) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	found, err := r.files.FindDescriptorByName(name)
	known, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return status.Errorf(codes.Unimplemented, "the last release does not know %s", method)
	}
	request := proto.Clone(args.(proto.Message))
	if err := dropUnknown(request, known.Input()); err != nil {
		return fmt.Errorf("sending %s: %w", method, err)
	}
	if err := r.ClientConnInterface.Invoke(ctx, method, request, reply, opts...); err != nil {
		return err
	}
	if err := dropUnknown(reply.(proto.Message), known.Output()); err != nil {
		return fmt.Errorf("receiving %s: %w", method, err)
	}
	return nil
}

// dropUnknown removes the fields that the descriptor does not have from a message.
func dropUnknown(m proto.Message, known protoreflect.MessageDescriptor) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	older := dynamicpb.NewMessage(known)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, older); err != nil {
		return err
	}
	if data, err = proto.Marshal(older); err != nil {
		return err
	}
	proto.Reset(m)
	return proto.Unmarshal(data, m)
}
