package rpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/cms-personal/personal/shared/personal"
)

var errNotText = errors.New("the request has a text that is not valid UTF-8")

// checkRequest returns malformed_request if a text of a request is not valid UTF-8 (HTTP
// contract, section 1). It encodes the request, as gRPC does later: that is the one reason
// why a message of proto3 has no encoding, it holds for every text of every message, and
// it costs no allocation. gRPC reports it as an internal error, which would count against
// the plugin.
func checkRequest(ctx context.Context, request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil // of a test; gRPC refuses it
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(proto.Size(m))
	defer pool.Put(buffer)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], m); err != nil {
		return &personal.Error{Code: personal.CodeMalformedRequest, RequestID: requestID(ctx), Cause: errNotText}
	}
	return nil
}

// maxPooled is the size up to which gRPC's pool has fitting buffers. A larger message gets
// one of 1 MiB until it is sent.
const maxPooled = 32 << 10

// codec is gRPC's own, but a large message takes no more memory than it has bytes: many
// that wait to be sent at the same time are what a flood of large requests leaves.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok || proto.Size(m) <= maxPooled {
		return c.CodecV2.Marshal(v)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// Name is empty, so that the content type of calls stays application/grpc.
func (codec) Name() string { return "" }
