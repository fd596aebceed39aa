package rpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// CallReader reads the calls that a connection forwards, which see only messages.
type CallReader struct {
	operations map[string]personal.Operation // by RPC
}

// NewCallReader returns a reader of the calls of a [Client].
func NewCallReader() CallReader { return CallReader{operationsByMethod()} }

// Call is a call of an operation that has ended.
type Call struct {
	Operation personal.OperationName // empty: it is not in the list of operations
	Code      personal.Code          // empty after a success

	Presented personal.Credentials // of the session that the operation needs; zero: it needs none
	Issued    personal.Credentials // of the session that the response continues or opens; zero: none
}

// Read reads a call of an RPC by its request, response and error.
func (r CallReader) Read(ctx context.Context, method string, request, response any, err error) Call {
	o := r.operations[method]
	call := Call{Operation: o.Name, Code: personal.CodeOf(contractError(ctx, err))}
	if o.Credentials {
		call.Presented = credentialsIn(request)
	}
	if err == nil {
		call.Issued = credentialsIn(response)
	}
	return call
}

func credentialsIn(message any) personal.Credentials {
	if m, ok := message.(interface {
		GetCredentials() *personalv1.Credentials
	}); ok {
		return convert.credentialsFromPB(m.GetCredentials())
	}
	return personal.Credentials{}
}
