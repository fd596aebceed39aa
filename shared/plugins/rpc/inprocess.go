package rpc

import (
	"context"
	"log/slog"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// InProcess returns a connection to a service and an administration in this process, for
// [NewClient]. A call passes through all that it would between two processes, but the
// network: conversion, encoding, metadata, and the handling of errors and panics, whose causes
// go to log. It runs in the caller's goroutine.
func InProcess(service personal.Service, administration personal.Administration, log *slog.Logger) grpc.ClientConnInterface {
	p := &process{log: log}
	p.parts.Store(&parts{service: service, administration: administration})
	c := inProcess{intercept: p.intercept, methods: map[string]inProcessMethod{}}
	c.register(&personalv1.PersonalService_ServiceDesc, &serviceServer{process: p})
	c.register(&personalv1.AdministrationService_ServiceDesc, &administrationServer{process: p})
	return c
}

type inProcess struct {
	intercept grpc.UnaryServerInterceptor
	methods   map[string]inProcessMethod
}

type inProcessMethod struct {
	server  any
	handler grpc.MethodHandler
}

func (c inProcess) register(service *grpc.ServiceDesc, server any) {
	for _, m := range service.Methods {
		c.methods["/"+path.Join(service.ServiceName, m.MethodName)] = inProcessMethod{server, m.Handler}
	}
}

// Invoke implements [grpc.ClientConnInterface].
func (c inProcess) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := c.methods[method]
	if !ok {
		return status.Error(codes.Unimplemented, "unknown method")
	}
	request, err := proto.Marshal(args.(proto.Message))
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	served := metadata.NewIncomingContext(withoutValues{ctx}, sent)
	response, err := m.handler(m.server, served, func(into any) error { return proto.Unmarshal(request, into.(proto.Message)) }, c.intercept)
	if err != nil {
		return overTheWire(err)
	}
	encoded, err := proto.Marshal(response.(proto.Message))
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return proto.Unmarshal(encoded, reply.(proto.Message))
}

// overTheWire returns the error as the other process gets it.
func overTheWire(err error) error {
	sent := status.Convert(err).Proto()
	encoded, failed := proto.Marshal(sent)
	if failed == nil {
		proto.Reset(sent)
		failed = proto.Unmarshal(encoded, sent)
	}
	if failed != nil {
		return status.Error(codes.Internal, failed.Error())
	}
	return status.ErrorProto(sent)
}

// NewStream fails: the contract has no streams.
func (c inProcess) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the contract has no streams")
}

// withoutValues ends with a context, but has none of its values: these do not reach another
// process.
type withoutValues struct{ caller context.Context }

func (w withoutValues) Deadline() (time.Time, bool) { return w.caller.Deadline() }
func (w withoutValues) Done() <-chan struct{}       { return w.caller.Done() }
func (w withoutValues) Err() error                  { return w.caller.Err() }
func (w withoutValues) Value(any) any               { return nil }
