package personalhttp

import (
	"context"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// input is a request that has been read.
type input struct {
	credentials personal.Credentials // zero unless the headers hold a well-formed pair
	params      params
	labels      *labels
	document    func() (*document, error)
}

// operation is one row of the HTTP contract, section 3.
type operation struct {
	method string
	call   func(context.Context, personal.Service, *input) (data any, err error)
	done   done // what to tell the user on success; empty: nothing
	bare   bool // data itself is the answer, without the envelope
}

// route is one path with the operations behind its methods.
type route struct {
	name       string // the path under the prefix, without slashes
	operations []operation
	allow      string // the methods, as headers list them
}

// newRoute returns a route; operations are in the order of their methods' names.
func newRoute(name string, operations ...operation) *route {
	methods := make([]string, 0, len(operations))
	for _, op := range operations {
		methods = append(methods, op.method)
	}
	return &route{name: name, operations: operations, allow: strings.Join(methods, ", ")}
}

// path is the route's canonical path under the prefix. Only a file has no final
// slash.
func (r *route) path() string {
	if strings.Contains(r.name, ".") {
		return "/" + r.name
	}
	return "/" + r.name + "/"
}

// operation returns the operation of a method, false if there is none.
func (r *route) operation(method string) (operation, bool) {
	i := slices.IndexFunc(r.operations, func(op operation) bool { return op.method == method })
	if i < 0 {
		return operation{}, false
	}
	return r.operations[i], true
}
